//! Restores a snapshot to a directory, empty or not. `restore` takes the snapshot's tree and the options, writes only
//! below the target (through directory handles, never through joined paths), and returns what it did and every
//! problem. Called by the command line and by movers; the caller holds the repository's lock.
//!
//! One thread walks the trees, decides (`plan`) and creates directories. Files are collected in windows: the blobs
//! that a window needs are grouped by pack, adjacent ones are read at once, and worker threads decode and write them.
//! The thread that writes the last blob of a file sets its owner, mode and times; the thread that finishes the last
//! entry of a directory does so for the directory. At the end the target's file system is flushed, and what the flush
//! reports fails the restore. Memory is bounded: 24 MiB of sealed data, two windows of 8,192
//! files or 32,768 blobs, one blob per thread, 16 MiB of trees.

mod compare;
mod delete;
pub mod device;
mod directory;
mod feed;
mod fetch;
mod file;
mod handles;
mod links;
mod metadata;
mod outcome;
pub mod plan;
mod shared;
mod special;
mod surplus;
mod system;
mod target;
mod verify;
mod visit;
mod walk;
mod window;
mod work;
pub mod writing;

pub use crate::backup::Problem;
pub use outcome::{Action, Event, RestoreOutcome};
pub use plan::Overwrite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::walk::find_directory;
use shared::Shared;
use system::System;
use target::Target;

/// The decision of a filter about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Restore it.
    pub include: bool,
    /// Look below it, if it is a directory.
    pub descend: bool,
}

impl Selection {
    pub const ALL: Self = Self { include: true, descend: true };
}

/// Selects what is restored: gets the path below the snapshot's (sub)folder, such as `/etc/hosts`, and whether it is
/// a directory.
pub type Select = Arc<dyn Fn(&[u8], bool) -> Selection + Send + Sync>;
/// Selects the extended attributes to restore, by name.
pub type SelectXattr = Arc<dyn Fn(&str) -> bool + Send + Sync>;
/// Called for each action that is done, or would be done in a dry run; from several threads.
pub type Notify = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// What to restore, the target, and options.
#[derive(Clone, Default)]
pub struct RestoreOptions {
    /// Created if it is missing.
    pub target: PathBuf,
    /// Restore only the content of this directory of the snapshot, directly into the target.
    pub subfolder: Option<PathBuf>,
    /// Everything if `None`.
    pub select: Option<Select>,
    /// All attributes if `None`.
    pub select_xattr: Option<SelectXattr>,
    /// Remove entries that the snapshot does not have, from directory to directory.
    pub delete: bool,
    /// Remove entries that the snapshot does not have only after everything was written and verified without any problem; until then a
    /// directory in the way of another entry is moved aside. Needs `verify`.
    pub delete_last: bool,
    pub overwrite: Overwrite,
    /// Leave holes where files have zeros.
    pub sparse: bool,
    /// Read everything again afterwards and compare.
    pub verify: bool,
    /// Change nothing; count and report what would be done.
    pub dry_run: bool,
    /// Set owners by name instead of number, if this system knows the names.
    pub ownership_by_name: bool,
    pub notify: Option<Notify>,
    /// Fail as soon as the target is full, instead of trying every other file.
    pub stop_when_full: bool,
}

/// Restores a snapshot and flushes it to disk. If the outcome `is_incomplete`, it lists what could not be restored; errors are returned only
/// for failures that stop the whole restore.
pub async fn restore(
    repository: &Repository,
    snapshot: &Snapshot,
    options: RestoreOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<RestoreOutcome> {
    restore_with(System::default(), repository, snapshot, options, progress, cancel).await
}

async fn restore_with(
    system: System,
    repository: &Repository,
    snapshot: &Snapshot,
    options: RestoreOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<RestoreOutcome> {
    check(&options)?;
    // However this future ends, even by being dropped, the threads stop.
    let stop = cancel.child_token();
    let _guard = stop.clone().drop_guard();
    progress.begin("reading the index");
    let prepare = async {
        let index = Arc::new(repository.load_index().await?);
        let reader = BlobReader::new(repository, index);
        let folder = options.subfolder.as_deref().unwrap_or(Path::new("/"));
        let tree = find_directory(&reader, snapshot.tree, folder).await?;
        Ok((reader, tree))
    };
    let (reader, tree) = tokio::select! {
        prepared = prepare => prepared?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    };
    progress.begin("restoring");
    let target = Target::open(&options.target, options.dry_run)?;
    let verify = options.verify;
    let shared = Shared::new(reader, target, options, progress, stop, system);
    visit::run(&shared, tree).await?;
    shared.progress.begin("flushing");
    shared.flush().await?;
    if verify && !shared.has_problems() {
        shared.progress.begin("verifying");
        verify::run(&shared, tree).await?;
    }
    if shared.allows_deletion_last() {
        shared.progress.begin("removing what the snapshot does not have");
        surplus::run(&shared, tree).await?;
    }
    shared.outcome()
}

fn check(options: &RestoreOptions) -> Result<()> {
    if options.target.as_os_str().is_empty() {
        return Err(Error::invalid("target", "no target directory was given"));
    }
    if options.dry_run && options.verify {
        return Err(Error::invalid("verify", "a dry run writes nothing that could be verified"));
    }
    if options.delete_last && (!options.verify || options.delete) {
        let problem = "deletion after the restore needs verification, and no deletion during the restore";
        return Err(Error::invalid("delete_last", problem));
    }
    if (options.delete || options.delete_last) && options.select.is_none() && is_root(&options.target) {
        return Err(Error::Refused {
            reason: "restoring to '/' with deletion would remove everything that the snapshot does not have"
                .to_owned(),
            hint: "use an include or exclude pattern, or another target",
        });
    }
    Ok(())
}

fn is_root(target: &Path) -> bool {
    std::fs::canonicalize(target).is_ok_and(|path| path == Path::new("/"))
}

#[cfg(test)]
pub(crate) mod tests;
