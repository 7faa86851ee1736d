//! Kinds of group velero.io that this version installs but does not serve yet. Stock clients list every kind of the
//! group, so all of them are installed; an object that nobody works on would be silent data loss, so each new one is
//! ended at once, in the way its kind can say "failed". Called by the controller of the same name.
//!
//! A kind leaves this table in the change that brings its controller.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::time::seconds;

/// The group all of them belong to.
pub const GROUP: &str = "velero.io";

/// How a kind says that an object has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// phase Failed, message, completionTimestamp
    Message,
    /// phase NotReady, message
    NotReady,
}

/// One kind without a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedKind {
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    end: End,
}

const fn kind(version: &'static str, kind: &'static str, plural: &'static str, end: End) -> UnsupportedKind {
    UnsupportedKind { version, kind, plural, end }
}

/// Every kind of the group that has no controller in this version.
pub const KINDS: [UnsupportedKind; 5] = [
    kind("v1", "PodVolumeBackup", "podvolumebackups", End::Message),
    kind("v1", "PodVolumeRestore", "podvolumerestores", End::Message),
    kind("v1", "BackupRepository", "backuprepositories", End::NotReady),
    kind("v2alpha1", "DataUpload", "datauploads", End::Message),
    kind("v2alpha1", "DataDownload", "datadownloads", End::Message),
];

/// The words of status and event.
pub fn message(kind: &UnsupportedKind, version: &str) -> String {
    format!(
        "{} is not supported by this version of Lifeboat ({version}): nothing was done; see the changelog for the version that does",
        kind.kind
    )
}

/// What to merge into an object to end it; `None` where it is not new and must be left alone (it may have come from a Velero that ran here
/// before).
pub fn end(kind: &UnsupportedKind, object: &Value, version: &str, now: Timestamp) -> Option<Value> {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if !matches!(phase, "" | "New") {
        return None;
    }
    let text = message(kind, version);
    let time = seconds(now);
    let status = match kind.end {
        End::Message => json!({"phase": "Failed", "message": text, "completionTimestamp": time}),
        End::NotReady => json!({"phase": "NotReady", "message": text}),
    };
    Some(json!({"status": status}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_a_new_object_of_every_kind_in_the_words_of_that_kind() {
        let now = Timestamp::UNIX_EPOCH;
        let ends: Vec<_> = KINDS
            .iter()
            .map(|kind| (kind.kind, end(kind, &json!({"status": {"phase": "New"}}), "0.1.0", now)))
            .collect();
        insta::assert_json_snapshot!(ends);
    }

    #[test]
    fn leaves_objects_of_an_earlier_velero_alone() {
        for kind in &KINDS {
            let object = json!({"status": {"phase": "Completed"}});
            assert_eq!(end(kind, &object, "0.1.0", Timestamp::UNIX_EPOCH), None, "{}", kind.kind);
        }
    }

    #[test]
    fn an_object_without_any_status_is_new() {
        assert!(end(&KINDS[0], &json!({"spec": {}}), "0.1.0", Timestamp::UNIX_EPOCH).is_some());
    }
}
