//! What a mover does for a task, as parts of its task file and settings of its pod.

use std::path::PathBuf;

use lifeboat_api::appcatalog::AppBindingSpec;
use lifeboat_mover::task::{Proof, RestoreWork, Source, Target};
use lifeboat_plan::stash::rules::RestorePart;
use lifeboat_plan::stash::tasks::{TaskData, TaskMover};
use lifeboat_plan::transfer::movers::{MoverPlace, PodSettings};

/// The work of one host.
#[derive(Clone)]
pub(crate) struct TaskWork {
    /// The namespace of the mover's Job.
    pub(crate) namespace: String,
    pub(crate) mover: TaskMover,
    /// The AppBinding that is the target.
    pub(super) app: Option<AppBindingSpec>,
}

/// Why a part cannot be restored by a task.
#[derive(Debug, thiserror::Error)]
#[error(
    "rules: include and exclude choose files, and snapshot {snapshot} is the dump of a database; remove them"
)]
pub(crate) struct NotWhole {
    snapshot: String,
}

impl TaskWork {
    /// The mover needs no volume of the target, and so no rights.
    pub(crate) fn place() -> MoverPlace {
        MoverPlace::Volumes { volumes: Vec::new(), node: None }
    }

    /// The path of the data in a snapshot.
    pub(crate) fn path(&self) -> String {
        self.mover.data.stored_at()
    }

    /// The settings of all movers, with what the pod of this one has besides.
    pub(crate) fn base(&self, movers: PodSettings) -> PodSettings {
        self.mover.pod.onto(movers)
    }

    /// The source of a backup.
    pub(crate) fn source(&self) -> Source {
        match &self.mover.data {
            TaskData::Stream { argv, file } => Source::Command { argv: argv.clone(), name: file.clone() },
            TaskData::Directory { path, .. } => {
                Source::Path { path: PathBuf::from(path), proof: Some(Proof::MountPoint) }
            }
        }
    }

    /// The restore of one part.
    pub(crate) fn restore(&self, part: &RestorePart) -> Result<RestoreWork, NotWhole> {
        match &self.mover.data {
            TaskData::Stream { argv, .. } => {
                if !part.include.is_empty() || !part.exclude.is_empty() {
                    return Err(NotWhole { snapshot: part.snapshot.clone() });
                }
                Ok(RestoreWork::new(&part.snapshot, Target::Command { argv: argv.clone() }))
            }
            TaskData::Directory { path, .. } => {
                let target = Target::Path { path: PathBuf::from(path), proof: Some(Proof::MountPoint) };
                Ok(RestoreWork {
                    folder: Some(part.folder.to_string()),
                    include: part.include.clone(),
                    exclude: part.exclude.clone(),
                    ..RestoreWork::new(&part.snapshot, target)
                })
            }
        }
    }
}
