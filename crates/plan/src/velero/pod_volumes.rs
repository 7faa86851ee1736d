//! File copies of pod volumes: which volumes are copied, and the objects PodVolumeBackup and PodVolumeRestore. Takes
//! pods, claims, volumes and a Backup's settings; gives choices, objects and patches. Called by the pipelines and by
//! the controllers of both kinds.

mod choose;
pub mod files;
mod object;
mod restored;
pub mod status;
mod waiting;

pub(crate) use choose::used;
pub use choose::{Choice, Choices, Verdict, choose};
pub use object::{CopySettings, PodVolume, backup_name, backup_object, backup_tag, host, report_key, tags};
pub use restored::{Copied, CopyFor, PodOf, copies, copies_for, restore_name, restore_object, unusable};
pub use waiting::{CONTAINER, PodLeft, Wait, WaitState, mark, started, stayed, take_mark, wait_container};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lifeboat_api::common::TaskId;
use lifeboat_api::velero::DataMovePhase;
use serde_json::Value;

use crate::json::text;
use crate::transfer::attempts::task_uid;

/// Annotation: how many files changed while they were read.
pub const CHANGED_FILES: &str = "lifeboat.io/changed-files";
/// Annotation: how many files could not be read and are missing in the snapshot.
pub const UNREADABLE_FILES: &str = "lifeboat.io/unreadable-files";
/// Annotation: the number of the current attempt, starting at 1. The mover's task is named by it, so it is written
/// first.
pub const ATTEMPT: &str = "lifeboat.io/attempt";
/// Annotation: owners of locks whose end the kubelet reported, separated by commas.
pub const DEAD_OWNERS: &str = "lifeboat.io/dead-owners";
/// The directory in a volume that records completed restores; never part of a copy.
pub const DONE_DIRECTORY: &str = ".velero";

/// The number of the attempt in an object's annotation, at least 1.
pub fn attempt(annotation: Option<&str>) -> u64 {
    annotation.and_then(|text| text.parse().ok()).filter(|number| *number > 0).unwrap_or(1)
}

/// Whether a PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload has ended.
pub fn has_ended(object: &Value) -> bool {
    DataMovePhase::from(text(object, "/status/phase")).is_terminal()
}

/// The task of an object's current attempt.
pub fn task_of(metadata: &ObjectMeta) -> TaskId {
    let annotation = metadata.annotations.as_ref().and_then(|all| all.get(ATTEMPT));
    let number = attempt(annotation.map(String::as_str));
    task_uid(metadata.uid.as_deref().unwrap_or_default(), number)
}

/// The owners of locks in an object's annotation.
pub fn dead_owners(annotation: Option<&str>) -> Vec<String> {
    annotation.unwrap_or_default().split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect()
}
