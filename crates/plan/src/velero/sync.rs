//! Sync of a bucket's backups into the cluster: which ones become objects, in what form, and which objects are
//! deleted because their backup is gone. Called by the sync controller. The content of a bucket is not trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{BackupPhase, names};
use serde_json::{Map, Value, json};

use crate::conditions::Fact;
use crate::label;
use crate::velero::ownership::{EXPIRATION_UNPROVEN, OwnershipKeys};
use crate::velero::volume_plugin;

/// The number of consecutive complete listings that a backup must be missing from before storage is asked for it by
/// name.
const LISTINGS: u32 = 2;

/// The condition of a location that says whether every backup of its bucket is in the cluster.
pub const SYNCED: &str = "BackupsSynced";

/// How many backups the condition names.
const NAMED: usize = 10;

/// The longest text about one backup in the condition, in characters.
const LONGEST: usize = 200;

/// The condition of a location after a sync. `problems`: why backups cannot be synced, by their names.
pub fn all_synced(problems: &BTreeMap<String, String>) -> Fact {
    if problems.is_empty() {
        let message = "every backup of the bucket is in the cluster".to_owned();
        return Fact { kind: SYNCED, holds: true, reason: "AllSynced".into(), message };
    }
    let named = problems.iter().take(NAMED);
    let mut parts: Vec<String> = named
        .map(|(name, problem)| format!("'{name}': {}", problem.chars().take(LONGEST).collect::<String>()))
        .collect();
    if let Some(more @ 1..) = problems.len().checked_sub(NAMED) {
        parts.push(format!("and {more} more"));
    }
    let message = format!("{} backups cannot be synced: {}", problems.len(), parts.join("; "));
    Fact { kind: SYNCED, holds: false, reason: "BackupsNotSynced".into(), message }
}

/// When a location is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Now,
    In(Duration),
    /// Its period is zero.
    Never,
}

/// `own` is the location's period, `default` the server's, `last` the end of the last sync by this server.
pub fn turn(own: Option<Duration>, default: Duration, last: Option<Timestamp>, now: Timestamp) -> Turn {
    let period = own.unwrap_or(default);
    if period.is_zero() {
        return Turn::Never;
    }
    let Some(last) = last else { return Turn::Now };
    // A clock that was set back must not delay the next sync beyond one period.
    let age = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    match period.checked_sub(age) {
        Some(rest) if !rest.is_zero() => Turn::In(rest),
        _ => Turn::Now,
    }
}

/// A Backup in a bucket, and the cluster to create it in.
pub struct Stored<'a> {
    /// The name of its directory.
    pub name: &'a str,
    /// `velero-backup.json`.
    pub json: &'a Value,
    pub location: &'a LocationName,
    pub namespace: &'a NamespaceName,
    /// Name and UID of each Schedule of this cluster.
    pub schedules: &'a BTreeSet<(String, String)>,
    /// Prove what this installation stored.
    pub keys: &'a OwnershipKeys,
}

/// The next step for a backup in the bucket without an object in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// Create this object.
    Create(Box<Value>),
    /// A server of another cluster is still writing it.
    NotYet,
    /// It is not a valid backup; the reason.
    Refused(String),
}

/// Decides for one backup. Hooks are removed, because they contain commands and never run again; so are owners that
/// this cluster does not have, and Lifeboat's own annotations.
pub fn incoming(stored: &Stored<'_>, now: Timestamp) -> Incoming {
    let json = stored.json;
    let text = |path: &str| json.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if text("/kind") != "Backup" || text("/apiVersion") != "velero.io/v1" {
        return Incoming::Refused("velero-backup.json holds no Backup of velero.io/v1".into());
    }
    if text("/metadata/name") != stored.name {
        let found = text("/metadata/name");
        return Incoming::Refused(format!(
            "velero-backup.json holds the Backup '{found}', not that of its directory"
        ));
    }
    let phase = match BackupPhase::from(text("/status/phase")) {
        phase @ (BackupPhase::Completed | BackupPhase::PartiallyFailed | BackupPhase::Failed) => phase,
        BackupPhase::WaitingForPluginOperations
        | BackupPhase::WaitingForPluginOperationsPartiallyFailed
        | BackupPhase::Finalizing
        | BackupPhase::FinalizingPartiallyFailed => {
            if !expired(json, now) {
                return Incoming::NotYet;
            }
            // Created, so that its time to live ends it.
            BackupPhase::PartiallyFailed
        }
        other => {
            return Incoming::Refused(format!("its phase '{other}' is not one of a backup that has ended"));
        }
    };
    let mut spec = json.get("spec").cloned().unwrap_or_else(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("hooks");
        spec.insert("storageLocation".into(), stored.location.as_str().into());
    }
    let mut status = json.get("status").cloned().unwrap_or_else(|| json!({}));
    status["phase"] = phase.as_str().into();
    Incoming::Create(Box::new(json!({
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": metadata(stored),
        "spec": spec,
        "status": status,
    })))
}

