//! One object as received, with the few fields that decisions need.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use lifeboat_api::catalogue::{ItemId, ResourceType};
use lifeboat_api::velero::names;
use lifeboat_plan::filter::ObjectFacts;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The fields that are read of every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    pub name: String,
    /// None for cluster-scoped objects.
    pub namespace: Option<String>,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl ItemMeta {
    pub fn id(&self, kind: &ResourceType) -> ItemId {
        ItemId { resource: kind.id.clone(), namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// The facts that filters use.
    pub fn facts(&self) -> ObjectFacts<'_> {
        ObjectFacts {
            name: &self.name,
            labels: Some(&self.labels),
            namespace: self.namespace.as_deref(),
            excluded: self.labels.get(names::EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true"),
            deleting: self.deleting,
        }
    }
}

/// An object as JSON, with its type.
#[derive(Clone, Debug)]
pub struct RawItem {
    pub meta: ItemMeta,
    /// Complete, including `apiVersion` and `kind`, which lists of built-in types omit.
    pub json: Bytes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(default)]
    api_version: Option<IgnoredAny>,
    #[serde(default)]
    kind: Option<IgnoredAny>,
    #[serde(borrow)]
    metadata: Meta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

impl RawItem {
    pub(super) fn read(json: Bytes, kind: &ResourceType) -> Result<Self, serde_json::Error> {
        let head: Head<'_> = serde_json::from_slice(&json)?;
        let meta = ItemMeta {
            name: head.metadata.name.into_owned(),
            namespace: head.metadata.namespace.map(Cow::into_owned).filter(|_| kind.namespaced),
            uid: head.metadata.uid.map(Cow::into_owned).unwrap_or_default(),
            labels: head.metadata.labels.unwrap_or_default(),
            deleting: head.metadata.deletion_timestamp.is_some(),
        };
        let typed = head.api_version.is_some() && head.kind.is_some();
        let json = if typed { json } else { with_type(&json, kind) };
        Ok(Self { meta, json })
    }
}

/// Adds the type to an object that lacks it.
fn with_type(json: &Bytes, kind: &ResourceType) -> Bytes {
    // serde parsed an object, so the text begins with a brace, after white space at most.
    let start = json.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
    let front = format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", kind.api_version(), kind.kind);
    let mut whole = BytesMut::with_capacity(front.len() + json.len() - start);
    whole.put_slice(front.as_bytes());
    whole.put_slice(&json[start..]);
    whole.freeze()
}
