//! Backup: a walker goes through the source in order and decides what has to be read, workers read files, split them
//! into chunks and save them, and directories are completed from the leaves to the root (`directory`). The snapshot
//! is written last, after everything that it needs is in an index, and only while the lock is held.

mod buffer;
mod content;
mod context;
mod directory;
mod file;
mod holes;
mod prepared;
mod previous;
mod run;
mod stream;
mod walker;
mod workers;
mod zeros;

pub use context::Problem;
pub use prepared::{LockOwner, Prepared, commit, discard, prepare};

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Zoned;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::id::SnapshotId;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::snapshots::GroupBy;
use crate::source::change::ChangeOptions;
use crate::source::filter::Filter;
use crate::source::metadata::MetadataOptions;

/// What is backed up.
pub enum Source {
    Paths(Vec<PathBuf>),
    /// An open directory, stored at `path` in the snapshot, wherever it is mounted. With `/`, its content becomes the
    /// root of the snapshot; with `/source/data`, the snapshot has that directory, as if it had been read there, and
    /// the directories above it are synthesized. Patterns and reported paths start at the root of the snapshot.
    Root {
        directory: OwnedFd,
        path: String,
    },
    /// One entry of an open directory, stored at `path`, whose last component is its name: nothing else of the directory is stored.
    Entry {
        directory: OwnedFd,
        path: String,
    },
    /// A block device, or an image of one, stored as one file of this name.
    Device {
        file: File,
        name: String,
    },
    /// Any stream, stored as one file of this name.
    Stream {
        name: String,
        reader: Box<dyn Read + Send>,
    },
    /// The output of a command, stored as one file; there is no snapshot unless the command exits with 0.
    Command {
        name: String,
        argv: Vec<OsString>,
    },
}

/// The snapshot that unchanged files are taken from instead of being read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// The newest snapshot of the same group.
    Newest(GroupBy),
    Given(SnapshotId),
    /// No parent: every file is read.
    None,
}

/// Called under the lock when all data is stored, before the snapshot is written. If it returns an error, no snapshot
/// is written; a caller with a reason of its own returns it as `Error::NotConfirmed` and gets it back from `backup`.
pub type Confirm = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// Options of a backup.
pub struct BackupOptions {
    pub source: Source,
    /// The host name in the snapshot; the one in locks is part of the repository's `Identity`.
    pub host: String,
    pub tags: Vec<String>,
    /// If files cannot be read, the snapshot gets a tag of this text followed by the number of missing files.
    pub incomplete_tag: Option<String>,
    /// Further tags of a snapshot whose files could not all be read.
    pub incomplete_tags: Vec<String>,
    /// The time of the snapshot; the current time by default.
    pub time: Option<Zoned>,
    pub parent: Parent,
    /// The files that are left out.
    pub filter: Filter,
    /// The patterns of `filter` as the user wrote them, for the snapshot.
    pub excludes: Vec<String>,
    pub change: ChangeOptions,
    pub metadata: MetadataOptions,
    /// How many bytes beyond a file's size when it was opened are read; by default up to its end. For files that are
    /// written faster than they can be read.
    pub growth: Option<u64>,
    /// How long a file must not have changed before its holes are believed: until then they are read.
    pub settle: Duration,
    /// How many bytes of the JSON of a directory are kept in memory before it is compressed as it grows.
    pub large_tree: usize,
    pub confirm: Option<Confirm>,
    /// Whether an empty stream or root may be backed up.
    pub allow_empty: bool,
    /// Write no snapshot if nothing differs from the parent.
    pub skip_if_unchanged: bool,
    /// Do everything except writing.
    pub dry_run: bool,
    /// Count the files in advance, so that the progress has totals.
    pub scan: bool,
}

impl BackupOptions {
    /// The default options for a source.
    pub fn new(source: Source, host: impl Into<String>) -> Self {
        Self {
            source,
            host: host.into(),
            tags: Vec::new(),
            incomplete_tag: None,
            incomplete_tags: Vec::new(),
            time: None,
            parent: Parent::Newest(GroupBy::default()),
            filter: Filter::default(),
            excludes: Vec::new(),
            change: ChangeOptions::default(),
            metadata: MetadataOptions::default(),
            growth: None,
            settle: Duration::from_secs(30),
            large_tree: directory::LARGE_TREE,
            confirm: None,
            allow_empty: false,
            skip_if_unchanged: false,
            dry_run: false,
            scan: false,
        }
    }
}

/// The result of a backup.
#[derive(Debug)]
pub struct BackupOutcome {
    /// `None` in a dry run, for an unchanged source that was skipped, and for a prepared snapshot.
    pub snapshot_id: Option<SnapshotId>,
    pub snapshot: Snapshot,
    /// The first 10,000 files that are missing in the snapshot.
    pub unreadable: Vec<Problem>,
    /// The number of all of them. If it is not 0, the snapshot is incomplete.
    pub unreadable_count: u64,
    /// The first 10,000 files that changed twice while they were read, or were deleted.
    pub changed_while_read: Vec<String>,
    /// The number of all of them.
    pub changed_count: u64,
    pub duration: Duration,
}

impl BackupOutcome {
    /// Whether a snapshot was made that lacks files that should be in it.
    pub fn is_incomplete(&self) -> bool {
        self.unreadable_count > 0
    }
}

/// Makes a snapshot under a shared lock.
pub async fn backup(
    repository: &Repository,
    mut options: BackupOptions,
    lock: &LockOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<BackupOutcome> {
    let (confirm, incomplete_tag) = (options.confirm.take(), options.incomplete_tag.take());
    let incomplete_tags = std::mem::take(&mut options.incomplete_tags);
    Lock::hold(repository, LockKind::Shared, lock, |lock| async move {
        let (dry_run, skip) = (options.dry_run, options.skip_if_unchanged);
        let mut outcome =
            run::run(repository, options, Some(Arc::clone(&lock)), progress, cancel.clone()).await?;
        if outcome.is_incomplete() {
            let missing = outcome.unreadable_count;
            outcome.snapshot.tags.extend(incomplete_tag.map(|tag| format!("{tag}{missing}")));
            outcome.snapshot.tags.extend(incomplete_tags);
        }
        if dry_run || (skip && run::same_as_parent(repository, &outcome.snapshot).await?) {
            return Ok(outcome);
        }
        if let Some(confirm) = confirm {
            confirm().await?;
        }
        lock.verify().await?;
        // The last point at which a cancelled backup leaves no snapshot.
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        outcome.snapshot_id = Some(repository.save_snapshot(&outcome.snapshot).await?);
        Ok(outcome)
    })
    .await
}

#[cfg(test)]
mod tests;
