//! Moving the data of CSI snapshots into repositories and back: the objects DataUpload and DataDownload, what is made for
//! the mover in its namespace, and the patches that hand a filled volume to its claim. Takes objects as they are; gives
//! objects, patches and decisions. Called by the CSI actions and by the controllers of both kinds.

mod consumer;
mod exposed;
mod objects;
mod rebound;

pub use consumer::{Wanted, waits_for_pods, wanted};
pub use exposed::{
    Exposure, claim as exposed_claim, content as exposed_content, for_target, made_for, node,
    snapshot as exposed_snapshot,
};
pub use objects::{NotMoved, Progress, download, moved_claim, operation, progress, result_of, upload};
pub use rebound::{Bound, bound, claim_patch, volume_patch};

use crate::json::text;

/// Annotation of a claim in a backup: namespace and name of the DataUpload that moved its data.
pub const UPLOAD_NAME: &str = "velero.io/data-upload-name";
/// Label of a selector that no volume has: nothing is bound to the claim before its data is there.
pub const SELECTOR: &str = "velero.io/dynamic-pv-restore";
/// Label of what is made for a mover: the UID of the object that it works for.
pub const MADE_FOR: &str = "lifeboat.io/data-movement";
/// Annotation of a DataDownload: the volume that was filled, written before it is handed over.
pub const VOLUME: &str = "lifeboat.io/volume";
/// Annotation: the reclaim policy that this volume gets back.
pub const RECLAIM_POLICY: &str = "lifeboat.io/reclaim-policy";

/// What is made for a mover is called by its object's UID, so that whoever comes after a crash finds it. A claim that is
/// written into is called by the task's, so that each attempt has its own.
pub fn exposed_name(uid: &str) -> String {
    format!("lifeboat-{uid}")
}

/// Whether Lifeboat's own mover is meant; others bring their own controllers.
pub fn is_built_in(datamover: Option<&str>) -> bool {
    matches!(datamover, None | Some("" | "velero" | "lifeboat"))
}
