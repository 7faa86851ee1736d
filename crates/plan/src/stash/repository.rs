//! Decisions about a Repository: which restic repository it stands for ([`record`]), what its status shows
//! ([`status`]), when it is opened and maintained ([`due`]), what movers do for a server that cannot open it
//! ([`mover_work`]), which late snapshots are forgotten ([`fate`]), whether its data may be deleted with it
//! ([`wipe_out`]) and which files belong to it ([`layout`]), and which of its snapshots are shown as objects in the
//! cluster ([`mirror`]). Called by the controller of Repositories in crate `stash`.

pub mod due;
pub mod fate;
pub mod layout;
pub mod mirror;
pub mod mover_work;
pub mod record;
pub mod status;
pub mod usage;
pub mod wipe_out;

use jiff::Timestamp;

/// The tag of a safety copy, which a restore made before it changed a volume. Such a snapshot is used for nothing
/// else.
pub const SAFETY_TAG: &str = "lifeboat-safety";
/// The tag of a snapshot with missing files, which is never the latest.
pub const INCOMPLETE_TAG: &str = "lifeboat-incomplete";

/// What is known about one snapshot of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFacts {
    /// The full ID.
    pub id: String,
    /// When the backup was started.
    pub time: Timestamp,
    pub hostname: String,
    pub paths: Vec<String>,
    pub tags: Vec<String>,
    /// The ID of the tree of its files; empty if it is not known.
    pub tree: String,
    /// The user that created it; empty if unknown.
    pub username: String,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

impl SnapshotFacts {
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }

    /// Whether it is a backup, and not the safety copy of a restore.
    pub fn is_backup(&self) -> bool {
        !self.has_tag(SAFETY_TAG)
    }

    /// Whether it is a backup without missing files.
    pub fn is_complete(&self) -> bool {
        self.is_backup() && !self.has_tag(INCOMPLETE_TAG)
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// A snapshot whose ID begins with `id`.
    pub(crate) fn snapshot(id: &str, time: &str, host: &str, tags: &[&str]) -> SnapshotFacts {
        SnapshotFacts {
            id: format!("{id:0<64}"),
            time: time.parse().unwrap(),
            hostname: host.to_owned(),
            paths: vec!["/source/data".to_owned()],
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            ..SnapshotFacts::default()
        }
    }
}
