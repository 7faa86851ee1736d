//! The work of a mover for a task, as parts of its task file and settings of its pod.

use std::path::PathBuf;

use lifeboat_api::appcatalog::AppBindingSpec;
use lifeboat_mover::task::{Proof, RestoreWork, Source, Target};
use lifeboat_plan::stash::targets::CleanPath;
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

impl TaskWork {
    /// The mover needs no volume of the target, and so no rights.
    pub(crate) fn place() -> MoverPlace {
        MoverPlace::Volumes { volumes: Vec::new(), node: None }
    }

    /// The path of the data in a snapshot.
    pub(crate) fn path(&self) -> String {
        self.mover.data.stored_at()
    }

    /// The settings of all movers, with the additions for the pod of this one.
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

    /// Whether the files of a snapshot can be chosen by patterns. The dump of a database is restored as a whole.
    pub(crate) fn has_files(&self) -> bool {
        matches!(self.mover.data, TaskData::Directory { .. })
    }

    /// The restore of one path of a snapshot.
    pub(crate) fn restore(
        &self,
        snapshot: &str,
        path: &CleanPath,
        include: &[String],
        exclude: &[String],
    ) -> RestoreWork {
        match &self.mover.data {
            TaskData::Stream { argv, .. } => {
                RestoreWork::new(snapshot, Target::Command { argv: argv.clone() })
            }
            TaskData::Directory { path: directory, .. } => {
                let target = Target::Path { path: PathBuf::from(directory), proof: Some(Proof::MountPoint) };
                RestoreWork {
                    folder: Some(path.to_string()),
                    include: include.to_vec(),
                    exclude: exclude.to_vec(),
                    ..RestoreWork::new(snapshot, target)
                }
            }
        }
    }
}
