//! Moving the data of CSI snapshots into repositories and back: the objects DataUpload and DataDownload. Takes objects
//! as they are; gives objects and decisions. Called by the CSI actions and by the controllers of both kinds. What is made for a
//! mover and how a filled volume is handed over is decided in [`crate::transfer`].

mod objects;

pub use objects::{NotMoved, Progress, download, moved_claim, operation, result_of, upload};

use serde_json::Value;

use crate::json::text;

/// Annotation of a claim in a backup: namespace and name of the DataUpload that moved its data.
pub const UPLOAD_NAME: &str = "velero.io/data-upload-name";
/// Label in a claim's selector that no volume has: the claim is not bound before its data is there.
pub const SELECTOR: &str = "velero.io/dynamic-pv-restore";
/// Annotation of a DataDownload: the volume that was filled, written before the handover.
pub const VOLUME: &str = "lifeboat.io/volume";
/// Annotation: the reclaim policy to set on this volume after the handover.
pub const RECLAIM_POLICY: &str = "lifeboat.io/reclaim-policy";

/// Whether Lifeboat's own mover is used; other data movers have their own controllers.
pub fn is_built_in(datamover: Option<&str>) -> bool {
    matches!(datamover, None | Some("" | "velero" | "lifeboat"))
}

/// Whether a Restore still makes objects: pods that say where a volume is wanted can be among them.
pub fn is_making(restore: &Value) -> bool {
    let count = |field: &str| restore["status"]["progress"][field].as_u64();
    let all_made = match (count("itemsRestored"), count("totalItems")) {
        (Some(made), Some(total)) => made >= total,
        _ => false,
    };
    matches!(text(restore, "/status/phase"), "" | "New" | "InProgress") && !all_made
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn restore(phase: &str, made: u64) -> Value {
        json!({"status": {"phase": phase, "progress": {"itemsRestored": made, "totalItems": 9}}})
    }

    #[rstest]
    #[case::some_are_missing(restore("InProgress", 8), true)]
    #[case::nothing_was_counted_yet(json!({"status": {"phase": "InProgress"}}), true)]
    #[case::everything_is_made(restore("InProgress", 9), false)]
    #[case::operations_are_waited_for(restore("WaitingForPluginOperations", 9), false)]
    #[case::ended(restore("Completed", 9), false)]
    fn a_restore_makes_objects_until_all_are_made(#[case] restore: Value, #[case] expected: bool) {
        assert_eq!(is_making(&restore), expected);
    }
}
