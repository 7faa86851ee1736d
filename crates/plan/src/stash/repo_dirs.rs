//! The directories of a Repository (repoDirs): each is a restic repository of its own below the backend's prefix. Takes the
//! directories on record in the Repository's status and a host of a workload; gives the host's directory. Also the tags by which
//! the record can be made again from the snapshots of a directory.
//!
//! - [`DirPrefix::of`], [`RepoDir::parse`]: checked names; a name that restic itself uses in a repository is none.
//! - [`choose`]: the directory of a host: the one on record, else a free one. The first workload of a kind and name gets
//!   `/<prefix>/<kind>/<name>`, one of another namespace `/<prefix>/<namespace>/<kind>/<name>`.
//! - [`DirTags`]: the tags of a snapshot, and [`DirTags::read`] back from them; [`rebuilt`]: the record of a directory from its
//!   snapshots.
//! - [`note_backup`]: the record after a backup.
//!
//! No directory is inside of another one, because a repository owns what is below it. A record is never changed to another
//! workload; the record of a Restic that no longer exists goes to the Restic that backs up the same workload now.

mod names;
mod record;
mod tags;
#[cfg(test)]
mod tests;

pub use names::{DirPrefix, LONGEST, RepoDir, RepoDirError};
pub use record::{Choice, DirOwner, choose, new_entry, note_backup, owners};
pub use tags::{DirTags, KIND_TAG, NAME_TAG, NAMESPACE_TAG, RESTIC_TAG, TYPE_TAG, VOLUME_TAG, rebuilt};
