//! Moving the data of CSI snapshots into repositories and back: the objects DataUpload and DataDownload, the objects
//! for the mover in its namespace, and the patches that hand a filled volume to its claim. Takes objects; gives
//! objects, patches and decisions. Called by the CSI actions and by the controllers of both kinds.

mod objects;

pub use crate::transfer::consumer::{ConsumerNode, consumer_node, waits_for_pods};
pub use crate::transfer::exposed::{
    Exposure, MADE_FOR, claim as exposed_claim, content as exposed_content, exposed_name, for_target,
    made_for, node, snapshot as exposed_snapshot,
};
pub use crate::transfer::handover::{Bound, bound, claim_patch, volume_patch};
pub use objects::{NotMoved, Progress, download, moved_claim, operation, progress, result_of, upload};

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
