//! The objects that a mover gets in its own namespace: a claim made from a snapshot, through a second content with
//! the same snapshot handle; or an empty claim like the one to fill.

use lifeboat_api::common::names::EXCLUDE_FROM_BACKUP;
use serde_json::{Value, json};

use super::snapshots::{GROUP, SERVER, VERSION, grown};
use super::text;

/// Label of objects created for a mover: the UID of the object that the mover works for.
pub const MADE_FOR: &str = "lifeboat.io/data-movement";

/// Objects for a mover are named by the UID of the object it works for, so that the next attempt finds them after a
/// crash. A claim that is written to is named by the task's UID, so that each attempt has its own.
pub fn exposed_name(uid: &str) -> String {
    format!("lifeboat-{uid}")
}

/// Label with the node of the driver that took a snapshot, for drivers that run per node.
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

/// The identity of the objects created for one mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure<'a> {
    pub name: &'a str,
    /// The movers' namespace.
    pub namespace: &'a str,
    /// The UID of the object that the mover works for.
    pub uid: &'a str,
    /// The namespace of the server, because installations may share the movers' namespace.
    pub server: &'a str,
}

impl Exposure<'_> {
    fn labels(&self) -> Value {
        // A backup of the movers' namespace would hold a claim without its data.
        json!({MADE_FOR: self.uid, SERVER: crate::label::value(self.server), EXCLUDE_FROM_BACKUP: "true"})
    }
}

/// The UID of the object that this server created something for; None for objects of other servers.
pub fn made_for<'a>(object: &'a Value, server: &str) -> Option<&'a str> {
    let labels = &object["metadata"]["labels"];
    let uid = labels[MADE_FOR].as_str().filter(|uid| !uid.is_empty())?;
    (labels[SERVER] == *crate::label::value(server)).then_some(uid)
}

/// A content with the same snapshot handle, for a VolumeSnapshot of the same name. Deleting it leaves the snapshot.
pub fn content(of: &Value, exposure: Exposure<'_>, class: &str) -> Value {
    let Exposure { name, namespace, .. } = exposure;
    let mut labels = exposure.labels();
    if let Some(node) = of["metadata"]["labels"][MANAGED_BY].as_str() {
        labels[MANAGED_BY] = json!(node);
    }
    let mut made = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "deletionPolicy": "Retain",
            "driver": of["spec"]["driver"],
            "source": {"snapshotHandle": of["status"]["snapshotHandle"]},
            "volumeSnapshotRef": {"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "VolumeSnapshot",
                "namespace": namespace, "name": name},
        },
    });
    if !class.is_empty() {
        made["spec"]["volumeSnapshotClassName"] = json!(class);
    }
    if of["spec"]["sourceVolumeMode"].is_string() {
        made["spec"]["sourceVolumeMode"] = of["spec"]["sourceVolumeMode"].clone();
    }
    made
}

/// The VolumeSnapshot that is bound to that content.
pub fn snapshot(exposure: Exposure<'_>) -> Value {
    let Exposure { name, namespace, .. } = exposure;
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": namespace, "labels": exposure.labels()},
        "spec": {"source": {"volumeSnapshotContentName": name}},
    })
}

