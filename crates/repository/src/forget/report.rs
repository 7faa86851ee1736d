//! The decision of forget about a group, with the JSON that `restic forget --json` prints.

use serde::Serialize;

use super::policy::{Counters, Decision, Kept};
use crate::id::SnapshotId;
use crate::snapshot::Snapshot;
use crate::snapshots::{FoundSnapshot, GroupKey};

/// A group with the snapshots that are kept and removed; both newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForgetGroup {
    pub tags: Option<Vec<String>>,
    pub host: String,
    pub paths: Option<Vec<String>>,
    #[serde(serialize_with = "null_if_empty")]
    pub keep: Vec<JsonSnapshot>,
    #[serde(serialize_with = "null_if_empty")]
    pub remove: Vec<JsonSnapshot>,
    #[serde(serialize_with = "null_if_empty")]
    pub reasons: Vec<KeepReason>,
}

/// A snapshot with its ID, as restic's commands print it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JsonSnapshot {
    #[serde(flatten)]
    pub snapshot: Snapshot,
    pub id: SnapshotId,
    pub short_id: String,
}

/// Why a snapshot is kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeepReason {
    pub snapshot: JsonSnapshot,
    pub matches: Vec<String>,
    /// restic's command does not print these.
    #[serde(skip)]
    pub counters: Counters,
}

impl From<FoundSnapshot> for JsonSnapshot {
    fn from((id, snapshot): FoundSnapshot) -> Self {
        Self { snapshot, id, short_id: id.short() }
    }
}

impl ForgetGroup {
    pub(super) fn new(key: GroupKey, decision: Decision) -> Self {
        let reason = |Kept { snapshot, matches, counters }| KeepReason {
            snapshot: JsonSnapshot::from(snapshot),
            matches,
            counters,
        };
        let reasons: Vec<KeepReason> = decision.keep.into_iter().map(reason).collect();
        Self {
            tags: key.tags,
            host: key.hostname,
            paths: key.paths,
            keep: reasons.iter().map(|reason| reason.snapshot.clone()).collect(),
            remove: decision.remove.into_iter().map(JsonSnapshot::from).collect(),
            reasons,
        }
    }
}

/// Go writes a list that was never appended to as null.
fn null_if_empty<T: Serialize, S: serde::Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    if list.is_empty() { serializer.serialize_none() } else { list.serialize(serializer) }
}
