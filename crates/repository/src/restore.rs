//! Restoring a snapshot to a directory: into an empty one or in place. `restore` takes the snapshot's tree and the
//! options, writes only below the target (through directory handles, never by joined paths), and gives back what it
//! did with every problem it met. Called by the command line and by movers; the caller holds the repository's lock.
//!
//! One thread walks the trees, decides (`plan`) and makes directories. Files are collected in windows: the blobs
//! that a window needs are grouped by pack, neighbours are read at once, and worker threads decode and write them
//! where they belong. Whoever writes the last blob of a file gives it its owner, mode and times; whoever finishes
//! the last entry of a directory does so for the directory. Memory is bounded: 24 MiB of sealed data, two windows of
//! 8,192 files or 32,768 blobs, one blob for each thread, 16 MiB of trees.

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
mod target;
mod verify;
mod visit;
mod walk;
mod window;
mod work;

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
use target::Target;

/// What a filter says about one path.
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

/// Says what is restored: gets the path below the snapshot's (sub)folder, as in `/etc/hosts`, and whether it is a
/// directory.
pub type Select = Arc<dyn Fn(&[u8], bool) -> Selection + Send + Sync>;
/// Says which extended attributes are restored, by name.
pub type SelectXattr = Arc<dyn Fn(&str) -> bool + Send + Sync>;
/// Is told what is done, or would be done in a dry run; from several threads.
pub type Notify = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// What to restore, where to, and how.
#[derive(Clone, Default)]
pub struct RestoreOptions {
    /// Made if it is missing.
    pub target: PathBuf,
    /// Only what is below this directory of the snapshot, which becomes the target itself.
    pub subfolder: Option<PathBuf>,
    /// Everything, if there is none.
    pub select: Option<Select>,
    /// All attributes, if there is none.
    pub select_xattr: Option<SelectXattr>,
    /// Remove what the snapshot does not have.
    pub delete: bool,
    pub overwrite: Overwrite,
    /// Leave holes where files have zeros.
    pub sparse: bool,
    /// Read everything again afterwards.
    pub verify: bool,
    /// Change nothing; count and tell what would be done.
    pub dry_run: bool,
    /// Owners by their names instead of numbers, where this system knows the names.
    pub ownership_by_name: bool,
    pub notify: Option<Notify>,
    /// Fail as soon as the target has no room left, instead of trying every other file.
    pub stop_when_full: bool,
}

/// Restores a snapshot. An outcome that `is_incomplete` lists what could not be restored; errors are for what
/// stops everything.
pub async fn restore(
    repository: &Repository,
    snapshot: &Snapshot,
    options: RestoreOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<RestoreOutcome> {
    check(&options)?;
    // Whatever ends this future, even dropping it, stops the threads.
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
    let shared = Shared::new(reader, target, options, progress, stop);
    visit::run(&shared, tree).await?;
    if verify && !shared.has_problems() {
        shared.progress.begin("verifying");
        verify::run(&shared, tree).await?;
    }
    shared.outcome()
}

fn check(options: &RestoreOptions) -> Result<()> {
    if options.target.as_os_str().is_empty() {
        return Err(Error::invalid("target", "no directory to restore to was given"));
    }
    if options.dry_run && options.verify {
        return Err(Error::invalid("verify", "a dry run writes nothing that could be verified"));
    }
    if options.delete && options.select.is_none() && is_root(&options.target) {
        return Err(Error::Refused {
            reason: "restoring to '/' with deletion would remove everything that the snapshot does not have"
                .to_owned(),
            hint: "give an include or exclude pattern, or another target",
        });
    }
    Ok(())
}

fn is_root(target: &Path) -> bool {
    std::fs::canonicalize(target).is_ok_and(|path| path == Path::new("/"))
}

#[cfg(test)]
pub(crate) mod tests;
