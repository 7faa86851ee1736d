//! The result of a restore: counters that all threads update, and the problems that they found.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::backup::Problem;

/// How many entries whose owner was not set are listed by path.
const KEPT_OWNERS: usize = 100;
/// Further problems are counted, but not kept: a hostile snapshot could have billions.
const KEPT_PROBLEMS: usize = 10_000;

/// What was done with an entry, or would be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It did not exist, or replaced something else.
    Restored,
    /// A file whose content was repaired.
    Updated,
    /// Its content was correct; only owner, mode and times were set.
    Unchanged,
    /// Not changed because of the overwrite option.
    Skipped,
    /// Removed because it is not in the snapshot.
    Deleted,
}

/// One entry and the action.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    pub action: Action,
    /// Its path in the snapshot, such as `/etc/hosts`.
    pub path: &'a Path,
    pub is_directory: bool,
    /// The size of a file.
    pub size: u64,
}

/// The result of a restore. Files are entries of any kind, as in restic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    pub total_files: u64,
    pub files_restored: u64,
    pub files_skipped: u64,
    pub files_deleted: u64,
    pub total_bytes: u64,
    pub bytes_restored: u64,
    pub bytes_skipped: u64,
    /// Files that were read again and found correct; only with `verify`.
    pub files_verified: Option<u64>,
    /// The first problems: entries that were not or only partly restored, by their path in the snapshot.
    pub problems: Vec<Problem>,
    /// The number of all problems.
    pub problem_count: u64,
    /// The first entries whose owner was not set because only root may change owners; this is not counted as a problem.
    pub kept_owners: Vec<String>,
    /// The number of all such entries.
    pub kept_owner_count: u64,
}

impl RestoreOutcome {
    /// Whether anything of the snapshot may be missing or wrong in the target.
    pub fn is_incomplete(&self) -> bool {
        self.problem_count > 0
    }
}

/// The counters while the restore runs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) total_files: AtomicU64,
    pub(super) files_restored: AtomicU64,
    pub(super) files_skipped: AtomicU64,
    pub(super) files_deleted: AtomicU64,
    pub(super) total_bytes: AtomicU64,
    pub(super) bytes_restored: AtomicU64,
    pub(super) bytes_skipped: AtomicU64,
    pub(super) files_verified: AtomicU64,
    problem_count: AtomicU64,
    problems: Mutex<Vec<Problem>>,
    kept_owner_count: AtomicU64,
    kept_owners: Mutex<Vec<String>>,
}

pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl Counts {
    pub(super) fn problem(&self, problem: Problem) {
        add(&self.problem_count, 1);
        tracing::debug!(path = problem.path, message = problem.message, "problem during restore");
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < KEPT_PROBLEMS {
            problems.push(problem);
        }
    }

    /// Counts an entry whose owner was not set.
    pub(super) fn kept_owner(&self, path: impl FnOnce() -> String) {
        add(&self.kept_owner_count, 1);
        let mut kept = self.kept_owners.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_OWNERS {
            kept.push(path());
        }
    }

    pub(super) fn problem_count(&self) -> u64 {
        self.problem_count.load(Ordering::Relaxed)
    }

    pub(super) fn outcome(&self, verified: bool) -> RestoreOutcome {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RestoreOutcome {
            total_files: value(&self.total_files),
            files_restored: value(&self.files_restored),
            files_skipped: value(&self.files_skipped),
            files_deleted: value(&self.files_deleted),
            total_bytes: value(&self.total_bytes),
            bytes_restored: value(&self.bytes_restored),
            bytes_skipped: value(&self.bytes_skipped),
            files_verified: verified.then(|| value(&self.files_verified)),
            problems: std::mem::take(&mut *self.problems.lock().unwrap_or_else(PoisonError::into_inner)),
            problem_count: self.problem_count(),
            kept_owners: std::mem::take(
                &mut *self.kept_owners.lock().unwrap_or_else(PoisonError::into_inner),
            ),
            kept_owner_count: value(&self.kept_owner_count),
        }
    }
}
