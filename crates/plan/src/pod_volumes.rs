//! Volumes of pods, copied file by file: which ones, where a node has them, and the objects PodVolumeBackup and
//! PodVolumeRestore. Takes pods, claims, volumes and what a Backup asks for; gives choices, directories, objects and
//! patches. Called by the pipelines and by the controllers of both kinds.

mod attempts;
mod choose;
mod directory;
pub mod files;
mod object;
mod restored;
pub mod status;
mod waiting;

pub use attempts::{Died, Next, next};
pub(crate) use choose::used;
pub use choose::{Choice, Choices, ClaimOf, Verdict, choose, claim_of};
pub use directory::{Directory, DirectoryError, KUBELET_ROOT, Proof, directory};
pub use object::{
    PodVolume, Wanted, backup_name, backup_object, backup_tag, host, report_key, tags, task_uid,
};
pub use restored::{Copied, CopyFor, PodOf, copies, copies_for, restore_name, restore_object, unusable};
pub use waiting::{CONTAINER, PodLeft, Standing, Wait, mark, started, stayed, take_mark, wait_container};

use lifeboat_api::velero::DataMovePhase;
use serde_json::Value;

use crate::json::text;

/// Annotation: what can be said of the moment that a copy shows.
pub const CONSISTENCY: &str = "lifeboat.io/consistency";
/// Its values: others were writing; or hooks had brought the workload to rest.
pub const LIVE: &str = "Live";
pub const QUIESCED: &str = "Quiesced";
/// Annotation: how many files changed while they were read.
pub const CHANGED_FILES: &str = "lifeboat.io/changed-files";
/// Annotation: how many files could not be read, and are not in the snapshot.
pub const UNREADABLE_FILES: &str = "lifeboat.io/unreadable-files";
/// Annotation: which attempt runs, counted from 1. The mover's task is named by it, so it is written before.
pub const ATTEMPT: &str = "lifeboat.io/attempt";
/// Annotation: owners of locks whose end the kubelet reported, with commas between them.
pub const DEAD_OWNERS: &str = "lifeboat.io/dead-owners";
/// How often a mover that died through no fault of the volume is sent.
pub const ATTEMPTS: u64 = 2;
/// The directory in a volume that says which restores are done; never part of a copy.
pub const DONE_DIRECTORY: &str = ".velero";

/// The attempt that an object's annotation names, at least 1.
pub fn attempt(annotation: Option<&str>) -> u64 {
    annotation.and_then(|text| text.parse().ok()).filter(|number| *number > 0).unwrap_or(1)
}

/// Whether a PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload is at its end.
pub fn has_ended(object: &Value) -> bool {
    DataMovePhase::from(text(object, "/status/phase")).is_terminal()
}

/// The task of the attempt that an object is at.
pub fn task_of(object: &Value) -> String {
    let number = attempt(object["metadata"]["annotations"][ATTEMPT].as_str());
    task_uid(text(object, "/metadata/uid"), number)
}

/// The owners of locks that an object's annotation names.
pub fn dead_owners(annotation: Option<&str>) -> Vec<String> {
    annotation.unwrap_or_default().split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect()
}
