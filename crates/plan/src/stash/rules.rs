//! Rules of a restore: which snapshots are restored into each host. Takes the rules of the spec, the hosts with their
//! mounts and the snapshots of the repository; gives the snapshots for each host, or why there are none and what the
//! repository has instead.
//!
//! - [`EffectiveRules::of`]: `target.rules`, or the deprecated `rules` next to the target (then `moved`: condition
//!   `RulesMoved`).
//! - [`select`]: [`RestoreRequest`] -> [`Selection`]: for each host a list of [`RestorePart`]s; hosts without a rule are listed in
//!   `left_alone`. If [`Selection::problem`] has a message, nothing is stopped or written and the restore is Failed with it.
//! - [`rollback`]: the safety copies of a restore, as a [`Selection`].
//! - [`Existing::of`]: hosts, paths and newest snapshots of a repository, as messages list them.
//!
//! `latest`, and every path without a named snapshot, means the newest complete snapshot of that source host and path. Snapshots with
//! tag [`INCOMPLETE_TAG`] or [`SAFETY_TAG`] are never that; they are restored only by their id.

mod existing;
mod matching;
mod newest;
mod select;
#[cfg(test)]
mod tests;

pub use existing::{Existing, ExistingHost, ExistingPath};
pub use matching::{EffectiveRules, rule_of};
pub use newest::safety_copies;
pub use select::{rollback, select};

use std::fmt;

use jiff::Timestamp;
use lifeboat_api::stash::RestoreRule;

use super::hosts::HostName;
use super::targets::{CleanPath, Mount, PathError};

/// Tag of a snapshot that lacks files which could not be read.
pub const INCOMPLETE_TAG: &str = "lifeboat-incomplete";
/// Tag of a copy of what a restore was about to overwrite.
pub const SAFETY_TAG: &str = "lifeboat-safety";
/// The prefix of the tag with the UID of the session that made a snapshot.
pub const SESSION_TAG: &str = "lifeboat-session=";
/// Tag of the content of a block volume.
pub const DEVICE_TAG: &str = "lifeboat-device";
/// The word for the newest snapshot.
pub const LATEST: &str = "latest";
/// How many digits of a snapshot's id messages show.
const SHORT: usize = 8;

/// A snapshot of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFact {
    /// The full ID.
    pub id: String,
    pub host: HostName,
    pub paths: Vec<String>,
    pub tags: Vec<String>,
    pub time: Timestamp,
}

impl SnapshotFact {
    /// Whether it can be the newest one of its host and path.
    pub fn counts_as_latest(&self) -> bool {
        !self.has_tag(INCOMPLETE_TAG) && !self.has_tag(SAFETY_TAG)
    }

    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }

    /// The UID of the session that made it; None if that was not Lifeboat.
    pub fn session(&self) -> Option<&str> {
        self.tags.iter().find_map(|tag| tag.strip_prefix(SESSION_TAG))
    }

    /// What the snapshot contains. Other programs do not record it.
    pub fn data(&self) -> StoredData {
        if self.has_tag(DEVICE_TAG) {
            StoredData::Device
        } else if self.session().is_some() {
            StoredData::Files
        } else {
            StoredData::Unknown
        }
    }

    /// The id as messages show it.
    pub fn short(&self) -> &str {
        self.id.get(..SHORT).unwrap_or(&self.id)
    }
}

/// What a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredData {
    Files,
    /// The content of a block volume, as one file.
    Device,
    Unknown,
}

/// The request of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreRequest {
    /// The effective rules; if empty, each host gets its own newest snapshots.
    pub rules: Vec<RestoreRule>,
    /// The hosts of the target.
    pub hosts: Vec<HostName>,
    pub into: RestoreInto,
    pub snapshots: Vec<SnapshotFact>,
}

/// Where the data of the hosts goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreInto {
    /// Into volumes, by the mounts of the target.
    Mounts(Vec<Mount>),
    /// Into a task, as for databases. It gets one snapshot: the newest of all paths, unless a rule selects another
    /// one.
    Task,
}

/// What a restore takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The hosts that have a rule.
    pub hosts: Vec<HostSelection>,
    /// The hosts that no rule applies to: nothing is restored to them.
    pub left_alone: Vec<HostName>,
    /// Why the restore as a whole cannot be carried out.
    pub problems: Vec<RuleError>,
    /// What the repository has, for the message about problems.
    pub existing: Existing,
}

/// What one host gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSelection {
    pub name: HostName,
    pub source: HostName,
    /// In the order in which they are restored: a directory before those below it.
    pub parts: Result<Vec<RestorePart>, RuleError>,
    pub notes: Vec<RestoreNote>,
}

