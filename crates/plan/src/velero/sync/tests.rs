//! Which backups of a bucket come in, in which form, and which objects go.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn backup(phase: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {
            "name": "b", "namespace": "velero", "uid": "1", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"], "managedFields": [],
            "labels": {"team": "blue", "velero.io/storage-location": "there"},
            "annotations": {"note": "x", "lifeboat.io/attempt": "2"},
            "ownerReferences": [
                {"apiVersion": "velero.io/v1", "kind": "Schedule", "name": "s", "uid": "u1"},
                {"apiVersion": "velero.io/v1", "kind": "Schedule", "name": "gone", "uid": "u2"},
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u3"},
            ],
        },
        "spec": {"hooks": {"resources": [{"name": "run me"}]}, "storageLocation": "there", "ttl": "720h0m0s"},
        "status": {"phase": phase, "expiration": "1970-01-01T00:01:40Z"},
    })
}

fn decide(json: &Value, now: i64) -> Incoming {
    let schedules = BTreeSet::from([("s".to_owned(), "u1".to_owned())]);
    let (location, namespace) = (&LocationName::new("here"), &NamespaceName::new("lifeboat"));
    let keys = &OwnershipKeys::default();
    let stored = Stored { name: "b", json, location, namespace, schedules: &schedules, keys };
    incoming(&stored, at(now))
}

#[test]
fn a_backup_comes_in_without_what_belongs_to_another_cluster() {
    let Incoming::Create(object) = decide(&backup("Completed"), 0) else { panic!("not taken") };
    assert_eq!(
        *object,
        json!({
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": {
                "name": "b", "namespace": "lifeboat",
                "labels": {"team": "blue", "velero.io/storage-location": "here"},
                "annotations": {"note": "x", "lifeboat.io/expiration-unproven": "true"},
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Schedule", "name": "s", "uid": "u1"}],
            },
            "spec": {"storageLocation": "here", "ttl": "720h0m0s"},
            "status": {"phase": "Completed", "expiration": "1970-01-01T00:01:40Z"},
        })
    );
}

#[rstest]
#[case::completed("Completed", 0, Some("Completed"))]
#[case::partially_failed("PartiallyFailed", 0, Some("PartiallyFailed"))]
#[case::failed("Failed", 0, Some("Failed"))]
#[case::finalizing("Finalizing", 0, None)]
#[case::finalizing_but_expired("Finalizing", 101, Some("PartiallyFailed"))]
#[case::waiting_but_expired("WaitingForPluginOperations", 101, Some("PartiallyFailed"))]
#[case::new_would_run_here("New", 101, None)]
#[case::without_phase("", 101, None)]
#[case::in_progress("InProgress", 101, None)]
#[case::deleting("Deleting", 101, None)]
fn only_a_backup_that_has_ended_comes_in(
    #[case] phase: &str,
    #[case] now: i64,
    #[case] expected: Option<&str>,
) {
    let found = match decide(&backup(phase), now) {
        Incoming::Create(object) => Some(object["status"]["phase"].as_str().unwrap().to_owned()),
        Incoming::NotYet | Incoming::Refused(_) => None,
    };
    assert_eq!(found.as_deref(), expected);
}

#[test]
fn a_pod_volume_backup_comes_in_under_its_new_owner_once_it_has_ended() {
    let schedules = BTreeSet::new();
    let (location, namespace) = (&LocationName::new("here"), &NamespaceName::new("n"));
    let keys = &OwnershipKeys::default();
    let stored = Stored { name: "b", json: &json!({}), location, namespace, schedules: &schedules, keys };
    let uid = BackupUid::new("new");
    let mut json = json!({"metadata": {"name": "b-1", "labels": {"velero.io/backup-uid": "old"}},
        "spec": {"volume": "data", "backupStorageLocation": "there"}, "status": {"phase": "Completed"}});
    let object = pod_volume_backup(&stored, &json, &uid).unwrap();
    assert_eq!(object["metadata"]["labels"]["velero.io/backup-uid"], "new");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "new");
    assert_eq!(object["spec"], json!({"volume": "data", "backupStorageLocation": "here"}));
    json["metadata"]["annotations"] = json!({"note": "x", "lifeboat.io/consistency": "Quiesced"});
    let object = pod_volume_backup(&stored, &json, &uid).unwrap();
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"note": "x"}),
        "notes of our own do not come out of a bucket"
    );
    json["status"]["phase"] = "InProgress".into();
    assert_eq!(pod_volume_backup(&stored, &json, &uid), None);
}

#[rstest]
#[case::other_name("/metadata/name", json!("other"))]
#[case::other_kind("/kind", json!("Restore"))]
#[case::other_version("/apiVersion", json!("velero.io/v2"))]
fn what_is_not_this_backup_is_refused(#[case] path: &str, #[case] value: Value) {
    let mut json = backup("Completed");
    *json.pointer_mut(path).unwrap() = value;
    assert!(matches!(decide(&json, 0), Incoming::Refused(_)));
}

