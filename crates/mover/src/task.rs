//! The task of a mover: a JSON file, `task.json`, in a directory with the files that it names (password, credentials,
//! certificates). Written by the server, read by the mover; unknown fields and versions are refused, so that a mover
//! of another version never carries out a task that it only partly understands. Both sides work with [`Task`]; `file`
//! is its encoding in each version.

mod access;
mod agent;
mod call;
mod file;

pub use access::{Direct, GATEWAY_USER, REPOSITORY_MOUNT, RepositoryAccess, Transport, lock_user};
pub use agent::{AGENT_REPOSITORY, AGENT_SOCKET, AgentCommand, AgentLine, AgentRun, MOST_SIDES};
pub use call::{Call, CallWork, FormField, Header, Method};
pub use file::TaskFileError;

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The newest version of the task file. A task that fits into an older version is written in that one.
pub const VERSION: u32 = 2;
/// The most parts that one task may have.
pub const MOST_PARTS: usize = 64;
/// The name of the task's file in its directory.
pub const FILE: &str = "task.json";
/// The path of the directory in a mover's container.
pub const DIRECTORY: &str = "/mover/task";
/// The environment variable with the UID of the mover's pod, which becomes part of the owner of locks.
pub const POD_UID: &str = "LIFEBOAT_POD_UID";
/// The prefix of the tag that the snapshot of a part has; the part's UID follows.
pub const UID_TAG: &str = "lifeboat-task=";
/// The prefix of the tag of an incomplete snapshot; the number of files that could not be read follows.
pub const UNREADABLE_TAG: &str = "lifeboat-unreadable=";
/// The tag of a snapshot with missing files, set if the task requests it: such a snapshot is never the latest, and
/// retention keeps complete snapshots instead of it.
pub const INCOMPLETE_TAG: &str = "lifeboat-incomplete";
/// The prefix of the tag with the name of the volume, used if two volumes of a host are stored at one path.
/// Only a snapshot with the same tag is the parent of such a backup.
pub const VOLUME_TAG: &str = "lifeboat-volume=";

/// The work of one mover: one or several parts on one repository, or calls, which need no repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "file::TaskFile", try_from = "file::TaskFile")]
pub struct Task {
    /// Identifies the task in the result and in the names of its Job and Secret.
    pub uid: String,
    /// At least one, carried out in this order; a failed part does not stop the others.
    pub parts: Vec<Part>,
    /// None only if every part is a call.
    pub repository: Option<RepositoryAccess>,
    pub lock: LockTerms,
    pub limits: Limits,
    /// When the mover stops on its own; the pod's deadline is a little later.
    pub deadline: Option<Timestamp>,
}

impl Task {
    /// A task with one part, which has the task's UID.
    pub fn single(
        uid: impl Into<String>,
        work: TaskWork,
        repository: RepositoryAccess,
        lock: LockTerms,
    ) -> Self {
        Self { repository: Some(repository), lock, ..Self::alone(uid.into(), work) }
    }

    /// A task with one call, which has the task's UID.
    pub fn call(uid: impl Into<String>, call: CallWork) -> Self {
        Self::alone(uid.into(), TaskWork::Call(call))
    }

    fn alone(uid: String, work: TaskWork) -> Self {
        let parts = vec![Part { uid: uid.clone(), work }];
        let (lock, limits) = (LockTerms::default(), Limits::default());
        Self { uid, parts, repository: None, lock, limits, deadline: None }
    }

    /// Whether the repository is created if it is missing.
    pub fn creates_repository(&self) -> bool {
        self.parts.iter().any(|part| part.work == TaskWork::Init)
    }
}

/// One piece of work, with a result of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Part {
    /// Identifies the part permanently: a snapshot tagged with it proves that the backup was made.
    pub uid: String,
    pub work: TaskWork,
}

/// The work of a part. More kinds are added when they are needed; a mover refuses a task with an unknown kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum TaskWork {
    Backup(BackupWork),
    Restore(RestoreWork),
    Maintain(MaintainWork),
    /// Creates the repository, unless it exists. Version 2.
    Init,
    /// Lists the snapshots of the repository for a server that cannot open it. Version 2.
    Look(LookWork),
    /// Removes snapshots for a server that cannot open the repository. Version 2.
    Forget(ForgetWork),
    /// Calls a service of the user, for example to quiesce an application. Version 2.
    Call(CallWork),
}

impl TaskWork {
    /// Whether it works on a repository.
    pub fn needs_repository(&self) -> bool {
        !matches!(self, Self::Call(_))
    }
}

/// A backup of a volume or of a command's output into a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackupWork {
    pub source: Source,
    /// The host of the snapshot. All snapshots of one volume have the same, by which the parent snapshot is found.
    pub host: String,
    /// Tags in addition to the one with the UID.
    pub tags: Vec<String>,
    /// Patterns of files that are left out, in restic's syntax; a leading slash means the root of the snapshot.
    #[serde(default)]
    pub excludes: Vec<String>,
    /// A directory below that of the source that is read instead, or a single file, which `at` names. For
    /// mounts with a subPath, and for a path below a mount; the proof still identifies the volume. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// The path of the directory in the snapshot, for example `/source/data`, where restic stores a directory that it
    /// reads at that path. By default the root of the snapshot. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The key of the full report in the location's bucket, below the location's prefix. Only storage that is
    /// accessed directly has room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// Whether a snapshot with missing files gets [`INCOMPLETE_TAG`]. Version 2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete_tag: bool,
}

