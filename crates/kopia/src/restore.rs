//! Restores a snapshot to a directory, or the content of a block device to a device. Writes only below the target,
//! with the same safe writing as the restore of our own repositories, and returns what it did and every problem.
//!
//! One thread walks the tree, decides (`plan` of crate repository) and creates directories and links. Files
//! are collected in windows: the contents that a window needs are grouped by pack, neighbours are read at
//! once, and worker threads open, verify and write them. The thread that writes the last part of a file sets
//! its owner, mode and times; those of a directory are set when its last entry is done. Memory is bounded by
//! the window and by the bytes that are read and not yet written.

mod compare;
pub mod device;
mod directory;
mod fetch;
mod file;
mod metadata;
mod shared;
mod verify;
mod visit;
mod walk;
mod window;

use std::path::PathBuf;
use std::sync::Arc;

use lifeboat_repository::progress::Progress;
pub use lifeboat_repository::restore::{
    Action, Event, Notify, Overwrite, Problem, RestoreOutcome, Select, Selection,
};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::walk::find_directory;
use shared::Shared;

/// What to restore, the target, and options.
#[derive(Clone, Default)]
pub struct RestoreOptions {
    /// Created if it is missing.
    pub target: PathBuf,
    /// Restore only the content of this directory of the snapshot, directly into the target.
    pub subfolder: Option<PathBuf>,
    /// Everything if `None`.
    pub select: Option<Select>,
    pub overwrite: Overwrite,
    /// Leave holes where files have zeros.
    pub sparse: bool,
    /// Read everything again afterwards and compare.
    pub verify: bool,
    /// Change nothing; count and report what would be done.
    pub dry_run: bool,
    pub notify: Option<Notify>,
}

/// Restores a snapshot and flushes it to disk. If the outcome `is_incomplete`, it lists what could not be restored;
/// errors are returned only for failures that stop the whole restore.
pub async fn restore(
    repository: &Repository,
    snapshot: &Snapshot,
    options: RestoreOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<RestoreOutcome> {
    if options.dry_run && options.verify {
        let problem = "a dry run writes nothing that could be verified".to_owned();
        return Err(Error::Invalid { what: "verify".to_owned(), problem });
    }
    // However this future ends, even by being dropped, the threads stop.
    let stop = cancel.child_token();
    let _guard = stop.clone().drop_guard();
    progress.begin("reading the snapshot");
    let prepare = async {
        let root = snapshot.root()?;
        if !root.node.is_directory() {
            let problem = "its root is not a directory".to_owned();
            return Err(Error::Invalid { what: format!("snapshot {}", snapshot.id), problem });
        }
        let object = root.object()?;
        if crate::tree::load_device(repository, object).await?.is_some() {
            let problem =
                "it is the content of a block device, which cannot be restored to a directory".to_owned();
            return Err(Error::Invalid { what: format!("snapshot {}", snapshot.id), problem });
        }
        find_directory(repository, object, options.subfolder.as_deref()).await
    };
    let tree = tokio::select! {
        prepared = prepare => prepared?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    };
    progress.begin("restoring");
    let shared = Shared::new(repository, options, progress, stop)?;
    visit::run(&shared, tree).await?;
    shared.flush().await?;
    if shared.options.verify && !shared.has_problems() {
        shared.progress.begin("verifying");
        verify::run(&shared, tree).await?;
    }
    shared.outcome()
}

#[cfg(test)]
mod tests;
