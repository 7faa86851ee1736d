//! Volumes restored from native snapshots: which snapshot belongs to a volume, whether the volume is renamed, and
//! whether the plugin's answer is valid. Called by the executor for each such PersistentVolume.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Annotation of a renamed volume: its original name; upstream's.
pub const ORIGINAL_NAME: &str = "velero.io/original-pv-name";

/// A snapshot in the backup's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The PersistentVolume.
    pub volume: String,
    /// The provider's ID of the snapshot; empty if none was taken.
    pub id: String,
    /// The VolumeSnapshotLocation.
    pub location: String,
    pub volume_type: String,
    pub zone: String,
    pub iops: Option<i64>,
}

/// Why there is no snapshot to restore a volume from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSnapshot {
    #[error("the backup lists a snapshot of it that was never made")]
    NeverMade,
    #[error("the backup's list of snapshots does not have one of it; the file may be damaged")]
    NotListed,
}

/// The snapshot of a volume: the first one listed, as upstream.
pub fn snapshot_of<'a>(snapshots: &'a [Snapshot], volume: &str) -> Result<&'a Snapshot, NoSnapshot> {
    let of_volume = || snapshots.iter().filter(|snapshot| snapshot.volume == volume);
    let made = of_volume().find(|snapshot| !snapshot.id.is_empty());
    made.ok_or_else(
        || {
            if of_volume().next().is_some() { NoSnapshot::NeverMade } else { NoSnapshot::NotListed }
        },
    )
}

/// Warnings about the list: volumes with several snapshots.
pub fn doubled(snapshots: &[Snapshot]) -> Vec<String> {
    let mut by_volume: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for snapshot in snapshots.iter().filter(|snapshot| !snapshot.id.is_empty()) {
        let ids = by_volume.entry(&snapshot.volume).or_default();
        if !ids.contains(&snapshot.id.as_str()) {
            ids.push(&snapshot.id);
        }
    }
    let several = by_volume.into_iter().filter(|(_, ids)| ids.len() > 1);
    several
        .map(|(volume, ids)| {
            format!(
                "the backup lists {} snapshots of volume {volume}: {}; the first is used",
                ids.len(),
                ids.join(", ")
            )
        })
        .collect()
}

/// Whether the volume's claim is restored into another namespace: only then is a volume renamed if its name exists.
pub fn moves(volume: &Value, mapping: &BTreeMap<String, String>) -> bool {
    let namespace = volume.pointer("/spec/claimRef/namespace").and_then(Value::as_str);
    namespace.is_some_and(|namespace| mapping.contains_key(namespace))
}

/// The new name of a volume. Upstream's is random; Lifeboat's is the same in every attempt, so that a restarted
/// server finds it.
pub fn other_name(restore_uid: &str, volume: &str) -> String {
    let mut hash = Sha256::new();
    for part in [restore_uid, volume] {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut name = "velero-clone-".to_owned();
    for (place, byte) in hash.finalize().iter().take(16).enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            name.push('-');
        }
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Renames a volume and records its original name.
pub fn rename(volume: &mut Value, from: &str, to: &str) {
    volume["metadata"]["name"] = json!(to);
    volume["metadata"]["annotations"][ORIGINAL_NAME] = json!(from);
}

/// Why the object that a plugin returned is not a usable volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAVolume {
    #[error("the plugin gave back a {version:?} {kind:?} for it, not a PersistentVolume")]
    Kind { version: String, kind: String },
    #[error("the plugin gave it the name {0:?}, which no volume can have")]
    Name(String),
    #[error("the plugin gave it back without a spec")]
    NoSpec,
}

/// Checks the object that a snapshotter returned: it must still be a PersistentVolume with a name.
pub fn check(volume: &Value) -> Result<(), NotAVolume> {
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if (text("/apiVersion"), text("/kind")) != ("v1", "PersistentVolume") {
        let (version, kind) = (text("/apiVersion").to_owned(), text("/kind").to_owned());
        return Err(NotAVolume::Kind { version, kind });
    }
    let name = text("/metadata/name");
    if !crate::velero::volume_plugin::can_be_name(name) {
        return Err(NotAVolume::Name(name.to_owned()));
    }
    if !volume["spec"].is_object() {
        return Err(NotAVolume::NoSpec);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn snapshot(volume: &str, id: &str) -> Snapshot {
        Snapshot { volume: volume.into(), id: id.into(), ..Snapshot::default() }
    }

    #[test]
    fn the_first_snapshot_that_was_made_is_the_volumes() {
        let all = [snapshot("other", "x"), snapshot("pv", ""), snapshot("pv", "a"), snapshot("pv", "b")];
        assert_eq!(snapshot_of(&all, "pv").unwrap().id, "a");
        assert!(snapshot_of(&all[..2], "pv").unwrap_err().to_string().contains("never made"));
        assert!(snapshot_of(&all[..1], "pv").unwrap_err().to_string().contains("does not have one"));
    }

    #[test]
    fn several_snapshots_of_one_volume_are_reported_and_one_listed_twice_is_not() {
        let all = [snapshot("pv", "a"), snapshot("pv", "a"), snapshot("pw", "a"), snapshot("pw", "b")];
        assert_eq!(doubled(&all), ["the backup lists 2 snapshots of volume pw: a, b; the first is used"]);
    }

    #[test]
    fn the_other_name_is_the_same_in_every_attempt_and_differs_between_restores() {
        let name = other_name("uid", "pv");
        assert_eq!(name, other_name("uid", "pv"));
        assert_ne!(name, other_name("other", "pv"));
        assert_ne!(other_name("a", "bc"), other_name("ab", "c"));
        assert_eq!(name.len(), "velero-clone-".len() + 36);
        let mut volume = json!({"metadata": {"name": "pv"}});
        rename(&mut volume, "pv", &name);
        assert_eq!(volume["metadata"]["annotations"][ORIGINAL_NAME], "pv");
        assert_eq!(volume["metadata"]["name"], name.as_str());
    }

    #[rstest]
    #[case::claimed_there(json!({"claimRef": {"namespace": "shop"}}), true)]
    #[case::claimed_elsewhere(json!({"claimRef": {"namespace": "other"}}), false)]
    #[case::not_claimed(json!({}), false)]
    fn only_a_volume_whose_claim_moves_may_be_renamed(#[case] spec: Value, #[case] expected: bool) {
        let mapping = [("shop".to_owned(), "copy".to_owned())].into();
        assert_eq!(moves(&json!({"spec": spec}), &mapping), expected);
    }

    #[rstest]
    #[case::good(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "x"}, "spec": {}}), None)]
    #[case::other_kind(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}), Some("\"Pod\""))]
    #[case::no_name(json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {}}), Some("name \"\""))]
    #[case::a_path(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "../x"}, "spec": {}}), Some("../x"))]
    #[case::no_spec(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "x"}}), Some("without a spec"))]
    #[case::garbage(json!("x"), Some("not a PersistentVolume"))]
    fn what_comes_back_is_a_volume_still(#[case] volume: Value, #[case] expected: Option<&str>) {
        let found = check(&volume).err().map(|error| error.to_string());
        assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()));
    }
}
