//! Driver VolumeSnapshotter: what it needs, and what it cannot work with.

use lifeboat_api::stash::{RestoreBatchSpec, RestoreSessionSpec};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::{batch, configuration, restore};
use crate::stash::hosts::collisions;

fn snapshotter() -> (&'static str, Value) {
    ("/driver", json!("VolumeSnapshotter"))
}

#[rstest]
#[case::app_binding(("/target/ref", json!({"kind": "AppBinding", "name": "db"})), "spec.target.ref.kind AppBinding has no claims")]
#[case::task(("/task", json!({"name": "pvc-backup"})), "spec.task.name \"pvc-backup\" is for driver Restic")]
fn a_backup_has_claims_and_no_task(#[case] change: (&str, Value), #[case] says: &str) {
    let spec = configuration(&[snapshotter(), change]);
    let message = backup_configuration("demo", &spec).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[test]
fn members_of_a_batch_need_no_alias() {
    let second = json!({"target": {"ref": {"kind": "StatefulSet", "name": "db"}}});
    let changes = [
        snapshotter(),
        ("/repository", Value::Null),
        ("/members/0", second.clone()),
        ("/members/1/target/alias", Value::Null),
    ];
    let spec = batch(&changes);
    let collisions = collisions(&backup_hosts(&spec.members, |_| Vec::new()));
    let valid = backup_batch("demo", &spec, &collisions).unwrap();
    assert_eq!(valid.driver, ValidDriver::VolumeSnapshotter);
    // With a repository all hosts must differ.
    let changes = [
        ("/repository", json!({"name": "r"})),
        ("/members/0", second),
        ("/members/1/target/alias", Value::Null),
    ];
    assert!(backup_batch("demo", &batch(&changes), &collisions).is_err());
}

fn templates(name: &str) -> Value {
    json!([{"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}}])
}

fn claims(changes: &[(&str, Value)]) -> RestoreSessionSpec {
    let mut all = vec![
        snapshotter(),
        ("/repository", Value::Null),
        ("/target/ref", Value::Null),
        ("/target/rules", json!([])),
        ("/target/volumeClaimTemplates", templates("data-${POD_ORDINAL}")),
    ];
    all.extend(changes.iter().cloned());
    restore(&all)
}

#[test]
fn a_restore_into_new_claims_needs_no_repository_and_no_mounts() {
    let valid = restore_session("demo", &claims(&[("/target/volumeMounts", json!([]))])).unwrap();
    assert_eq!(valid.driver, ValidDriver::VolumeSnapshotter);
}

#[rstest]
#[case::in_place(
    &[("/target/volumeClaimTemplates", json!([])), ("/target/ref", json!({"kind": "StatefulSet", "name": "db"}))],
    "spec.target.volumeClaimTemplates is missing; driver VolumeSnapshotter restores into new claims only"
)]
#[case::paths(&[("/target/rules", json!([{"paths": ["/data"]}]))], "spec: rules: paths chooses parts of a backup")]
#[case::files(&[("/target/rules", json!([{"exclude": ["*.tmp"]}]))], "spec: rules: exclude chooses parts of a backup")]
#[case::one_name(
    &[("/target/replicas", json!(2)), ("/target/volumeClaimTemplates", templates("data"))], "all replicas would get one claim"
)]
#[case::task(&[("/task", json!({"name": "pvc-restore"}))], "spec.task.name \"pvc-restore\" is for driver Restic")]
fn a_restore_that_cannot_work_is_invalid(#[case] changes: &[(&str, Value)], #[case] says: &str) {
    let message = restore_session("demo", &claims(changes)).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[test]
fn two_members_of_a_restore_never_make_one_claim() {
    let member = |name: &str| json!({"target": {"volumeClaimTemplates": templates(name)}});
    let spec = |second: &str| -> RestoreBatchSpec {
        let members = [member("data"), member(second)];
        serde_json::from_value(json!({"driver": "VolumeSnapshotter", "members": members})).unwrap()
    };
    let hosts = |spec: &RestoreBatchSpec| collisions(&restore_hosts(&spec.members, |_| Vec::new()));
    let other = spec("other");
    assert!(restore_batch("demo", &other, &hosts(&other)).is_ok(), "hosts are claims: no alias is needed");
    let same = spec("data");
    let message = restore_batch("demo", &same, &hosts(&same)).unwrap_err().to_string();
    assert!(message.contains("spec.members[0] and spec.members[1] would both make claim data"), "{message}");
}
