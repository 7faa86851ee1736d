//! Checks whether a snapshot fits into a volume before anything is written. It is refused only if it certainly does
//! not fit: the lower bound of its size is compared.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::chunker::{ZEROS, ZEROS_LENGTH};
use lifeboat_repository::id::BlobId;
use lifeboat_repository::node::Node;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::walk::{EntrySet, Visit, visit_trees};
use rustix::fs::{Dir, fstatvfs};
use tokio_util::sync::CancellationToken;

use super::failure::{self, Failed};
use super::proof::Volume;
use crate::report::{Cause, Failure};

/// Fails if the volume is too small for the files below a tree of the snapshot.
pub(super) async fn check(
    repository: &Repository,
    snapshot: &Snapshot,
    tree: BlobId,
    volume: &Volume,
    sparse: bool,
    cancel: &CancellationToken,
) -> Result<(), Failed> {
    let Ok(available) = available(volume) else { return Ok(()) };
    // Most snapshots record their size, and most fit: then nothing has to be counted.
    let recorded = snapshot.summary.as_ref().map(|summary| summary.counts.total_bytes_processed);
    if recorded.is_some_and(|bytes| bytes <= available) {
        return Ok(());
    }
    let needed = needed(repository, tree, sparse, cancel).await?;
    if needed <= available {
        return Ok(());
    }
    let message = format!(
        "the snapshot needs at least {needed} bytes, '{}' has space for {available}: restore into a larger volume",
        volume.path().display()
    );
    Err(Failed::new(Cause::NoSpace, message))
}

/// The failure if the disk fills up although the check had passed.
pub(super) fn full(snapshot: &Snapshot, volume: &Volume, problem: &str) -> Failure {
    let recorded = snapshot.summary.as_ref().map(|summary| summary.counts.total_bytes_processed);
    let needs = recorded.map_or_else(String::new, |bytes| format!("; the snapshot has {bytes} bytes"));
    let has = fstatvfs(volume.directory()).map_or_else(
        |_| String::new(),
        |about| {
            let (all, free) = (about.f_blocks * about.f_frsize, about.f_bfree * about.f_frsize);
            format!(", '{}' has {all}, of which {free} are free", volume.path().display())
        },
    );
    let message = format!("the target is full: {problem}{needs}{has}; restore into a larger volume");
    Failure { cause: Cause::NoSpace, message }
}

/// The free space of an empty volume. A volume with files may contain data of an earlier attempt that is used again,
/// so there its total size counts.
fn available(volume: &Volume) -> io::Result<u64> {
    let about = fstatvfs(volume.directory())?;
    let blocks = if is_empty(volume)? { about.f_bfree } else { about.f_blocks };
    Ok(blocks.saturating_mul(about.f_frsize))
}

fn is_empty(volume: &Volume) -> io::Result<bool> {
    for entry in Dir::read_from(volume.directory())? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b".." | b"lost+found" | b".velero") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Counts files: each inode once, and no holes if they become holes again. A directory that occurs twice with the
/// same content is counted once, so the real size may be larger.
pub(crate) async fn needed(
    repository: &Repository,
    tree: BlobId,
    sparse: bool,
    cancel: &CancellationToken,
) -> Result<u64, Failed> {
    let engine = failure::of(Cause::Target);
    let reader = BlobReader::new(repository, Arc::new(repository.load_index().await.map_err(&engine)?));
    let visited = EntrySet::new(reader.index().len());
    let count = Arc::new(Count { sparse, bytes: AtomicU64::new(0), linked: Mutex::default() });
    let counting = Arc::clone(&count);
    let work = Arc::new(move |visit: &mut Visit| {
        while let Some(node) = visit.next_node()? {
            counting.add(&node);
        }
        Ok(())
    });
    let roots = [tree.into()];
    visit_trees(&reader, roots, &visited, work, &Progress::default(), cancel).await.map_err(&engine)?;
    Ok(count.bytes.load(Ordering::Relaxed))
}

struct Count {
    sparse: bool,
    bytes: AtomicU64,
    /// Device and inode of files with several links.
    linked: Mutex<HashSet<(u64, u64)>>,
}

impl Count {
    fn add(&self, node: &Node) {
        let is_again = || {
            let mut linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
            !linked.insert((node.device_id, node.inode))
        };
        if !node.is_file() || (node.links > 1 && is_again()) {
            return;
        }
        let zeros = node.blobs().iter().filter(|id| self.sparse && **id == ZEROS).count() as u64;
        let bytes = node.size.saturating_sub(zeros.saturating_mul(ZEROS_LENGTH));
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
