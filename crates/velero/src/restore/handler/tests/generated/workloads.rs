//! Controllers of pods.

use serde_json::json;

use super::{Backup, add, add_named};

/// Annotation that overrides the types whose status a Restore restores.
const STATUS: &str = "velero.io/restore-status";

pub(super) fn job(made: &mut Backup, variation: usize, number: usize) {
    let spec = json!({"selector": {"matchLabels": {"controller-uid": "u"}},
        "template": {"metadata": {"labels": {"controller-uid": "u"}}}});
    let status = if variation.is_multiple_of(2) {
        json!({"completionTime": "2020-01-01T00:00:00Z"})
    } else {
        json!({})
    };
    add(made, "batch/v1", "Job", number, json!({"spec": spec, "status": status}));
}

/// One of the controllers whose images an action changes, with a status and perhaps its own word about restoring it.
pub(super) fn controller(made: &mut Backup, variation: usize, number: usize) {
    let (version, kind) = [
        ("apps/v1", "Deployment"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("v1", "ReplicationController"),
        ("batch/v1", "CronJob"),
    ][variation % 5];
    let pod = json!({"containers": [{"name": "main", "image": "i"}], "initContainers": [{"name": "first", "image": "o"}]});
    let spec = if kind == "CronJob" {
        json!({"jobTemplate": {"spec": {"template": {"spec": pod}}}})
    } else {
        json!({"template": {"spec": pod}})
    };
    let annotations = match variation % 4 {
        0 => json!({STATUS: "true"}),
        1 => json!({STATUS: "false"}),
        _ => json!(null),
    };
    let fields = json!({"metadata": {"annotations": annotations}, "spec": spec, "status": {"replicas": 3}});
    add(made, version, kind, number, fields);
}

pub(super) fn stateful(made: &mut Backup, variation: usize, number: usize) {
    let class = if variation % 4 == 3 { "other" } else { "fast" };
    let spec = json!({"volumeClaimTemplates": [{"spec": {"storageClassName": class}}],
        "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}});
    add(made, "apps/v1", "StatefulSet", number, json!({"spec": spec}));
}

/// A CronJob for which the test's own action asks for a Secret of another namespace, and waits for it.
pub(super) fn asking(made: &mut Backup, variation: usize, number: usize) {
    let fields = json!({"metadata": {"annotations": {"test/asks": format!("key{number}"),
        "test/insists": variation.is_multiple_of(4).to_string()}}});
    add_named(made, "batch/v1", "CronJob", &format!("shop/asking{number}"), fields);
    if variation % 3 != 2 {
        add_named(made, "v1", "Secret", &format!("vault/key{number}"), json!({"type": "Opaque"}));
    }
}

/// A controller that would adopt pods of the same backup if it was in the cluster before, and such a pod.
pub(super) fn fighting(made: &mut Backup, variation: usize, number: usize) {
    let labels = json!({"fights": format!("for{number}")});
    let (version, kind) = [
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("v1", "ReplicationController"),
    ][variation % 5];
    let selector =
        if kind == "ReplicationController" { labels.clone() } else { json!({"matchLabels": labels}) };
    let replicas = usize::from(variation % 3 != 2);
    let place = format!("shop/fighting{number}");
    add_named(made, version, kind, &place, json!({"spec": {"replicas": replicas, "selector": selector}}));
    let spec = json!({"containers": [{"name": "main", "image": "i"}]});
    add_named(made, "v1", "Pod", &place, json!({"metadata": {"labels": labels}, "spec": spec}));
}
