//! Sync of a bucket's backups into the cluster: which ones become objects, in what form, and which objects are
//! deleted because their backup is gone. Called by the sync controller. The content of a bucket is not trusted.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{BackupPhase, names};
use serde_json::{Map, Value, json};

use crate::conditions::Fact;
use crate::json::text;
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
    let mut object = of_volume(stored, "VolumePluginBackup", json, backup_uid)?;
    let id = json.pointer("/status/snapshotID").and_then(Value::as_str);
    if let Some((label, value)) = volume_plugin::id_label(id) {
        object["metadata"]["labels"][label] = value.into();
    }
    Some(object)
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

/// How many VolumePluginBackups a Backup of this location should have: those of a backup that has ended. None are
/// expected where it is being deleted.
pub fn snapshots_with_objects(backup: &Value, location: &LocationName) -> usize {
    let here = text(backup, "/spec/storageLocation") == location.as_str();
    let attempted = backup.pointer("/status/volumeSnapshotsAttempted").and_then(Value::as_u64);
    let attempted = attempted.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    if here && may_go(backup) { attempted } else { 0 }
}

/// The next names after `last`, in a circle.
pub fn next_in_turn(all: &BTreeSet<String>, last: Option<&str>, most: usize) -> Vec<String> {
    let after = |name: &&String| last.is_none_or(|last| name.as_str() > last);
    let rest = all.iter().filter(after);
    let first = all.iter().filter(|name| !after(name));
    rest.chain(first).take(most).cloned().collect()
}

/// Whether an object whose backup is gone may be deleted: only if the backup completed. A failed backup may never
/// have written a file, and a running one has not written it yet.
pub fn may_go(backup: &Value) -> bool {
    let phase = backup.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let deleting = backup.pointer("/metadata/deletionTimestamp").is_some();
    !deleting && matches!(BackupPhase::from(phase), BackupPhase::Completed | BackupPhase::PartiallyFailed)
}