/// A claim made from that VolumeSnapshot. `of`: the claim that was snapshotted, if it still exists.
pub fn claim(exposure: Exposure<'_>, of: Option<&Value>, content: &Value, class: &str) -> Value {
    let Exposure { name, namespace, .. } = exposure;
    let mut made = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": exposure.labels()},
        "spec": {
            // Regardless of the claim's own modes, one pod reads the volume. ReadWriteOncePod of the source would
            // also work for this separate volume; ReadOnlyMany is rejected by drivers without shared volumes.
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": mode(of, content),
            "dataSource": {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": name},
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    if !class.is_empty() {
        made["spec"]["storageClassName"] = json!(class);
    }
    let asked = of.map(|claim| claim["spec"]["resources"]["requests"]["storage"].clone());
    if let Some(asked) = asked.filter(Value::is_string) {
        made["spec"]["resources"]["requests"]["storage"] = asked;
    }
    grown(&mut made, content["status"]["restoreSize"].as_i64());
    made
}

fn mode(of: Option<&Value>, content: &Value) -> String {
    let given = of.map(|claim| text(claim, "/spec/volumeMode")).filter(|mode| !mode.is_empty());
    let given = given.unwrap_or_else(|| text(content, "/spec/sourceVolumeMode"));
    if given.is_empty() { "Filesystem".to_owned() } else { given.to_owned() }
}

/// The access modes with which a mover can fill a volume for a claim: the claim's own, unless they are read-only. The
/// volume gets the claim's modes at the handover. ReadWriteOncePod works as well: one pod mounts the volume, and the
/// next attempt gets a new volume.
fn writable(spec: &Value) -> Value {
    let modes = spec["accessModes"].as_array().into_iter().flatten();
    let writes = modes.filter_map(Value::as_str).any(|mode| mode != "ReadOnlyMany");
    if writes { spec["accessModes"].clone() } else { json!(["ReadWriteOnce"]) }
}

/// An empty claim like the one to fill.
pub fn for_target(exposure: Exposure<'_>, target: &Value) -> Value {
    let Exposure { name, namespace, .. } = exposure;
    let spec = &target["spec"];
    let mut made = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": exposure.labels()},
        "spec": {"accessModes": writable(spec), "resources": spec["resources"], "volumeMode": mode(Some(target), &json!({}))},
    });
    for field in ["storageClassName", "volumeAttributesClassName"] {
        if spec[field].is_string() {
            made["spec"][field] = spec[field].clone();
        }
    }
    made
}

/// The only node on which a snapshot's volume can be created, if there is only one: the node of the driver that took
/// it, or the only one on which the volume can be used.
pub fn node(content: &Value, volume: Option<&Value>, nodes: &[Value]) -> Option<String> {
    let named = |name: &str| nodes.iter().any(|node| text(node, "/metadata/name") == name);
    if let Some(node) = content["metadata"]["labels"][MANAGED_BY].as_str().filter(|node| named(node)) {
        return Some(node.to_owned());
    }
    let terms = volume?.pointer("/spec/nodeAffinity/required/nodeSelectorTerms")?.as_array()?;
    let fits = |node: &&Value| terms.iter().any(|term| term_fits(term, node));
    let fitting: Vec<&Value> = nodes.iter().filter(fits).collect();
    match fitting.as_slice() {
        [only] => Some(text(only, "/metadata/name").to_owned()),
        _ => None,
    }
}

