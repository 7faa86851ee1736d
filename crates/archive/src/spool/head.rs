//! The metadata of an item that a restore needs before it reads the whole item: identity, owners, claims that it
//! mounts.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::ItemId;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// A UID in 16 bytes: the UUID, or a hash of a text that is not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(u128);

impl Uid {
    /// None for an empty text.
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        Some(Self(uuid(text).unwrap_or_else(|| {
            let digest = Sha256::digest(text.as_bytes());
            digest.iter().take(16).fold(0, |number, &byte| number << 8 | u128::from(byte))
        })))
    }

    /// The UID as a number; equal UIDs have equal numbers.
    pub fn number(self) -> u128 {
        self.0
    }
}

/// Eight, four, four, four and twelve hexadecimal digits in lower case.
fn uuid(text: &str) -> Option<u128> {
    if text.len() != 36 {
        return None;
    }
    text.bytes().enumerate().try_fold(0, |number, (at, byte)| match (at, byte) {
        (8 | 13 | 18 | 23, b'-') => Some(number),
        (8 | 13 | 18 | 23, _) => None,
        (_, b'0'..=b'9') => Some(number << 4 | u128::from(byte - b'0')),
        (_, b'a'..=b'f') => Some(number << 4 | u128::from(byte - b'a' + 10)),
        _ => None,
    })
}

/// The part of an object that is kept in the index.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) uid: Option<Uid>,
    pub(super) owners: Vec<Uid>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) claims: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    api_version: String,
    kind: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    spec: PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodSpec {
    volumes: Option<Vec<Volume>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    persistent_volume_claim: Option<Claim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    claim_name: String,
}

/// Limits for one item: bytes of labels, number of owners and of claims. More than any cluster has, and kept in
/// memory.
const MOST_LABEL_BYTES: usize = 256 * 1024;
const MOST_OWNERS: usize = 1000;
const MOST_CLAIMS: usize = 1000;

/// Why an item cannot be restored as it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeadError {
    #[error("it is not an object: {0}")]
    NoObject(serde_json::Error),
    #[error("it is not a pod: {0}")]
    NoPod(serde_json::Error),
    #[error("it has more values than an object can have")]
    TooHeavy,
    #[error("it has no apiVersion or no kind")]
    NoKind,
    #[error("it contains a {kind} of '{api_version}', which is another API group")]
    OtherGroup { kind: String, api_version: String },
    #[error("it contains the object '{name}' of namespace '{namespace}'")]
    OtherObject { name: String, namespace: String },
    #[error("it has more labels, owners or claims than any object has")]
    TooLarge,
}

/// Reads the head of the object that is stored under `id`. Its path in the archive decides whether it is restored, so
/// the object's own metadata must match the path.
pub(super) fn read(id: &ItemId, json: &[u8]) -> Result<Head, HeadError> {
    let object: Object = serde_json::from_slice(json).map_err(HeadError::NoObject)?;
    let Object { api_version, kind, metadata } = object;
    if api_version.is_empty() || kind.is_empty() {
        return Err(HeadError::NoKind);
    }
    if group(&api_version) != Some(id.resource.group.as_str()) {
        return Err(HeadError::OtherGroup { kind, api_version });
    }
    let namespace = metadata.namespace.unwrap_or_default();
    if metadata.name != id.name || namespace != id.namespace.as_deref().unwrap_or_default() {
        return Err(HeadError::OtherObject { name: metadata.name, namespace });
    }
    let is_pod = id.resource.resource == "pods" && id.resource.group.is_empty();
    let owners = metadata.owner_references.unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let claims = if is_pod { claims(json)? } else { Vec::new() };
    let label_bytes: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    if label_bytes > MOST_LABEL_BYTES || owners.len() > MOST_OWNERS || claims.len() > MOST_CLAIMS {
        return Err(HeadError::TooLarge);
    }
    Ok(Head {
        api_version,
        kind,
        uid: metadata.uid.as_deref().and_then(Uid::new),
        owners: owners.iter().filter_map(|owner| Uid::new(&owner.uid)).collect(),
        labels,
        claims,
    })
}

/// The group of `apps/v1` or of `v1`; None for an invalid text.
fn group(api_version: &str) -> Option<&str> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let is_version = !version.is_empty() && version.chars().all(plain);
    let is_group = group.chars().all(|letter| plain(letter) || letter == '.');
    (is_version && is_group && !api_version.starts_with('/')).then_some(group)
}

fn claims(json: &[u8]) -> Result<Vec<String>, HeadError> {
    let pod: Pod = serde_json::from_slice(json).map_err(HeadError::NoPod)?;
    let volumes = pod.spec.volumes.unwrap_or_default();
    let claims = volumes.into_iter().filter_map(|volume| volume.persistent_volume_claim);
    Ok(claims.map(|claim| claim.claim_name).filter(|name| !name.is_empty()).collect())
}
