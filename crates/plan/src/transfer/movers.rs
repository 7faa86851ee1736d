//! Movers as Jobs: where one runs, what it mounts and which rights it has. The server fills a [`MoverJob`]; `job` makes the
//! objects of it, `queue` decides which mover starts next, `verdict` reads from pod and node how a mover stands.

pub mod job;
pub mod queue;
mod rights;
pub mod verdict;

pub use rights::{NotAllowed, PodSecurity, TargetPod};

/// Where movers for the Velero API run unless told otherwise.
pub const DEFAULT_NAMESPACE: &str = "lifeboat-movers";

/// What the Job of a mover is made from. Job and Secret are named by the task's UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverJob {
    /// The task's UID: unique, a valid part of an object's name, made from what is known before (object UID, attempt),
    /// so that whoever comes after a crash finds the same Job.
    pub uid: String,
    /// The object that the mover works for: labels of the Job, by which it is adopted after a restart.
    pub owner: Owner,
    pub place: MoverPlace,
    /// The repository that it works on, as in `default/shop`: so many at once and no more.
    pub repository: String,
    /// Whose turn it is: the queue takes one of each group after the other. A backup's or restore's name.
    pub group: String,
    /// The pod is ended after this time.
    pub deadline_seconds: u64,
    /// Where the Job is made.
    pub namespace: String,
    pub pod: PodSettings,
}

/// How the pods of movers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSettings {
    /// The server's own namespace: its movers are never taken for those of another server.
    pub server: String,
    pub image: String,
    pub cpu_request: String,
    pub memory_request: String,
    pub memory_limit: String,
    pub priority_class: Option<String>,
    /// Where the program looks for its task, and the variable from which it reads the UID of its pod.
    pub task_directory: String,
    pub pod_uid_variable: String,
    /// What the namespace lets pods do.
    pub security: PodSecurity,
    /// The pod whose volume is read or written, where the mover has to run as it does.
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

/// Where a mover runs and what it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoverPlace {
    /// On this node, with a directory of the host at [`DATA`]. Read-only for a backup.
    NodeDirectory { node: String, directory: String, writable: bool },
    /// With a claim of the movers' namespace: at [`DATA`], or as the device [`DEVICE`].
    Claim { claim: String, block: bool, writable: bool, node: Option<String> },
    /// Anywhere, with no data at all: maintenance.
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

/// Where a mover's container has the volume, or the directory of the host that holds it.
pub const DATA: &str = "/mover/data";
/// Where it has a block device.
pub const DEVICE: &str = "/mover/device";
/// Where it may write: caches, large indexes.
pub const SCRATCH: &str = "/mover/scratch";
