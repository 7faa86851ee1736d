//! Conversion between the wire and our own types. Values from a plugin are checked here: names that no API server would
//! accept, items that are not objects, oversized lists. Pure.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::catalogue::{GroupResource, ItemId, is_path_segment};
use lifeboat_plugin_protocol::generated::{
    OperationProgress as WireProgress, ResourceIdentifier, ResourceSelector,
};
use serde::Serialize;
use serde_json::Value;

use crate::actions::{AppliesTo, OperationProgress};
use crate::host::{PluginError, shortened};

/// The maximum number of additional items of one item; more are taken for a mistake.
const MOST_ITEMS: usize = 10_000;
/// The maximum length of a name in Kubernetes.
const LONGEST_NAME: usize = 253;
/// The earliest time that is accepted; earlier ones are Go's zero time or mean unknown.
const EARLIEST: i64 = 1;

/// The plugin and the method whose answer is being read, for errors.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) plugin: &'a str,
    pub(super) call: &'static str,
}

impl Answer<'_> {
    pub(super) fn wrong(self, reason: impl Into<String>) -> PluginError {
        PluginError::Answer { plugin: self.plugin.to_owned(), call: self.call, reason: reason.into() }
    }

    /// An object as JSON. A plugin may change an object, but not its kind.
    pub(super) fn item(self, bytes: &[u8], asked: &GroupKind) -> Result<Value, PluginError> {
        let item: Value = serde_json::from_slice(bytes)
            .map_err(|error| self.wrong(format!("the item is not valid JSON: {error}")))?;
        let name = item.pointer("/metadata/name").and_then(Value::as_str);
        let Some(name) = name.filter(|name| is_path_segment(name)) else {
            return Err(self.wrong(format!("the item has the name {name:?}")));
        };
        let namespace = item.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        if !namespace.is_empty() && !is_path_segment(namespace) {
            return Err(self.wrong(format!("the item {name:?} has the namespace {namespace:?}")));
        }
        let found = GroupKind::of(&item);
        if found != *asked {
            return Err(self.wrong(format!("the item was a {asked} and came back as a {found}")));
        }
        Ok(item)
    }

    /// Identifiers of other items.
    pub(super) fn items(self, wire: Vec<ResourceIdentifier>) -> Result<Vec<ItemId>, PluginError> {
        if wire.len() > MOST_ITEMS {
            return Err(self.wrong(format!("it names {} items, more than {MOST_ITEMS}", wire.len())));
        }
        wire.into_iter().map(|id| self.identifier(id)).collect()
    }

    fn identifier(self, id: ResourceIdentifier) -> Result<ItemId, PluginError> {
        let wrong = |what: &str, value: &str| self.wrong(format!("an item has the {what} {value:?}"));
        let is_type = |text: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
                && text.len() <= LONGEST_NAME
        };
        if id.resource.is_empty() || !is_type(&id.resource) {
            return Err(wrong("resource", &id.resource));
        }
        if !is_type(&id.group) || id.group.contains("..") {
            return Err(wrong("group", &id.group));
        }
        if !is_path_segment(&id.name) {
            return Err(wrong("name", &id.name));
        }
        if !id.namespace.is_empty() && !is_path_segment(&id.namespace) {
            return Err(wrong("namespace", &id.namespace));
        }
        let namespace = (!id.namespace.is_empty()).then_some(id.namespace);
        Ok(ItemId { resource: GroupResource::new(id.group, id.resource), namespace, name: id.name })
    }
}

/// The group and kind of an object; its version may change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupKind {
    group: String,
    kind: String,
}