#[rstest]
#[case::no_object(json!(null))]
#[case::a_list(json!([1]))]
#[case::empty(json!({}))]
fn what_is_no_object_is_refused(#[case] json: Value) {
    assert!(matches!(decide(&json, 0), Incoming::Refused(_)));
}

#[rstest]
#[case::first(None, 60, None, Turn::Now)]
#[case::later(None, 60, Some(50), Turn::In(Duration::from_secs(10)))]
#[case::due(None, 60, Some(40), Turn::Now)]
#[case::own_period(Some(10), 60, Some(90), Turn::Now)]
#[case::off(Some(0), 60, None, Turn::Never)]
#[case::off_for_all(None, 0, None, Turn::Never)]
#[case::the_clock_went_back(None, 60, Some(1000), Turn::In(Duration::from_mins(1)))]
fn a_location_has_its_turn(
    #[case] own: Option<u64>,
    #[case] default: u64,
    #[case] last: Option<i64>,
    #[case] expected: Turn,
) {
    let own = own.map(Duration::from_secs);
    assert_eq!(turn(own, Duration::from_secs(default), last.map(at), at(100)), expected);
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_backup_is_asked_for_only_after_two_listings_without_it() {
    let mut absences = Absences::default();
    assert_eq!(absences.observe(&set(&["a"]), &set(&["a", "b"])), Vec::<String>::new());
    assert_eq!(absences.observe(&set(&["a"]), &set(&["a", "b"])), ["b"]);
    assert_eq!(absences.observe(&set(&["a", "b"]), &set(&["a", "b"])), Vec::<String>::new());
    assert_eq!(absences.observe(&set(&["a"]), &set(&["a", "b"])), Vec::<String>::new());
}

proptest! {
    #[test]
    fn no_backup_that_the_last_listing_showed_is_ever_asked_for(
        listings in proptest::collection::vec(proptest::collection::btree_set("[a-d]", 0..4), 1..8),
        cluster in proptest::collection::btree_set("[a-d]", 0..4),
    ) {
        let mut absences = Absences::default();
        for (at, listing) in listings.iter().enumerate() {
            let asked = absences.observe(listing, &cluster);
            for name in asked {
                prop_assert!(at > 0 && cluster.contains(&name));
                prop_assert!(!listing.contains(&name) && !listings[at - 1].contains(&name));
            }
        }
    }
}

#[rstest]
#[case("Completed", true)]
#[case("PartiallyFailed", true)]
#[case("Failed", false)]
#[case("FailedValidation", false)]
#[case("InProgress", false)]
#[case("Deleting", false)]
#[case("", false)]
fn only_objects_of_backups_that_ended_well_go(#[case] phase: &str, #[case] expected: bool) {
    assert_eq!(may_go(&backup(phase)), expected);
}

#[rstest]
#[case::one(1, "1 backups cannot be synced: 'b-00': why")]
#[case::ten(10, "'b-09': why")]
#[case::eleven(11, "; and 1 more")]
fn the_condition_names_ten_backups_and_counts_the_others(#[case] count: usize, #[case] part: &str) {
    let problems = (0..count).map(|number| (format!("b-{number:02}"), "why".to_owned())).collect();
    let fact = all_synced(&problems);
    assert!(!fact.holds && fact.message.contains(part) && !fact.message.contains("b-10"), "{}", fact.message);
}

#[test]
fn backups_take_turns_and_none_is_looked_at_twice_in_one_sync() {
    let all: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
    let turns = |last, most| next_in_turn(&all, last, most).join(" ");
    assert_eq!(turns(None, 2), "a b");
    assert_eq!(turns(Some("b"), 2), "c a");
    assert_eq!(turns(Some("bb"), 9), "c a b");
    assert_eq!(turns(Some("c"), 1), "a");
    assert_eq!(next_in_turn(&BTreeSet::new(), Some("a"), 3), Vec::<String>::new());
}

#[rstest]
#[case::ended(json!({}), 2)]
#[case::running(json!({"status": {"phase": "InProgress"}}), 0)]
#[case::deleted(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), 0)]
#[case::of_another_location(json!({"spec": {"storageLocation": "other"}}), 0)]
#[case::without_snapshots(json!({"status": {"volumeSnapshotsAttempted": null}}), 0)]
#[case::nonsense(json!({"status": {"volumeSnapshotsAttempted": -3}}), 0)]
fn a_backup_that_ended_should_have_an_object_for_each_snapshot(#[case] more: Value, #[case] expected: usize) {
    let mut backup = json!({"metadata": {}, "spec": {"storageLocation": "default"},
        "status": {"phase": "PartiallyFailed", "volumeSnapshotsAttempted": 2}});
    for part in ["metadata", "spec", "status"] {
        for (field, value) in more[part].as_object().into_iter().flatten() {
            backup[part][field] = value.clone();
        }
    }
    assert_eq!(snapshots_with_objects(&backup, &LocationName::new("default")), expected);
}