fn metadata(stored: &Stored<'_>) -> Value {
    let texts = |path: &str| -> Map<String, Value> {
        let map = stored.json.pointer(path).and_then(Value::as_object).cloned().unwrap_or_default();
        map.into_iter().filter(|(_, value)| value.is_string()).collect()
    };
    let mut labels = texts("/metadata/labels");
    labels.insert(names::STORAGE_LOCATION.into(), label::value(stored.location.as_str()).into());
    let mut annotations = texts("/metadata/annotations");
    annotations.retain(|key, _| !key.starts_with("lifeboat.io/"));
    // A date that only the bucket has deletes nothing.
    if !stored.keys.prove_expiration(stored.json) {
        annotations.insert(EXPIRATION_UNPROVEN.into(), "true".into());
    }
    let owners = stored.json.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owners: Vec<&Value> =
        owners.into_iter().flatten().filter(|owner| lives(owner, stored.schedules)).collect();
    let mut metadata = json!({
        "name": stored.name,
        "namespace": stored.namespace,
        "labels": labels,
        "annotations": annotations,
    });
    if !owners.is_empty() {
        metadata["ownerReferences"] = json!(owners);
    }
    metadata
}

fn lives(owner: &Value, schedules: &BTreeSet<(String, String)>) -> bool {
    let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    text("kind") == "Schedule" && schedules.contains(&(text("name"), text("uid")))
}

/// The PodVolumeBackup of a synced backup, as it is created in the cluster. Only for one that has ended, because no
/// controller may work on it here.
pub fn pod_volume_backup(stored: &Stored<'_>, json: &Value, backup_uid: &BackupUid) -> Option<Value> {
    let phase = json.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if !matches!(phase, "Completed" | "Failed" | "Canceled") {
        return None;
    }
    let mut object = of_volume(stored, "PodVolumeBackup", json, backup_uid)?;
    object["spec"]["backupStorageLocation"] = stored.location.as_str().into();
    Some(object)
}

/// The VolumePluginBackup of a synced backup, as it is created in the cluster. Only for one that has ended.
pub fn volume_plugin_backup(stored: &Stored<'_>, json: &Value, backup_uid: &BackupUid) -> Option<Value> {
    if volume_plugin::operation_state(json) == volume_plugin::OperationState::Open {
        return None;
    }
    of_volume(stored, "VolumePluginBackup", json, backup_uid)
}

fn of_volume(stored: &Stored<'_>, kind: &str, json: &Value, backup_uid: &BackupUid) -> Option<Value> {
    let text = |path: &str| json.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let name = Some(text("/metadata/name")).filter(|name| !name.is_empty())?;
    let mut labels = json.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    labels.insert(names::BACKUP_NAME.into(), label::value(stored.name).into());
    labels.insert(names::BACKUP_UID.into(), backup_uid.as_str().into());
    let annotations = json.pointer("/metadata/annotations").and_then(Value::as_object);
    let mut annotations = annotations.cloned().unwrap_or_default();
    // As those of the Backup: they are notes of our own, and the bucket may say anything.
    annotations.retain(|key, _| !key.starts_with("lifeboat.io/"));
    let spec = json.get("spec").cloned().filter(Value::is_object)?;
    Some(json!({
        "apiVersion": "velero.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": stored.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "velero.io/v1", "kind": "Backup", "name": stored.name, "uid": backup_uid,
                "controller": true,
            }],
        },
        "spec": spec,
        "status": json.get("status"),
    }))
}

fn expired(backup: &Value, now: Timestamp) -> bool {
    let expiration = backup.pointer("/status/expiration").and_then(Value::as_str);
    expiration.and_then(|text| text.parse::<Timestamp>().ok()).is_some_and(|expiration| expiration < now)
}

/// The missing backups of a location, and the number of consecutive listings without them. A restarted server starts
/// counting again: an object is rather deleted late than wrongly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absences {
    missing: BTreeMap<String, u32>,
}

impl Absences {
    /// Takes one complete listing and the location's backups in the cluster; gives those to ask storage for by name.
    /// Only a 404 for a backup's own file proves that it is gone.
    pub fn observe(&mut self, listed: &BTreeSet<String>, in_cluster: &BTreeSet<String>) -> Vec<String> {
        self.missing.retain(|name, _| in_cluster.contains(name) && !listed.contains(name));
        for name in in_cluster.difference(listed) {
            *self.missing.entry(name.clone()).or_default() += 1;
        }
        self.missing.iter().filter(|(_, times)| **times >= LISTINGS).map(|(name, _)| name.clone()).collect()
    }
}

/// Whether an object whose backup is gone may be deleted: only if the backup completed. A failed backup may never
/// have written a file, and a running one has not written it yet.
pub fn may_go(backup: &Value) -> bool {
    let phase = backup.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let deleting = backup.pointer("/metadata/deletionTimestamp").is_some();
    !deleting && matches!(BackupPhase::from(phase), BackupPhase::Completed | BackupPhase::PartiallyFailed)
}

#[cfg(test)]
mod tests {
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
                    "annotations": {"note": "x"},
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
        let stored = Stored { name: "b", json: &json!({}), location, namespace, schedules: &schedules };
        let uid = BackupUid::new("new");
        let mut json = json!({"metadata": {"name": "b-1", "labels": {"velero.io/backup-uid": "old"}},
            "spec": {"volume": "data", "backupStorageLocation": "there"}, "status": {"phase": "Completed"}});
        let object = pod_volume_backup(&stored, &json, &uid).unwrap();
        assert_eq!(object["metadata"]["labels"]["velero.io/backup-uid"], "new");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "new");
        assert_eq!(object["spec"], json!({"volume": "data", "backupStorageLocation": "here"}));
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
}
