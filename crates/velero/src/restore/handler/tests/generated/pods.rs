//! Pods: hooks, owners, copies of their volumes, classes of priority.

use lifeboat_plan::velero::pod_volumes::Copied;
use serde_json::json;

use super::{Backup, add_named};
use crate::restore::handler::tests::world::object;

pub(super) fn pod(made: &mut Backup, variation: usize, number: usize) {
    let mut pod = object("v1", "Pod", &format!("shop/pod{number}"));
    pod["spec"] = json!({"nodeName": "n1", "containers": [{"name": "main", "image": "i"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": format!("of-pod{number}")}},
            {"name": "e", "emptyDir": {}}]});
    let owner =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": format!("of-pod{number}"), "uid": "j"}]);
    match variation % 10 {
        1 => pod["metadata"]["annotations"] = json!({"post.hook.restore.velero.io/command": "[\"true\"]"}),
        2 => pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"}),
        3 => pod["status"] = json!({"phase": "Succeeded"}),
        4 => {
            pod["metadata"]["ownerReferences"] = owner;
            made.objects.push(object("batch/v1", "Job", &format!("shop/of-pod{number}")));
        }
        5 => pod["metadata"]["ownerReferences"] = owner,
        6 => {
            pod["spec"]["initContainers"] =
                json!([{"name": "restore-wait", "args": ["restore-wait", "old"]}]);
        }
        7 => {
            pod["metadata"]["annotations"] = json!({"init.hook.restore.velero.io/container-image": "i",
                "init.hook.restore.velero.io/container-name": "hook",
                "init.hook.restore.velero.io/command": "[\"true\"]"});
        }
        8 => {
            made.objects.push(object("v1", "PersistentVolumeClaim", &format!("shop/of-pod{number}")));
            for (volume, uploader) in [("d", "restic"), ("e", "kopia")] {
                made.copies.push(Copied {
                    namespace: "shop".into(),
                    pod: format!("pod{number}"),
                    volume: volume.into(),
                    claim: (volume == "d").then(|| format!("of-pod{number}")),
                    snapshot: "s".into(),
                    bytes: None,
                    uploader: uploader.into(),
                    incomplete: (number % 2 == 1).then(|| "files".to_owned()),
                });
            }
        }
        9 => {
            pod["spec"]["serviceAccountName"] = json!("runner");
            pod["spec"]["volumes"] = json!([{"name": "runner-token-x", "secret": {}}]);
        }
        _ => {}
    }
    made.objects.push(pod);
}

/// A pod with a class of priority, which is in the backup, or is not.
pub(super) fn urgent(made: &mut Backup, variation: usize, number: usize) {
    let class = format!("urgent{number}");
    let spec =
        json!({"priority": 7, "priorityClassName": class, "containers": [{"name": "main", "image": "i"}]});
    add_named(made, "v1", "Pod", &format!("shop/urgent{number}"), json!({"spec": spec}));
    if variation % 3 != 2 {
        add_named(made, "scheduling.k8s.io/v1", "PriorityClass", &class, json!({"value": 7}));
    }
}
