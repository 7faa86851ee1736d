//! Movers as Jobs: where a mover runs, what it mounts and which permissions it has. The server fills a [`MoverJob`];
//! `job` and `pod` render its objects, `queue` decides which mover starts next, `verdict` derives the state of a mover
//! from its pod and node.

mod admission;
pub mod job;
mod pod;
pub mod queue;
mod rights;
pub mod verdict;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use admission::DryRun;
pub use rights::{NotAllowed, PodSecurity, TargetPod, USER};

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
    /// Set only if a quota requires a limit, because more CPU makes a mover faster.
    pub cpu_limit: Option<String>,
    pub memory_request: String,
    pub memory_limit: String,
    pub priority_class: Option<String>,
    /// The CPU priority of the process, from -20 (highest) to 19 (lowest).
    pub nice: Option<i32>,
    /// The service account; by default [`job::SERVICE_ACCOUNT`], which exists only in the movers' own namespace.
    pub service_account: Option<String>,
    /// The directory with the task file, and the variable with the UID of the pod.
    pub task_directory: String,
    pub pod_uid_variable: String,
    /// The Pod Security level of the namespace.
    pub security: PodSecurity,
    /// The pod that uses the volume, if the mover has to run with its user.
    pub target: Option<TargetPod>,
    /// The volume that holds the repository, if it is not in object storage: a volume source as in
    /// `{"nfs": {"server": …, "path": …}}`. Mounted at [`REPOSITORY`].
    pub repository_volume: Option<Value>,
    /// An image with programs that the mover starts, such as `pg_dump`. The mover itself is brought into it by an init
    /// container.
    pub tool_image: Option<String>,
    pub overrides: PodOverrides,
}

/// Fields of a pod in addition to, or instead of, those that every mover has. Names and values are those of
/// Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOverrides {
    /// Labels and annotations of the pod only. Those by which movers are found stay as they are.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Fields of the pod's spec, each of which replaces the mover's. An affinity is combined with the node on which
    /// the data is.
    pub spec: Map<String, Value>,
    /// Fields of the pod's security context.
    pub security: Map<String, Value>,
    /// Fields of the container, each of which replaces the mover's.
    pub container: Map<String, Value>,
    /// Fields of the container's security context.
    pub container_security: Map<String, Value>,
    /// Variables of the container; they do not replace the mover's own.
    pub env: Vec<Value>,
    /// Further volumes of the pod, and mounts of the container.
    pub volumes: Vec<Value>,
    pub mounts: Vec<Value>,
    /// Init containers that run after those of the mover and before its work.
    pub init_containers: Vec<Value>,
    /// Containers that run in turn after the mover's work. The work is then done by an init container, [`FIRST`].
    pub after: Vec<Value>,
}

/// The object that a mover works for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// As in `PodVolumeBackup`.
    pub kind: String,
    pub namespace: String,
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
    /// With claims of the Job's namespace, in this order: the claim with number `n` is mounted at [`data`]`(n)` or
    /// attached as the device [`device`]`(n)`. In a namespace that is not Lifeboat's own.
    Volumes { volumes: Vec<MoverVolume>, node: Option<String> },
    /// On any node, without data: maintenance and inspections of a repository.
    Anywhere,
}

/// A claim that a mover reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverVolume {
    pub claim: String,
    pub block: bool,
    pub writable: bool,
}

impl MoverPlace {
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::NodeDirectory { node, .. } => Some(node),
            Self::Claim { node, .. } | Self::Volumes { node, .. } => node.as_deref(),
            Self::Anywhere => None,
        }
    }
}

/// The prefix of the names of containers that do a part of the work and may take as long as the mover itself.
pub const STEP: &str = "step-";
/// The init container that does the mover's work if other containers run after it.
pub const FIRST: &str = "step-mover";

/// The mount path of the volume, or of the host directory that contains it.
pub const DATA: &str = "/mover/data";
/// The path of a block device.
pub const DEVICE: &str = "/mover/device";
/// The mount path of the volume that holds the repository.
pub const REPOSITORY: &str = "/mover/repository";
/// The directory for caches and large indexes.
pub const SCRATCH: &str = "/mover/scratch";

/// The mount path of the claim with this number in [`MoverPlace::Volumes`].
pub fn data(number: usize) -> String {
    format!("{DATA}/{number}")
}

/// The path of the block device with this number in [`MoverPlace::Volumes`].
pub fn device(number: usize) -> String {
    format!("{DEVICE}/{number}")
}
