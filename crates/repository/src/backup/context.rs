//! State shared by all threads of one backup, and their findings.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::chunker::{LONG_ZEROS_LENGTH, MAX_SIZE, MIN_SIZE, Tables};
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::progress::Progress;
use crate::saver::{LargeTree, Saved, Saver};
use crate::snapshot::Counts;
use crate::source::metadata::NodeReader;

/// A file that is missing in the snapshot, or incomplete.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    pub path: String,
    pub message: String,
}

/// Shared by the walker and the workers.
pub(super) struct Context {
    pub(super) reader: BlobReader,
    pub(super) saver: Arc<Saver>,
    pub(super) tables: Tables,
    pub(super) nodes: NodeReader,
    pub(super) progress: Arc<Progress>,
    pub(super) cancel: CancellationToken,
    pub(super) runtime: Handle,
    pub(super) findings: Mutex<Findings>,
    /// See `BackupOptions`.
    pub(super) growth: Option<u64>,
    /// How much JSON of a tree is kept before it is compressed as it grows.
    pub(super) large_tree: usize,
    /// See `BackupOptions`.
    pub(super) settle: Duration,
    /// The blobs for zeros of either length, once they were saved.
    pub(super) zeros: [OnceLock<BlobId>; 2],
    /// The tree of the snapshot, once the outermost directory is complete.
    pub(super) root: OnceLock<BlobId>,
}

/// What is reported at the end.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) counts: Counts,
    pub(super) unreadable: Listed<Problem>,
    pub(super) changed: Listed<String>,
}

/// The first entries of a list, and the number of all: of a broken disk, every file may be unreadable.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) first: Vec<T>,
    pub(super) count: u64,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { first: Vec::new(), count: 0 }
    }
}

impl<T> Listed<T> {
    const KEPT: usize = 10_000;

    fn push(&mut self, entry: T) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(entry);
        }
    }
}

/// The content of a chunk of zeros.
pub(super) static ZEROS: [u8; MIN_SIZE] = [0; MIN_SIZE];

impl Context {
    /// The blob for this many zeros, one of the two lengths of the chunker: saved once, however many there are.
    pub(super) fn save_zeros(&self, length: u64) -> Result<BlobId> {
        let is_long = length == LONG_ZEROS_LENGTH;
        let slot = &self.zeros[usize::from(is_long)];
        if let Some(id) = slot.get() {
            return Ok(*id);
        }
        let id = if is_long {
            self.save(BlobKind::Data, &vec![0; MAX_SIZE])?
        } else {
            self.save(BlobKind::Data, &ZEROS)?
        };
        Ok(*slot.get_or_init(|| id))
    }

    pub(super) fn check_running(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    pub(super) fn findings(&self) -> std::sync::MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that something is missing in the snapshot.
    pub(super) fn problem(&self, path: &str, message: impl std::fmt::Display) {
        let problem = Problem { path: path.to_owned(), message: message.to_string() };
        tracing::warn!(path, message = problem.message, "not backed up completely");
        self.progress.add_error();
        self.findings().unreadable.push(problem);
    }

    /// Records that a file was written to, or deleted, while it was read.
    pub(super) fn changed(&self, path: &str) {
        self.findings().changed.push(path.to_owned());
    }

    /// Saves a blob and counts it.
    pub(super) fn save(&self, kind: BlobKind, plain: &[u8]) -> Result<BlobId> {
        let saved = self.saver.save(kind, plain)?;
        self.count(kind, saved, plain.len() as u64);
        Ok(saved.id)
    }

    /// Saves the tree of a very large directory and counts it.
    pub(super) fn save_large_tree(&self, tree: LargeTree) -> Result<BlobId> {
        let length = tree.length();
        let saved = self.saver.save_large_tree(tree)?;
        self.count(BlobKind::Tree, saved, length);
        Ok(saved.id)
    }

    fn count(&self, kind: BlobKind, saved: Saved, length: u64) {
        if !saved.new {
            return;
        }
        let counts = &mut self.findings().counts;
        match kind {
            BlobKind::Data => counts.data_blobs += 1,
            BlobKind::Tree => counts.tree_blobs += 1,
        }
        counts.data_added += length;
        counts.data_added_packed += saved.stored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_million_unreadable_files_the_first_are_listed_and_all_are_counted() {
        let mut findings = Findings::default();
        for number in 0..1_000_000 {
            findings.changed.push(number.to_string());
        }
        assert_eq!((findings.changed.first.len(), findings.changed.count), (10_000, 1_000_000));
    }
}
