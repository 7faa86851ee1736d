//! What a mover is told: one JSON file, `task.json`, in a directory with the files that it names (password,
//! credentials, certificates). Written by the server, read by the mover; unknown fields and versions are refused, so
//! that a mover of another version never half-understands its task.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// The task's file in its directory.
pub const FILE: &str = "task.json";
/// Where the directory is in a mover's container.
pub const DIRECTORY: &str = "/mover/task";
/// The variable with the UID of the mover's pod, for the owner of locks.
pub const POD_UID: &str = "LIFEBOAT_POD_UID";
/// The tag that a task's snapshot carries, before its UID.
pub const UID_TAG: &str = "lifeboat-task=";
/// The tag of a snapshot that is not whole: how many files could not be read.
pub const UNREADABLE_TAG: &str = "lifeboat-unreadable=";

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    /// [`VERSION`].
    pub version: u32,
    /// Names the task for ever: the snapshot tagged with it is the proof that it was done.
    pub uid: String,
    pub work: Work,
    pub repository: RepositoryAccess,
    pub lock: LockTerms,
    #[serde(default)]
    pub limits: Limits,
    /// The mover stops by itself then; the pod's own deadline comes a little later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Work {
    Backup(BackupWork),
    Restore(RestoreWork),
    Maintain(MaintainWork),
}

/// From a volume or a command into a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackupWork {
    pub source: Source,
    /// The host of the snapshot: what the snapshots of one volume have in common, and by which the one before is found.
    pub host: String,
    /// Besides the task's own.
    pub tags: Vec<String>,
    /// Patterns that are left out, as restic writes them; one with a leading slash counts from the root of the source.
    #[serde(default)]
    pub excludes: Vec<String>,
    /// Where the full report goes: a key of the location's bucket, below the location's prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// What is backed up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Source {
    /// A directory that others may be writing into. It becomes the root of the snapshot.
    #[serde(rename_all = "camelCase")]
    Path {
        path: PathBuf,
        /// What shows that it is the volume that is meant; looked at before reading and before the snapshot is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
    },
    /// The same of a volume made from a snapshot: nobody writes.
    Snapshot { path: PathBuf },
    /// A device; the snapshot has it as one file of the given name.
    BlockDevice { path: PathBuf, name: String },
    /// The output of a command, as one file of the given name. Unless it ends with 0 there is no snapshot.
    Command { argv: Vec<String>, name: String },
}

/// What shows that a directory is the volume that is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Proof {
    /// The kubelet's `vol_data.json` beside the mount point names this driver and volume, and the directory is a mount
    /// point. `file` is that file as the mover sees it.
    #[serde(rename_all = "camelCase")]
    Csi { file: PathBuf, driver: String, handle: String },
    /// The directory is a mount point.
    MountPoint,
    /// A plain directory of the kubelet: it is the same one before and after, and still linked.
    Directory,
}

/// From a snapshot into a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreWork {
    /// The snapshot's ID in the repository.
    pub snapshot: String,
    pub target: Target,
    /// Leave holes where files have zeros.
    #[serde(default)]
    pub sparse: bool,
    /// Only these paths of the snapshot, with what is below them; everything, where there are none.
    #[serde(default)]
    pub paths: Vec<String>,
    /// A directory right below the target that gets the files, beside what is there: for volumes that are in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// Written below the target after everything was verified: what a waiting pod looks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_file: Option<PathBuf>,
}

/// What is restored into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Target {
    #[serde(rename_all = "camelCase")]
    Path {
        path: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
    },
    BlockDevice {
        path: PathBuf,
    },
    /// Gets the one file of the snapshot as its input.
    Command {
        argv: Vec<String>,
    },
}

/// What keeps a repository small and whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintainWork {
    pub prune: bool,
    pub check: bool,
    /// Whoever gave the task knows that every snapshot was deleted on purpose: a repository without one is pruned, too.
    #[serde(default)]
    pub empty_is_meant: bool,
}

/// Where the repository is and what opens it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepositoryAccess {
    pub transport: Transport,
    /// Files with passwords beside the task, in the order to try them.
    pub passwords: Vec<String>,
}

/// How the repository's objects are reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Transport {
    Direct(Direct),
    /// Through a gateway of Lifeboat that lets this task alone pass.
    #[serde(rename_all = "camelCase")]
    Gateway {
        url: String,
        /// A file beside the task.
        token: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
}

/// Object storage as a location describes it. The names of files are beside the task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Direct {
    pub provider: String,
    pub bucket: String,
    /// Of the location, without the repository's own path.
    #[serde(default)]
    pub prefix: String,
    /// The repository's path below the prefix, as in `restic/shop`.
    pub path: String,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer_key: Option<String>,
}

/// How locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockTerms {
    /// The cluster's UID: with the pod's it is the owner of our locks, `<cluster>/<pod>`.
    pub cluster: String,
    /// Owners whose end the kubelet reported: their locks are removed at once.
    #[serde(default)]
    pub dead_owners: Vec<String>,
    /// How long to wait for a lock that is in the way.
    #[serde(default)]
    pub wait_seconds: u64,
}

/// What the mover may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Threads that hash, compress and encrypt; by the cores, where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download: Option<u64>,
    /// A directory for what is spilled and cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<PathBuf>,
}

/// How many files are missing in a snapshot with these tags.
pub fn unreadable(tags: &[String]) -> u64 {
    tags.iter().find_map(|tag| tag.strip_prefix(UNREADABLE_TAG)?.parse().ok()).unwrap_or_default()
}
