//! Movers as Jobs: where a mover runs, what it mounts and which permissions it has. The server fills a [`MoverJob`];
//! `job` renders its objects, `queue` decides which mover starts next, `verdict` derives the state of a mover from
//! its pod and node.

pub mod job;
pub mod queue;
mod rights;
pub mod verdict;

pub use rights::{NotAllowed, PodSecurity, TargetPod};

use lifeboat_api::common::TaskId;

/// The default namespace of movers for the Velero API.
pub const DEFAULT_NAMESPACE: &str = "lifeboat-movers";

/// The input for the Job of a mover. Job and Secret are named by the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverJob {
    /// Unique, a valid part of an object's name, and derived from the object's UID and the attempt, so that a restarted
    /// server finds the same Job.
    pub task: TaskId,
    /// The object that the mover works for. The Job's labels name it; with them a restarted server adopts the Job.
    pub owner: Owner,
    pub place: MoverPlace,
    /// The repository it uses, as in `default/shop`: the number of movers per repository is limited.
    pub repository: String,
    /// The name of the backup or restore. The queue alternates between groups.
    pub group: String,
    /// The pod is stopped after this time.
    pub deadline_seconds: u64,
    /// The namespace of the Job.
    pub namespace: String,
    pub pod: PodSettings,
}

/// The settings of the pods of movers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSettings {
    /// The server's own namespace, which distinguishes its movers from those of another server.
    pub server: String,
    pub image: String,
    pub cpu_request: String,
    pub memory_request: String,
    pub memory_limit: String,
    pub priority_class: Option<String>,
    /// The directory with the task file, and the variable with the UID of the pod.
    pub task_directory: String,
    pub pod_uid_variable: String,
    /// The Pod Security level of the namespace.
    pub security: PodSecurity,
    /// The pod that uses the volume, if the mover has to run with its user.
    pub target: Option<TargetPod>,
}

/// The object that a mover works for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// As in `PodVolumeBackup`.
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// Where a mover runs and which data it mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoverPlace {
    /// On this node, with a host directory at [`DATA`]. Read-only for a backup.
    NodeDirectory { node: String, directory: String, writable: bool },
    /// With a claim of the movers' namespace, mounted at [`DATA`] or attached as the device [`DEVICE`].
    Claim { claim: String, block: bool, writable: bool, node: Option<String> },
    /// On any node, without data: maintenance.
    Anywhere,
}

impl MoverPlace {
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::NodeDirectory { node, .. } => Some(node),
            Self::Claim { node, .. } => node.as_deref(),
            Self::Anywhere => None,
        }
    }
}

/// The mount path of the volume, or of the host directory that contains it.
pub const DATA: &str = "/mover/data";
/// The path of a block device.
pub const DEVICE: &str = "/mover/device";
/// The directory for caches and large indexes.
pub const SCRATCH: &str = "/mover/scratch";
