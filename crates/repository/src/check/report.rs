//! The findings of a check, collected from many threads.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::id::{BlobId, BlobKind, PackId, SnapshotId};
use crate::index::Entry;
use crate::progress::Progress;

/// How many errors and hints are kept; more are only counted. A repository whose data is lost has millions.
const KEPT: usize = 10_000;

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// A key file cannot be read.
    Key,
    /// An index file cannot be read, or two contradict each other.
    Index,
    /// A pack that the index names does not exist.
    MissingPack,
    /// The size of a pack differs from the index.
    PackSize,
    /// The content of a pack is wrong.
    PackContent,
    Snapshot,
    /// A tree cannot be read, or contains something impossible.
    Tree,
    /// A blob is needed but is in no index.
    MissingBlob,
}

/// One error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckError {
    pub kind: ErrorKind,
    /// The affected object: `pack 1a2b…`, `tree 5e6f…`.
    pub object: String,
    pub message: String,
    /// The snapshot through which it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
}

/// The kind of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintKind {
    /// A pack that no index names: of an interrupted backup, or waiting for prune to delete it.
    UnindexedPack,
    /// Packs that a prune removed from the index a short time ago: they wait for the end of their grace period.
    WaitingPacks,
    /// A pack that several index files name, with the same content.
    DuplicateIndex,
    /// A pack with trees and data, as old versions of restic wrote them.
    MixedPack,
    /// A file whose blobs do not add up to its size: it changed while it was read.
    FileSize,
    /// A pack that could only be read at the second attempt.
    UnsteadyRead,
}

/// A finding that is not an error but worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckHint {
    pub kind: HintKind,
    pub object: String,
    pub message: String,
}

/// All findings of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckOutcome {
    /// The first ten thousand.
    pub errors: Vec<CheckError>,
    pub total_errors: u64,
    /// The first ten thousand.
    pub hints: Vec<CheckHint>,
    pub total_hints: u64,
    /// Packs whose content is damaged: for `repair packs`.
    pub broken_packs: Vec<PackId>,
    /// Snapshots with missing or damaged content; the others are intact as far as they were checked.
    pub damaged_snapshots: Vec<SnapshotId>,
    pub snapshots: u64,
    pub trees: u64,
    pub packs: u64,
    pub packs_read: u64,
    pub bytes_read: u64,
}

/// restic's summary of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckSummary {
    pub message_type: &'static str,
    pub num_errors: u64,
    pub broken_packs: Option<Vec<PackId>>,
    pub suggest_repair_index: bool,
    pub suggest_prune: bool,
}

impl CheckOutcome {
    pub fn is_ok(&self) -> bool {
        self.total_errors == 0
    }

    /// In the form of restic's JSON.
    pub fn summary(&self) -> CheckSummary {
        let hinted = |kinds: &[HintKind]| self.hints.iter().any(|hint| kinds.contains(&hint.kind));
        CheckSummary {
            message_type: "summary",
            num_errors: self.total_errors,
            // Go writes an empty list that was never allocated as null.
            broken_packs: (!self.broken_packs.is_empty()).then(|| self.broken_packs.clone()),
            suggest_repair_index: hinted(&[HintKind::DuplicateIndex])
                || self.errors.iter().any(|error| error.kind == ErrorKind::Index),
            suggest_prune: hinted(&[HintKind::MixedPack, HintKind::UnindexedPack]),
        }
    }
}

/// Collects the findings while the check runs.
#[derive(Debug)]
pub(super) struct Report {
    found: Mutex<CheckFindings>,
    progress: Arc<Progress>,
    pub(super) trees: AtomicU64,
    pub(super) packs: AtomicU64,
    pub(super) packs_read: AtomicU64,
    pub(super) bytes_read: AtomicU64,
}

#[derive(Debug, Default)]
struct CheckFindings {
    outcome: CheckOutcome,
    broken_packs: BTreeSet<PackId>,
    damaged_snapshots: BTreeSet<SnapshotId>,
    missing_packs: HashSet<PackId>,
    bad_copies: HashSet<(PackId, BlobKind, BlobId)>,
}

impl Report {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self {
            found: Mutex::default(),
            progress,
            trees: AtomicU64::default(),
            packs: AtomicU64::default(),
            packs_read: AtomicU64::default(),
            bytes_read: AtomicU64::default(),
        }
    }

    fn found(&self) -> MutexGuard<'_, CheckFindings> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self, kind: ErrorKind, object: impl Into<String>, message: impl Into<String>) {
        self.error_of(None, kind, object, message);
    }

    pub(super) fn error_of(
        &self,
        snapshot: Option<SnapshotId>,
        kind: ErrorKind,
        object: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.progress.add_error();
        let outcome = &mut self.found().outcome;
        outcome.total_errors += 1;
        if outcome.errors.len() < KEPT {
            outcome.errors.push(CheckError {
                kind,
                object: object.into(),
                message: message.into(),
                snapshot,
            });
        }
    }

    pub(super) fn hint(&self, kind: HintKind, object: impl Into<String>, message: impl Into<String>) {
        let outcome = &mut self.found().outcome;
        outcome.total_hints += 1;
        if outcome.hints.len() < KEPT {
            outcome.hints.push(CheckHint { kind, object: object.into(), message: message.into() });
        }
    }

    /// Records a pack that `repair packs` can repair.
    pub(super) fn broken_pack(&self, id: PackId) {
        self.found().broken_packs.insert(id);
    }

    pub(super) fn missing_pack(&self, id: PackId) {
        self.found().missing_packs.insert(id);
    }

    /// Records that the copy of a blob in this pack cannot be read.
    pub(super) fn bad_copy(&self, pack: PackId, kind: BlobKind, id: BlobId) {
        self.found().bad_copies.insert((pack, kind, id));
    }

    /// Whether a copy of a blob exists and is intact, as far as it was checked.
    pub(super) fn is_whole(&self, copy: &Entry) -> bool {
        let (found, pack) = (self.found(), copy.location.pack);
        !found.missing_packs.contains(&pack) && !found.bad_copies.contains(&(pack, copy.kind, copy.id))
    }

    pub(super) fn damaged_snapshot(&self, id: SnapshotId) {
        self.found().damaged_snapshots.insert(id);
    }

    /// The number of errors so far.
    pub(super) fn errors(&self) -> u64 {
        self.found().outcome.total_errors
    }

    pub(super) fn finish(&self, snapshots: u64) -> CheckOutcome {
        let mut found = self.found();
        let mut outcome = std::mem::take(&mut found.outcome);
        outcome.broken_packs = found.broken_packs.iter().copied().collect();
        outcome.damaged_snapshots = found.damaged_snapshots.iter().copied().collect();
        outcome.snapshots = snapshots;
        outcome.trees = self.trees.load(Ordering::Relaxed);
        outcome.packs = self.packs.load(Ordering::Relaxed);
        outcome.packs_read = self.packs_read.load(Ordering::Relaxed);
        outcome.bytes_read = self.bytes_read.load(Ordering::Relaxed);
        outcome
    }
}
