//! Movers as Jobs: where one runs, what it mounts and which rights it has. The server fills an [`Errand`]; `job` makes
//! the objects of it, `queue` decides who starts next, `verdict` reads from pod and node how a mover stands.

pub mod job;
pub mod queue;
mod rights;
pub mod verdict;

/// Where movers for the Velero API run unless told otherwise.
pub const DEFAULT_NAMESPACE: &str = "lifeboat-movers";

/// What the server wants a mover for. Its Job and Secret are named by the task's UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// The task's UID: unique, a valid part of an object's name, made from what is known before (object UID, attempt),
    /// so that whoever comes after a crash finds the same Job.
    pub uid: String,
    /// The object that the mover works for: labels of the Job, by which it is adopted after a restart.
    pub owner: Owner,
    pub place: Place,
    /// The repository that it works on, as in `default/shop`: so many at once and no more.
    pub repository: String,
    /// Whose turn it is: the queue takes one of each group after the other. A backup's or restore's name.
    pub group: String,
    /// The pod is ended after this time.
    pub deadline_seconds: u64,
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
pub enum Place {
    /// On this node, with a directory of the host at [`DATA`]. Read-only for a backup.
    NodeDirectory { node: String, directory: String, writable: bool },
    /// With a claim of the movers' namespace: at [`DATA`], or as the device [`DEVICE`].
    Claim { claim: String, block: bool, writable: bool, node: Option<String> },
    /// Anywhere, with no data at all: maintenance.
    Anywhere,
}

impl Place {
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
