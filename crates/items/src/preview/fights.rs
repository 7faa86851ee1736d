//! Controllers in the cluster whose selectors match pods that would be restored: they would adopt these pods, and may
//! delete them, or others for them.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_plan::catalogue::GroupResource;
use lifeboat_plan::selector::Selector;
use serde_json::Value;

use super::Fight;
use crate::pipeline::run::Run;

/// Kinds of controllers of pods.
const CONTROLLERS: [(&str, &str); 5] = [
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("", "replicationcontrollers"),
];

/// A controller that selects pods.
struct Controller {
    name: String,
    selector: Selector,
}

/// Finds the controllers that would adopt restored pods. `pods`: the namespace that each pod is restored into, and
/// its position in the source.
pub(super) async fn fights(run: &Run, pods: &[(String, usize)]) -> Vec<Fight> {
    let namespaces: BTreeSet<&String> = pods.iter().map(|(namespace, _)| namespace).collect();
    let mut controllers = BTreeMap::new();
    for namespace in namespaces {
        controllers.insert(namespace, controllers_in(run, namespace).await);
    }
    let mut found = Vec::new();
    for (namespace, position) in pods {
        let Some(pod) = run.source.head(*position) else { continue };
        let labels: BTreeMap<String, String> = pod.labels.iter().cloned().collect();
        let matching = controllers[namespace].iter().filter(|one| one.selector.matches(&labels));
        found.extend(
            matching
                .map(|one| Fight { pod: format!("{namespace}/{}", pod.name), controller: one.name.clone() }),
        );
    }
    found
}

async fn controllers_in(run: &Run, namespace: &str) -> Vec<Controller> {
    let mut found = Vec::new();
    for (group, plural) in CONTROLLERS {
        let Some(known) = run.catalogue.get(&GroupResource::new(group, plural)) else { continue };
        let listed = run.effects.list(known, Some(namespace), "").await.unwrap_or_default();
        found.extend(listed.iter().filter_map(|object| controller(&known.kind, namespace, object)));
    }
    found
}

/// None if it wants no replicas, or has no selector.
fn controller(kind: &str, namespace: &str, object: &Value) -> Option<Controller> {
    if object.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0) {
        return None;
    }
    let spec = object.pointer("/spec/selector")?.clone();
    // A ReplicationController's selector is the labels themselves.
    let spec = if kind == "ReplicationController" { serde_json::json!({"matchLabels": spec}) } else { spec };
    let selector = Selector::new(&serde_json::from_value(spec).ok()?).ok()?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    (!selector.is_everything()).then(|| Controller { name: format!("{kind} {namespace}/{name}"), selector })
}
