//! The task of a mover: one JSON file, `task.json`, in a directory with the files that it names (password, credentials,
//! certificates). Written by the server, read by the mover; unknown fields and versions are refused, so that a mover of
//! another version never half-understands its task. [`Task`] is the one form that both sides work with; `file` is how it
//! looks in the file, in each version.

mod file;

pub use file::TaskFileError;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The newest version of the task file. A task that fits into an older one is written in that.
pub const VERSION: u32 = 2;
/// The most parts that one task may have.
pub const MOST_PARTS: usize = 64;
/// The task's file in its directory.
pub const FILE: &str = "task.json";
/// Where the directory is in a mover's container.
pub const DIRECTORY: &str = "/mover/task";
/// The variable with the UID of the mover's pod, for the owner of locks.
pub const POD_UID: &str = "LIFEBOAT_POD_UID";
/// The tag that the snapshot of a part carries, before the part's UID.
pub const UID_TAG: &str = "lifeboat-task=";
/// The tag of a snapshot that is not whole: how many files could not be read.
pub const UNREADABLE_TAG: &str = "lifeboat-unreadable=";

/// The work of one mover: one or several parts on one repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "file::TaskFile", try_from = "file::TaskFile")]
pub struct Task {
    /// Names the task, as in the result and in the names of its Job and Secret.
    pub uid: String,
    /// At least one, carried out in this order; one that fails does not stop the others.
    pub parts: Vec<Part>,
    pub repository: RepositoryAccess,
    pub lock: LockTerms,
    pub limits: Limits,
    /// The mover stops by itself then; the pod's own deadline comes a little later.
    pub deadline: Option<Timestamp>,
}

impl Task {
    /// A task of one part, which has the task's UID.
    pub fn single(uid: impl Into<String>, work: Work, repository: RepositoryAccess, lock: LockTerms) -> Self {
        let uid = uid.into();
        let parts = vec![Part { uid: uid.clone(), work }];
        Self { uid, parts, repository, lock, limits: Limits::default(), deadline: None }
    }
}

/// One piece of work, with a result of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Part {
    /// Names the part for ever: the snapshot tagged with it is the proof that a backup was made.
    pub uid: String,
    pub work: Work,
}

/// What is to be done. Further kinds come with their first user; a mover that does not know a kind refuses the task.
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
    /// Besides the one with the UID.
    pub tags: Vec<String>,
    /// Patterns that are left out, as restic writes them; one with a leading slash counts from the root of the snapshot.
    #[serde(default)]
    pub excludes: Vec<String>,
    /// A directory below that of the source, which is read instead of it. For mounts with a subPath, and for a path below
    /// a mount: the proof is still about the volume. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// Where the directory is in the snapshot, as in `/source/data`: what restic stores when it reads it there. At the root
    /// of the snapshot, where nothing is given. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Where the full report goes: a key of the location's bucket, below the location's prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// What is backed up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Source {
    /// A directory that others may be writing into.
    #[serde(rename_all = "camelCase")]
    Path {
        path: PathBuf,
        /// What shows that it is the volume that is meant; looked at before reading and before the snapshot is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
    },
    /// The directory of a volume made from a snapshot, into which no other process writes.
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
    /// Only what matches one of these patterns, as restic writes them; everything, where there are none. Version 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Patterns of what is left out. Like `paths` and `include` they count from the root of the snapshot. Version 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The directory of the snapshot whose content goes into the target, as in `/source/data`; its root, where nothing is
    /// given. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// A directory below that of the target, which is filled instead of it, and made if it is missing. For mounts with a
    /// subPath. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// A directory right below the target that gets the files, beside what is there: for volumes that are in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// Written below the target after everything was verified: what a waiting pod looks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_file: Option<PathBuf>,
}

impl BackupWork {
    /// A backup of a whole source, to the root of a snapshot.
    pub fn new(source: Source, host: impl Into<String>) -> Self {
        Self {
            source,
            host: host.into(),
            tags: Vec::new(),
            excludes: Vec::new(),
            sub_path: None,
            at: None,
            report: None,
        }
    }
}

impl RestoreWork {
    /// A restore of a whole snapshot.
    pub fn new(snapshot: impl Into<String>, target: Target) -> Self {
        Self {
            snapshot: snapshot.into(),
            target,
            sparse: false,
            paths: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            folder: None,
            sub_path: None,
            into: None,
            done_file: None,
        }
    }
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
    /// The server knows that every snapshot was deleted on purpose: a repository without one is pruned, too.
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
