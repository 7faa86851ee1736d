//! Volume groups: which claims belong to one, their state, the objects of their members.

use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use rstest::rstest;

use super::*;

const KEY: &str = "velero.io/volume-group";

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": {KEY: "db", "app": "x"}}})
}

fn of_backup(uid: &str) -> OfBackup {
    OfBackup {
        name: "nightly".into(),
        uid: BackupUid::new(uid),
        location: LocationName::new("main"),
        namespace: NamespaceName::new("lifeboat"),
    }
}

fn group() -> VolumeGroup {
    VolumeGroup::of(&claim("data"), KEY, &of_backup("b-uid")).unwrap()
}

fn member(name: &str, driver: Option<&str>) -> Member {
    Member {
        claim: claim(name),
        volume: driver.map(|driver| json!({"spec": {"csi": {"driver": driver, "volumeHandle": name}}})),
    }
}

fn made(name: &str, status: &Value) -> (Value, Option<Value>) {
    let snapshot = json!({"metadata": {"name": format!("s-{name}")}, "spec": {"source": {"persistentVolumeClaimName": name}},
        "status": {"boundVolumeSnapshotContentName": "c"}});
    (
        snapshot,
        Some(json!({"metadata": {"name": format!("c-{name}")}, "spec": {"driver": "d"}, "status": status})),
    )
}

#[rstest]
#[case::labelled(KEY, json!({KEY: "db"}), true)]
#[case::empty_value(KEY, json!({KEY: ""}), false)]
#[case::other_label("other", json!({KEY: "db"}), false)]
#[case::no_key("", json!({"": "db"}), false)]
fn a_claim_is_in_the_group_of_its_label(#[case] key: &str, #[case] labels: Value, #[case] expected: bool) {
    let claim = json!({"metadata": {"name": "data", "namespace": "shop", "labels": labels}});
    assert_eq!(VolumeGroup::of(&claim, key, &of_backup("u")).is_some(), expected);
}

#[rstest]
#[case::one(vec![member("a", Some("d")), member("b", Some("d"))], Ok("d"))]
#[case::two_drivers(vec![member("a", Some("d")), member("b", Some("e"))], Err("(d has a; e has b)"))]
#[case::unbound(vec![member("a", Some("d")), member("b", None)], Err("no volume of a CSI driver is bound to its claims b"))]
#[case::no_claims(vec![], Err("no claim has its label"))]
fn the_claims_of_a_group_are_one_drivers(#[case] members: Vec<Member>, #[case] expected: Result<&str, &str>) {
    match (group().driver(&members), expected) {
        (Ok(driver), Ok(name)) => assert_eq!(driver, name),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}

#[test]
fn a_group_is_asked_for_once_in_every_attempt() {
    let wanted = group().request("v1beta1", "fast");
    assert_eq!(wanted["apiVersion"], "groupsnapshot.storage.k8s.io/v1beta1");
    assert_eq!(wanted["spec"]["source"]["selector"]["matchLabels"], json!({KEY: "db"}));
    assert_eq!(wanted["metadata"]["name"], group().name());
    assert_eq!(wanted["metadata"]["labels"][OF_BACKUP], "b-uid");
    let other = VolumeGroup { backup: of_backup("other"), ..group() };
    assert_ne!(other.name(), group().name());
}

#[rstest]
#[case::nothing(json!({}), vec![], "claims a, b have no snapshot yet: no snapshot controller")]
#[case::an_error(json!({"status": {"error": {"message": "no room"}}}), vec![], "no room")]
#[case::one_is_missing(json!({}), vec![made("a", &json!({"snapshotHandle": "h", "creationTime": 1}))], "claims b have no snapshot yet")]
#[case::one_has_no_handle(json!({}), vec![made("a", &json!({"snapshotHandle": "h", "creationTime": 1})), made("b", &json!({}))],
    "claims b have no snapshot yet: its driver has not taken it yet")]
#[case::deleted(json!({"metadata": {"deletionTimestamp": "2026-11-16T01:00:00Z"}}), vec![], "was deleted")]
fn a_group_waits_for_every_claim(
    #[case] object: Value,
    #[case] made: Vec<(Value, Option<Value>)>,
    #[case] expected: &str,
) {
    let members = [member("a", Some("d")), member("b", Some("d"))];
    match group_state(&object, None, &members, &made) {
        GroupState::Waiting(message) => assert!(message.contains(expected), "{message}"),
        taken @ GroupState::Taken(_) => panic!("{taken:?}"),
    }
}

#[test]
fn a_member_goes_on_as_if_it_had_been_taken_alone() {
    let status = json!({"snapshotHandle": "h", "creationTime": 1, "restoreSize": 1024, "volumeGroupSnapshotHandle": "g"});
    let (snapshot, content) = made("data", &status);
    let mut content = content.unwrap();
    content["metadata"]["labels"] = json!({MANAGED_BY: "node-a"});
    content["metadata"]["annotations"] = json!({"snapshot.storage.kubernetes.io/deletion-secret-name": "s", "other": "x", DELETION_POLICY: "Delete"});
    content["spec"]["deletionPolicy"] = json!("Retain");
    let members = [member("data", Some("d"))];
    let GroupState::Taken(taken) = group_state(&json!({}), None, &members, &[(snapshot, Some(content))])
    else {
        panic!("it is taken");
    };
    let made = group().content(&taken[0], Some("fast"));
    let name = group().snapshot_of(&claim("data"));
    assert_eq!(made["metadata"]["name"], *name);
    assert_eq!(made["spec"]["source"], json!({"snapshotHandle": "h"}));
    assert_eq!(made["spec"]["deletionPolicy"], "Retain");
    assert_eq!(
        made["metadata"]["labels"],
        json!({"velero.io/backup-name": "nightly", OF_BACKUP: "b-uid", "velero.io/storage-location": "main",
            "lifeboat.io/server-namespace": "lifeboat", MANAGED_BY: "node-a"})
    );
    let annotations = json!({"snapshot.storage.kubernetes.io/deletion-secret-name": "s", DELETION_POLICY: "Delete",
        GROUP_HANDLE: "g", RESTORE_SIZE: "1024"});
    assert_eq!(made["metadata"]["annotations"], annotations);
    assert_eq!((restore_size(&made), group_handle(&made)), (Some(1024), "g".to_owned()));
    let snapshot = group().snapshot(&taken[0], None);
    assert_eq!(snapshot["spec"], json!({"source": {"volumeSnapshotContentName": name}}));
    assert_eq!(snapshot["metadata"]["labels"]["app"], "x");
}

#[test]
fn what_came_of_a_group_is_known_by_its_owner_or_its_status() {
    let group = json!({"metadata": {"name": "g", "uid": "u"}});
    let owned = json!({"metadata": {"ownerReferences": [{"kind": "VolumeGroupSnapshot", "uid": "u"}]}});
    let by_status = json!({"status": {"volumeGroupSnapshotName": "g"}});
    let foreign = json!({"metadata": {"ownerReferences": [{"kind": "VolumeGroupSnapshot", "uid": "other"}]}});
    assert!(is_of_group(&owned, &group) && is_of_group(&by_status, &group));
    assert!(!is_of_group(&foreign, &group) && !is_of_group(&json!({}), &group));
}