/// The source of a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Source {
    /// A directory that other processes may be writing to.
    #[serde(rename_all = "camelCase")]
    Path {
        path: PathBuf,
        /// The proof that it is the expected volume; checked before reading and before the snapshot is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
    },
    /// The directory of a volume made from a snapshot; no other process writes to it.
    Snapshot { path: PathBuf },
    /// A device, stored as one file of the given name, which may be a path such as `dev/xvda`.
    BlockDevice { path: PathBuf, name: String },
    /// The output of a command, stored as one file of the given name. There is no snapshot unless the command exits
    /// with 0.
    Command { argv: Vec<String>, name: String },
    /// What the commands of an agent pass to `restic backup`, stored as one file of the given name. There is no snapshot
    /// unless all of them exit with 0. Version 2.
    Agent { run: AgentRun, name: String },
}

/// The proof that a directory is the expected volume.
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

/// A restore of a snapshot into a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreWork {
    /// The snapshot's ID in the repository.
    pub snapshot: String,
    pub target: Target,
    /// Leave holes where files have zeros.
    #[serde(default)]
    pub sparse: bool,
    /// Restore only these paths of the snapshot, with everything below them; empty for all. For a device: the
    /// path of its content; a snapshot with another path is refused.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Restore only files that match one of these patterns, in restic's syntax; empty for all. Version 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Patterns of files that are left out. Like `paths` and `include`, they start at the root of the snapshot.
    /// Version 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The directory of the snapshot whose content is restored into the target, for example `/source/data`;
    /// by default the root of the snapshot. Or a single file, which is restored to `sub_path`, whose last
    /// part is the file's name. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// A directory below that of the target that is filled instead, and created if it is missing. For mounts with a
    /// subPath. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// A directory directly below the target that gets the files, beside the existing ones: for volumes that are in
    /// use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// Remove entries that the snapshot does not have, so that the directory is as it was when the snapshot
    /// was made: for restores that undo another one. Only for a whole directory, and only after everything
    /// was written and verified. Version 2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// A file below the target that is written after everything was verified; a waiting pod polls for it. A part that
    /// finds it does nothing. Of several parts with one target, only the last has it.
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
            incomplete_tag: false,
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
            exact: false,
            done_file: None,
        }
    }
}

/// The target of a restore.
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
    /// A command that gets the only file of the snapshot as its input.
    Command {
        argv: Vec<String>,
    },
    /// The commands of an agent, which get the only file of the snapshot from `restic restore`. Version 2.
    Agent {
        run: AgentRun,
    },
}

/// Maintenance of a repository: prune and check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintainWork {
    pub prune: bool,
    pub check: bool,
    /// The server knows that every snapshot was deleted on purpose: a repository without snapshots is pruned, too.
    #[serde(default)]
    pub empty_is_meant: bool,
}

/// A listing of snapshots. The mover prints them as lines; the result has their number, so that the server knows
/// whether it got all lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LookWork {
    /// How many snapshots are listed at most; the newest come first.
    pub newest: u64,
    /// Files of the server that are written beside the data before the snapshots are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<StoredState>,
}

impl LookWork {
    /// An inspection that writes nothing.
    pub fn new(newest: u64) -> Self {
        Self { newest, states: Vec::new() }
    }
}

/// A file of the server beside the data, which the mover seals with the repository's key. The mover does not
/// interpret its content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredState {
    /// 32 hexadecimal digits.
    pub name: String,
    pub content: String,
}

/// The removal of snapshots. Their data is removed by the next maintenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForgetWork {
    /// The snapshots' full IDs. One that does not exist any more is not a failure.
    pub snapshots: Vec<String>,
}

/// Options for taking locks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockTerms {
    /// The cluster's UID. With the pod's UID it forms the owner of our locks, `<cluster>/<pod>`.
    pub cluster: String,
    /// Owners whose end the kubelet reported: their locks are removed at once.
    #[serde(default)]
    pub dead_owners: Vec<String>,
    /// How long to wait for a conflicting lock.
    #[serde(default)]
    pub wait_seconds: u64,
}

/// The resources that the mover may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Threads that hash, compress and encrypt; by default the number of cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download: Option<u64>,
    /// A directory for temporary and cached files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<PathBuf>,
    /// The CPU priority of the mover, from -20 (highest) to 19 (lowest). Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
}

/// The number of files that are missing in a snapshot with these tags.
pub fn unreadable(tags: &[String]) -> u64 {
    tags.iter().find_map(|tag| tag.strip_prefix(UNREADABLE_TAG)?.parse().ok()).unwrap_or_default()
}