/// One snapshot, or one path of it, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePart {
    /// The full ID of the snapshot.
    pub snapshot: String,
    pub time: Timestamp,
    pub data: StoredData,
    /// The path that is restored, from the snapshot or from a rule.
    pub path: CleanPath,
    /// The directory of the snapshot whose content is restored; the path itself.
    pub folder: CleanPath,
    /// None for a task.
    pub target: Option<PartTarget>,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
}

/// The directory that a part is restored into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartTarget {
    /// The name of a volume of the host.
    pub volume: String,
    /// Below the root of the volume; None for the root.
    pub sub_path: Option<String>,
}

/// A remark about what a host gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreNote {
    /// A path is restored from an older snapshot than the host's newest.
    OlderPath { path: CleanPath, snapshot: String, time: Timestamp, newest: Timestamp },
    /// A stored path that no rule names is below no mount.
    NotMounted { path: CleanPath },
    /// A snapshot that was named lacks files.
    Incomplete { snapshot: String },
}

impl fmt::Display for RestoreNote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OlderPath { path, snapshot, time, newest } => write!(
                formatter,
                "path {path} is restored from snapshot {snapshot} of {time}; the newest snapshot of its host is of {newest}"
            ),
            Self::NotMounted { path } => {
                write!(formatter, "stored path {path} is below no mount of the target and is not restored")
            }
            Self::Incomplete { snapshot } => {
                write!(formatter, "snapshot {snapshot} lacks files that could not be read when it was made")
            }
        }
    }
}

/// Why a restore, or one host of it, cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error(
        "rules are set both in target.rules and in the deprecated place beside the target; remove one of the two"
    )]
    TwoPlaces,
    #[error(
        "two rules have empty targetHosts; expected at most one, which holds for all hosts that no other rule lists"
    )]
    TwoForAllOthers,
    #[error("two rules list host {host:?} in targetHosts; a host may be in one rule only")]
    HostTwice { host: String },
    #[error("a rule has both snapshots and paths; a snapshot has its own paths: remove one of the two")]
    SnapshotsAndPaths,
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(
        "targetHosts names {unknown}, which the target does not have; its hosts are {hosts}; correct targetHosts, or scale the target first: a \
         StatefulSet has a host for each replica"
    )]
    UnknownHosts { unknown: String, hosts: String },
    #[error(
        "no rule applies to a host of the target: its hosts are {hosts}, the rules list {listed}; correct targetHosts, or leave it empty for \
         all hosts"
    )]
    NoHostHasRule { hosts: String, listed: String },
    #[error(
        "host {host}: the repository has no complete snapshot of source host {source_host}; correct sourceHost or target.alias"
    )]
    NoSnapshotOfHost { host: HostName, source_host: HostName },
    #[error(
        "host {host}: path {path} is in no complete snapshot of source host {source_host}; correct the rule's paths"
    )]
    PathInNoSnapshot { host: HostName, source_host: HostName, path: CleanPath },
    #[error(
        "host {host}: path {path} is inside of {device}, which snapshot {snapshot} has as the content of a block volume; a block volume is \
         restored as a whole: write {device} in the rule's paths"
    )]
    PathInDevice { host: HostName, path: CleanPath, device: CleanPath, snapshot: Box<str> },
    #[error(
        "host {host}: path {path} is below no mount of the target, which has {mounts}; mount the volume that it belongs to"
    )]
    PathBelowNoMount { host: HostName, path: CleanPath, mounts: String },
    #[error("host {host}: {id:?} is not the id of a snapshot; expected hexadecimal digits or \"latest\"")]
    NotAnId { host: HostName, id: String },
    #[error("host {host}: the repository has no snapshot {id:?}; correct the rule's snapshots")]
    NoSuchSnapshot { host: HostName, id: String },
    #[error("host {host}: the ids of snapshots {found} begin with {id:?}; write more digits")]
    AmbiguousSnapshot { host: HostName, id: String, found: String },
    #[error(
        "host {host}: snapshot {id} is of host {found}, and the rule takes data of source host {source_host}; set sourceHost to {found}, or \
         name a snapshot of {source_host}"
    )]
    OtherHost { host: HostName, id: String, found: HostName, source_host: HostName },
    #[error("the repository has no safety copy of the restore with UID {session}; they are kept for 7 days")]
    NoSafetyCopy { session: String },
}

impl Selection {
    /// Why nothing is restored, in one message: all problems of the restore and of its hosts, and what the repository has. None if
    /// every host with a rule can be restored.
    pub fn problem(&self) -> Option<String> {
        let of_hosts = self.hosts.iter().filter_map(|host| host.parts.as_ref().err());
        let messages: Vec<String> = self.problems.iter().chain(of_hosts).map(RuleError::to_string).collect();
        (!messages.is_empty()).then(|| format!("{}. {}", messages.join("; "), self.existing))
    }
}
