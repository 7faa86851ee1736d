//! Patches for the phases of a PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload, with upstream's phases
//! and fields. Group velero.io has no status subresource, so one patch holds status and annotations.

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use serde_json::{Value, json};

use super::{ATTEMPT, CHANGED_FILES, DEAD_OWNERS, UNREADABLE_FILES};
use crate::transfer::attempts::{Snapshot, incomplete};

/// An attempt starts: written before its mover is created.
pub fn accepted(attempt: u64, now: Timestamp) -> Value {
    let mut patch = adopted(attempt);
    patch["status"] = json!({"phase": "Accepted", "acceptedTimestamp": seconds(now)});
    patch
}

/// An attempt that another server started is adopted, in its current phase.
pub fn adopted(attempt: u64) -> Value {
    json!({"metadata": {"annotations": {ATTEMPT: attempt.to_string()}}, "status": {}})
}

/// Another attempt follows one whose mover died. `dead`: the owners of locks that may be removed.
pub fn again(attempt: u64, dead: &[String], message: &str) -> Value {
    json!({
        "metadata": {"annotations": {ATTEMPT: attempt.to_string(), DEAD_OWNERS: dead.join(",")}},
        "status": {"phase": "Accepted", "message": format!("{message}; it is retried once")},
    })
}

/// The reason why it waits. The phase stays.
pub fn waits(message: &str) -> Value {
    json!({"status": {"message": message}})
}

/// The mover's pod exists.
pub fn prepared(message: &str) -> Value {
    json!({"status": {"phase": "Prepared", "message": message}})
}

/// The mover runs.
pub fn running(start: Option<&str>, now: Timestamp) -> Value {
    json!({"status": {"phase": "InProgress", "message": null,
        "startTimestamp": start.map_or_else(|| seconds(now), str::to_owned)}})
}

pub fn progress(done: u64, total: u64) -> Value {
    json!({"status": {"progress": {"bytesDone": done, "totalBytes": total.max(done)}}})
}

pub fn canceling() -> Value {
    json!({"status": {"phase": "Canceling"}})
}

pub fn canceled(message: &str, now: Timestamp) -> Value {
    json!({"status": {"phase": "Canceled", "message": message, "completionTimestamp": seconds(now)}})
}

pub fn failed(message: &str, now: Timestamp) -> Value {
    json!({"status": {"phase": "Failed", "message": message, "completionTimestamp": seconds(now)}})
}

/// The end of a copy. A copy with missing files has failed, but its snapshot is kept, because it can be restored.
pub fn copied(snapshot: &Snapshot, now: Timestamp) -> Value {
    let mut status = json!({
        "phase": "Completed",
        "message": null,
        "snapshotID": snapshot.id,
        "completionTimestamp": seconds(now),
        "progress": {"bytesDone": snapshot.bytes, "totalBytes": snapshot.bytes},
        "incrementalBytes": snapshot.bytes_added,
    });
    let mut annotations = json!({CHANGED_FILES: snapshot.changed.to_string()});
    if snapshot.unreadable > 0 {
        status["phase"] = json!("Failed");
        status["message"] = json!(incomplete(snapshot));
        annotations[UNREADABLE_FILES] = json!(snapshot.unreadable.to_string());
    }
    json!({"metadata": {"annotations": annotations}, "status": status})
}

/// The end of a restore.
pub fn restored(bytes: u64, now: Timestamp) -> Value {
    json!({"status": {"phase": "Completed", "message": null, "completionTimestamp": seconds(now),
        "progress": {"bytesDone": bytes, "totalBytes": bytes}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_misses_files_has_failed_and_keeps_its_snapshot() {
        let mut snapshot = Snapshot { id: "abc".into(), bytes: 10, bytes_added: 3, ..Snapshot::default() };
        let done = copied(&snapshot, Timestamp::UNIX_EPOCH);
        assert_eq!(done["status"]["phase"], "Completed");
        assert_eq!(done["status"]["incrementalBytes"], 3);
        snapshot.unreadable = 5;
        snapshot.unreadable_first = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let failed = copied(&snapshot, Timestamp::UNIX_EPOCH);
        assert_eq!(
            (&failed["status"]["phase"], &failed["status"]["snapshotID"]),
            (&json!("Failed"), &json!("abc"))
        );
        assert_eq!(
            failed["status"]["message"],
            "5 files could not be read and are not in the snapshot (a, b, c, …); the rest of the volume is in snapshot abc"
        );
    }

    #[test]
    fn the_start_is_that_of_the_first_attempt() {
        let again = running(Some("2026-01-01T00:00:00Z"), Timestamp::UNIX_EPOCH);
        assert_eq!(again["status"]["startTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(running(None, Timestamp::UNIX_EPOCH)["status"]["startTimestamp"], "1970-01-01T00:00:00Z");
    }
}