impl GroupKind {
    pub(super) fn of(item: &Value) -> Self {
        let version = item["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
        Self { group, kind: item["kind"].as_str().unwrap_or_default().to_owned() }
    }
}

impl std::fmt::Display for GroupKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// Serializes one of our objects for the wire.
pub(super) fn json<T: Serialize>(object: &T) -> Result<Vec<u8>, crate::ActionError> {
    serde_json::to_vec(object)
        .map_err(|error| crate::ActionError::Failed(format!("cannot write an object as JSON: {error}")))
}

pub(super) fn identifiers(items: &[ItemId]) -> Vec<ResourceIdentifier> {
    let wire = |item: &ItemId| ResourceIdentifier {
        group: item.resource.group.clone(),
        resource: item.resource.resource.clone(),
        namespace: item.namespace.clone().unwrap_or_default(),
        name: item.name.clone(),
    };
    items.iter().map(wire).collect()
}

pub(super) fn applies_to(wire: Option<ResourceSelector>) -> AppliesTo {
    let wire = wire.unwrap_or_default();
    AppliesTo {
        included_namespaces: wire.included_namespaces,
        excluded_namespaces: wire.excluded_namespaces,
        included_resources: wire.included_resources,
        excluded_resources: wire.excluded_resources,
        selector: wire.selector,
    }
}

/// Progress with negative numbers and unknown times removed.
pub(super) fn progress(wire: Option<WireProgress>) -> OperationProgress {
    let wire = wire.unwrap_or_default();
    OperationProgress {
        completed: wire.completed,
        error: shortened(&wire.err),
        done: wire.n_completed.max(0),
        total: wire.n_total.max(0),
        units: shortened(&wire.operation_units),
        description: shortened(&wire.description),
        started: time(wire.started),
        updated: time(wire.updated),
    }
}

pub(super) fn time(wire: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    let wire = wire.filter(|time| time.seconds >= EARLIEST)?;
    Timestamp::new(wire.seconds, wire.nanos.clamp(0, 999_999_999)).ok()
}

/// None for a missing, zero or negative duration.
pub(super) fn duration(wire: Option<prost_types::Duration>) -> Option<Duration> {
    Duration::try_from(wire?).ok().filter(|duration| !duration.is_zero())
}

pub(super) fn text(value: String) -> Option<String> {
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const ANSWER: Answer<'static> = Answer { plugin: "a.io/b", call: "Execute" };

    fn id(group: &str, resource: &str, namespace: &str, name: &str) -> ResourceIdentifier {
        ResourceIdentifier {
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[rstest]
    #[case::escape(id("", "pods", "ns", "../../etc"), "name \"../../etc\"")]
    #[case::parent(id("", "pods", "ns", ".."), "name \"..\"")]
    #[case::parent_namespace(id("", "pods", "..", "x"), "namespace \"..\"")]
    #[case::path_in_resource(id("", "pods/../x", "ns", "x"), "resource")]
    #[case::no_resource(id("", "", "ns", "x"), "resource \"\"")]
    #[case::no_name(id("", "pods", "ns", ""), "name \"\"")]
    #[case::group(id("a/b", "pods", "ns", "x"), "group")]
    fn names_that_no_api_server_takes_are_refused(#[case] id: ResourceIdentifier, #[case] reason: &str) {
        let error = ANSWER.items(vec![id]).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("a.io/b"), "{error}");
    }

    #[test]
    fn thousands_of_items_are_taken_and_more_are_not() {
        let some = |count| vec![id("rbac.authorization.k8s.io", "roles", "ns", "system:a"); count];
        assert_eq!(ANSWER.items(some(9_999)).unwrap().len(), 9_999);
        assert!(ANSWER.items(some(10_001)).unwrap_err().to_string().contains("10001 items"));
    }

    #[rstest]
    #[case::other_kind(
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#,
        "came back as a Secret"
    )]
    #[case::other_group(r#"{"apiVersion":"x/v1","kind":"Pod","metadata":{"name":"a"}}"#, "Pod.x")]
    #[case::no_name(r#"{"apiVersion":"v1","kind":"Pod"}"#, "name None")]
    #[case::bad_name(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a/../b"}}"#, "a/../b")]
    #[case::bad_namespace(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":".."}}"#,
        "\"..\""
    )]
    #[case::no_object("[1]", "name None")]
    #[case::no_json("{", "not valid JSON")]
    fn an_item_must_come_back_as_what_it_was(#[case] text: &str, #[case] reason: &str) {
        let pod = GroupKind::of(&json!({"apiVersion": "v1", "kind": "Pod"}));
        let error = ANSWER.item(text.as_bytes(), &pod).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn another_version_and_another_name_are_a_plugins_right() {
        let asked = GroupKind::of(&json!({"apiVersion": "apps/v1beta1", "kind": "Deployment"}));
        let text = br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"renamed"}}"#;
        assert!(ANSWER.item(text, &asked).is_ok());
    }

    #[test]
    fn go_zero_times_and_negative_numbers_are_nothing() {
        let zero = prost_types::Timestamp { seconds: -62_135_596_800, nanos: 0 };
        let wire =
            WireProgress { n_completed: -5, n_total: -1, started: Some(zero), ..WireProgress::default() };
        let read = progress(Some(wire));
        assert_eq!((read.done, read.total, read.started, read.updated), (0, 0, None, None));
        assert_eq!(duration(Some(prost_types::Duration { seconds: 0, nanos: 0 })), None);
        assert_eq!(duration(Some(prost_types::Duration { seconds: -1, nanos: 0 })), None);
        assert_eq!(
            duration(Some(prost_types::Duration { seconds: 2, nanos: 0 })),
            Some(Duration::from_secs(2))
        );
    }
}