/// Understands only the terms that provisioners write: labels with a list of values. Any other term matches every
/// node.
fn term_fits(term: &Value, node: &Value) -> bool {
    let wanted = term["matchExpressions"].as_array().into_iter().flatten();
    wanted.filter(|one| one["operator"] == "In").all(|one| {
        let label = &node["metadata"]["labels"][one["key"].as_str().unwrap_or_default()];
        one["values"].as_array().is_some_and(|values| values.contains(label))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MADE: Exposure<'static> =
        Exposure { name: "lifeboat-u", namespace: "lifeboat-movers", uid: "u", server: "lifeboat" };

    #[test]
    fn only_what_this_server_made_is_its_own() {
        let made = snapshot(MADE);
        assert_eq!(made_for(&made, "lifeboat"), Some("u"));
        assert_eq!(made_for(&made, "other"), None);
        assert_eq!(made_for(&json!({"metadata": {"labels": {MADE_FOR: "u"}}}), "lifeboat"), None);
    }

    #[test]
    fn what_is_made_for_a_mover_stays_out_of_backups() {
        let claims = [claim(MADE, None, &of(), ""), for_target(MADE, &json!({"spec": {}}))];
        for object in claims.into_iter().chain([snapshot(MADE), content(&of(), MADE, "")]) {
            assert_eq!(object["metadata"]["labels"]["velero.io/exclude-from-backup"], "true", "{object}");
        }
    }

    fn of() -> Value {
        json!({"metadata": {"labels": {MANAGED_BY: "b"}},
            "spec": {"driver": "d", "deletionPolicy": "Delete", "sourceVolumeMode": "Block"},
            "status": {"snapshotHandle": "h", "restoreSize": 2_147_483_648_i64}})
    }

    #[test]
    fn a_snapshot_is_shown_to_a_mover_by_its_handle_and_outlives_that() {
        let content = content(&of(), MADE, "fast");
        assert_eq!(content["spec"]["source"], json!({"snapshotHandle": "h"}));
        assert_eq!(content["spec"]["deletionPolicy"], "Retain");
        assert_eq!(
            content["metadata"]["labels"],
            json!({MADE_FOR: "u", SERVER: "lifeboat", MANAGED_BY: "b", EXCLUDE_FROM_BACKUP: "true"})
        );
        let reference = &content["spec"]["volumeSnapshotRef"];
        assert_eq!(
            (&reference["namespace"], &reference["name"]),
            (&json!("lifeboat-movers"), &json!("lifeboat-u"))
        );
        let snapshot = snapshot(MADE);
        assert_eq!(snapshot["spec"]["source"], json!({"volumeSnapshotContentName": "lifeboat-u"}));
        let source = json!({"spec": {"accessModes": ["ReadWriteOncePod"], "volumeMode": "Block",
            "resources": {"requests": {"storage": "1Gi"}}}});
        let claim = claim(MADE, Some(&source), &of(), "fast");
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi");
        assert_eq!(
            (&claim["spec"]["volumeMode"], &claim["spec"]["accessModes"]),
            (&json!("Block"), &json!(["ReadWriteOnce"]))
        );
        let gone = super::claim(MADE, None, &of(), "");
        assert_eq!(gone["spec"]["volumeMode"], "Block", "where the claim is gone, the content knows");
    }

    #[test]
    fn a_claim_is_filled_in_the_likeness_of_its_target() {
        let target = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "fast",
            "selector": {"matchLabels": {"a": "b"}}, "resources": {"requests": {"storage": "3Gi"}}}});
        let made = for_target(MADE, &target);
        assert_eq!(
            made["spec"],
            json!({"accessModes": ["ReadWriteMany"], "storageClassName": "fast",
            "volumeMode": "Filesystem", "resources": {"requests": {"storage": "3Gi"}}})
        );
    }

    #[rstest]
    #[case::one_pod(json!(["ReadWriteOncePod"]), json!(["ReadWriteOncePod"]))]
    #[case::many(json!(["ReadOnlyMany", "ReadWriteMany"]), json!(["ReadOnlyMany", "ReadWriteMany"]))]
    #[case::read_only(json!(["ReadOnlyMany"]), json!(["ReadWriteOnce"]))]
    #[case::none(Value::Null, json!(["ReadWriteOnce"]))]
    fn a_mover_can_write_into_what_it_fills(#[case] modes: Value, #[case] expected: Value) {
        let target = json!({"spec": {"accessModes": modes, "resources": {}}});
        assert_eq!(for_target(MADE, &target)["spec"]["accessModes"], expected);
    }

    #[rstest]
    #[case("ReadWriteOncePod")]
    #[case("ReadOnlyMany")]
    #[case("ReadWriteMany")]
    fn a_mover_can_mount_what_it_reads(#[case] mode: &str) {
        let source = json!({"spec": {"accessModes": [mode]}});
        let made = claim(MADE, Some(&source), &of(), "fast");
        assert_eq!(made["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    }

    #[test]
    fn a_snapshot_that_is_on_one_node_is_read_there() {
        let node_of = |name: &str, zone: &str| json!({"metadata": {"name": name, "labels": {"zone": zone, "host": name}}});
        let nodes = [node_of("a", "z"), node_of("b", "z")];
        assert_eq!(node(&of(), None, &nodes), Some("b".into()), "its driver says so");
        let affinity = |key: &str, value: &str| {
            json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms":
                [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}}}})
        };
        let plain = json!({"metadata": {}});
        assert_eq!(node(&plain, Some(&affinity("host", "a")), &nodes), Some("a".into()));
        assert_eq!(node(&plain, Some(&affinity("zone", "z")), &nodes), None, "the scheduler chooses");
        assert_eq!(node(&plain, None, &nodes), None);
    }
}
