//! Backup: a walker looks at the source in order and decides what has to be read, workers read, cut and save, and
//! directories complete themselves from the leaves to the root (`directory`). The snapshot is written last, after
//! everything it needs is in an index, and only while the lock is held.

mod buffer;
mod context;
mod directory;
mod file;
mod prepared;
mod run;
mod stream;
mod walker;
mod workers;

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
    /// An open directory, stored at `path` of the snapshot wherever it is mounted. With `/` its content becomes the root
    /// of the snapshot; with `/source/data` the snapshot has that directory, as if it had been read there, and the
    /// directories above it are made up. Patterns and reported paths count from the root of the snapshot.
    Root {
        directory: OwnedFd,
        path: String,
    },
    /// A block device, or an image of one, becomes one file of this name.
    Device {
        file: File,
        name: String,
    },
    /// Becomes one file of this name.
    Stream {
        name: String,
        reader: Box<dyn Read + Send>,
    },
    /// The output of a command becomes one file; unless the command ends with 0 there is no snapshot.
    Command {
        name: String,
        argv: Vec<OsString>,
    },
}

/// The snapshot whose files need not be read again if they look the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// The newest one of the same group.
    Newest(GroupBy),
    Given(SnapshotId),
    /// Everything is read.
    None,
}

/// Called when everything is stored and before the snapshot is written, under the lock. An error means that no snapshot
/// is written; a caller with a reason of its own gives it as `Error::NotConfirmed` and gets it back from `backup`.
pub type Confirm = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// How to back up.
pub struct BackupOptions {
    pub source: Source,
    /// For the snapshot; that in locks is the repository's `Identity`.
    pub host: String,
    pub tags: Vec<String>,
    /// Where something cannot be read, the snapshot gets this tag with the number of what is missing behind it.
    pub incomplete_tag: Option<String>,
    /// Of the snapshot; now, if not given.
    pub time: Option<Zoned>,
    pub parent: Parent,
    /// What is left out.
    pub filter: Filter,
    /// The patterns of `filter` as they were given, for the snapshot.
    pub excludes: Vec<String>,
    pub change: ChangeOptions,
    pub metadata: MetadataOptions,
    /// How much more of a file is read than it had when it was opened; to its end, where nothing is said. For files that
    /// are written to faster than they can be read.
    pub growth: Option<u64>,
    pub confirm: Option<Confirm>,
    /// Whether an empty stream or root is a backup.
    pub allow_empty: bool,
    /// No snapshot if nothing is different from the parent.
    pub skip_if_unchanged: bool,
    /// Everything but writing.
    pub dry_run: bool,
    /// Count ahead, so that the progress has totals.
    pub scan: bool,
}

impl BackupOptions {
    /// The defaults for a source.
    pub fn new(source: Source, host: impl Into<String>) -> Self {
        Self {
            source,
            host: host.into(),
            tags: Vec::new(),
            incomplete_tag: None,
            time: None,
            parent: Parent::Newest(GroupBy::default()),
            filter: Filter::default(),
            excludes: Vec::new(),
            change: ChangeOptions::default(),
            metadata: MetadataOptions::default(),
            growth: None,
            confirm: None,
            allow_empty: false,
            skip_if_unchanged: false,
            dry_run: false,
            scan: false,
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct BackupOutcome {
    /// `None` in a dry run, when an unchanged source was skipped, and for a prepared snapshot.
    pub snapshot_id: Option<SnapshotId>,
    pub snapshot: Snapshot,
    /// What is missing in the snapshot. Not empty means incomplete.
    pub unreadable: Vec<Problem>,
    /// Files that changed while they were read, twice; or went away.
    pub changed_while_read: Vec<String>,
    pub duration: Duration,
}

impl BackupOutcome {
    /// A snapshot was made, but not of everything that was asked for.
    pub fn is_incomplete(&self) -> bool {
        !self.unreadable.is_empty()
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
    Lock::hold(repository, LockKind::Shared, lock, |lock| async move {
        let (dry_run, skip) = (options.dry_run, options.skip_if_unchanged);
        let mut outcome =
            run::run(repository, options, Some(Arc::clone(&lock)), progress, cancel.clone()).await?;
        if let Some(tag) = incomplete_tag.filter(|_| outcome.is_incomplete()) {
            outcome.snapshot.tags.push(format!("{tag}{}", outcome.unreadable.len()));
        }
        if dry_run || (skip && run::same_as_parent(repository, &outcome.snapshot).await?) {
            return Ok(outcome);
        }
        if let Some(confirm) = confirm {
            confirm().await?;
        }
        lock.verify().await?;
        // The last moment at which there can be no snapshot.
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
