//! State that all threads of one restore share: source, target, options, counters, open directories.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifeboat_repository::progress::Progress;
use lifeboat_repository::restore::writing::Target;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Action, Event, Problem, RestoreOptions, RestoreOutcome, Selection};
use crate::error::{Error, Result, blocking};
use crate::repository::Repository;

/// The most files that are planned and not complete.
pub(super) const FILES_AT_ONCE: usize = 16 * 1024;
/// Further problems and paths are counted, but not kept.
const KEPT_PROBLEMS: usize = 10_000;
const KEPT_OWNERS: usize = 100;
/// The most directories and files that are kept open.
const OPEN_DIRECTORIES: usize = 192;
const OPEN_FILES: usize = 192;

#[derive(Default)]
struct Open {
    /// By the directory's number, with the time of last use.
    directories: HashMap<u64, (Arc<OwnedFd>, u64)>,
    uses: u64,
}

/// The state of one restore.
pub(super) struct Shared {
    pub(super) repository: Repository,
    pub(super) target: Target,
    pub(super) options: RestoreOptions,
    pub(super) progress: Arc<Progress>,
    pub(super) runtime: Handle,
    pub(super) cancel: CancellationToken,
    pub(super) is_root: bool,
    /// One permit for each file that is planned and not complete.
    pub(super) rooms: Arc<Semaphore>,
    outcome: Mutex<RestoreOutcome>,
    bytes_restored: AtomicU64,
    fatal: Mutex<Option<Error>>,
    open: Mutex<Open>,
    open_files: AtomicUsize,
    /// Paths of files that were left as they are, which are not verified: eight bytes for each.
    untouched: Mutex<HashSet<u64>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(
        repository: &Repository,
        options: RestoreOptions,
        progress: Arc<Progress>,
        cancel: CancellationToken,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            repository: repository.clone(),
            target: Target::open(&options.target, options.dry_run)?,
            options,
            progress,
            runtime: Handle::current(),
            cancel,
            is_root: rustix::process::geteuid().is_root(),
            rooms: Arc::new(Semaphore::new(FILES_AT_ONCE)),
            outcome: Mutex::default(),
            bytes_restored: AtomicU64::new(0),
            fatal: Mutex::new(None),
            open: Mutex::default(),
            open_files: AtomicUsize::new(0),
            untouched: Mutex::default(),
        }))
    }

    /// Runs a read on this thread; fails at once when the restore is stopped.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(async {
            tokio::select! {
                done = work => done,
                () = self.cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }

    /// Stops the restore.
    pub(super) fn fail(&self, error: Error) {
        if !matches!(error, Error::Cancelled) {
            locked(&self.fatal).get_or_insert(error);
        }
        self.cancel.cancel();
    }

    /// The error that stopped the restore, if there is one.
    pub(super) fn check_fatal(&self) -> Result<()> {
        match locked(&self.fatal).take() {
            Some(error) => Err(error),
            None if self.cancel.is_cancelled() => Err(Error::Cancelled),
            None => Ok(()),
        }
    }

    pub(super) fn problem(&self, path: &[u8], message: impl std::fmt::Display) {
        self.progress.add_error();
        let mut outcome = locked(&self.outcome);
        outcome.problem_count += 1;
        if outcome.problems.len() < KEPT_PROBLEMS {
            let path = String::from_utf8_lossy(path).into_owned();
            outcome.problems.push(Problem { path, message: message.to_string() });
        }
    }

    /// Counts an entry whose owner only root may set.
    pub(super) fn kept_owner(&self, path: &[u8]) {
        let mut outcome = locked(&self.outcome);
        outcome.kept_owner_count += 1;
        if outcome.kept_owners.len() < KEPT_OWNERS {
            outcome.kept_owners.push(String::from_utf8_lossy(path).into_owned());
        }
    }

    pub(super) fn has_problems(&self) -> bool {
        locked(&self.outcome).problem_count > 0
    }

    pub(super) fn select(&self, path: &[u8], is_directory: bool) -> Selection {
        self.options.select.as_ref().map_or(Selection::ALL, |select| select(path, is_directory))
    }

    pub(super) fn notify(&self, action: Action, path: &[u8], is_directory: bool, size: u64) {
        if let Some(notify) = &self.options.notify {
            notify(&Event { action, path: Path::new(OsStr::from_bytes(path)), is_directory, size });
        }
    }

    /// Counts an entry of the snapshot.
    pub(super) fn found(&self, bytes: u64) {
        let mut outcome = locked(&self.outcome);
        outcome.total_files += 1;
        outcome.total_bytes = outcome.total_bytes.saturating_add(bytes);
        drop(outcome);
        self.progress.add_total(1, bytes);
    }

    /// Counts a finished entry: its bytes were counted when they were written.
    pub(super) fn restored(&self) {
        locked(&self.outcome).files_restored += 1;
        self.progress.add_done(1, 0);
    }

    pub(super) fn wrote(&self, bytes: u64) {
        self.bytes_restored.fetch_add(bytes, Ordering::Relaxed);
        self.progress.add_done(0, bytes);
    }

    /// Counts a file that was left as it is.
    pub(super) fn skipped(&self, path: &[u8], bytes: u64, keep: bool) {
        let mut outcome = locked(&self.outcome);
        outcome.files_skipped += 1;
        outcome.bytes_skipped = outcome.bytes_skipped.saturating_add(bytes);
        drop(outcome);
        self.progress.add_done(1, bytes);
        if keep && self.options.verify {
            locked(&self.untouched).insert(path_hash(path));
        }
    }

    pub(super) fn is_untouched(&self, path: &[u8]) -> bool {
        locked(&self.untouched).contains(&path_hash(path))
    }

    pub(super) fn verified(&self, files: u64) {
        *locked(&self.outcome).files_verified.get_or_insert(0) += files;
    }

    /// The handle of a directory, if it is still open.
    pub(super) fn open_directory(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let mut open = locked(&self.open);
        open.uses += 1;
        let uses = open.uses;
        let (handle, last_use) = open.directories.get_mut(&number)?;
        *last_use = uses;
        Some(Arc::clone(handle))
    }

    /// Keeps a handle; if there are too many, the least recently used one is closed.
    pub(super) fn keep_directory(&self, number: u64, handle: Arc<OwnedFd>) {
        let mut open = locked(&self.open);
        open.uses += 1;
        let uses = open.uses;
        if open.directories.len() >= OPEN_DIRECTORIES {
            let oldest =
                open.directories.iter().min_by_key(|(_, (_, used))| *used).map(|(number, _)| *number);
            oldest.map(|oldest| open.directories.remove(&oldest));
        }
        open.directories.insert(number, (handle, uses));
    }

    pub(super) fn take_directory(&self, number: u64) -> Option<Arc<OwnedFd>> {
        locked(&self.open).directories.remove(&number).map(|(handle, _)| handle)
    }

    /// Whether one more file may stay open between two of its parts.
    pub(super) fn may_keep_file(&self) -> bool {
        let taken = self.open_files.fetch_add(1, Ordering::Relaxed);
        if taken >= OPEN_FILES {
            self.closed_file();
        }
        taken < OPEN_FILES
    }

    pub(super) fn closed_file(&self) {
        self.open_files.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until everything is on disk.
    pub(super) async fn flush(self: &Arc<Self>) -> Result<()> {
        self.progress.begin("flushing");
        let shared = Arc::clone(self);
        let flushing = blocking(move || match shared.target.root() {
            Some(root) if !shared.options.dry_run => rustix::fs::syncfs(root)
                .map_err(|error| Error::file("flush the files in", &shared.options.target)(error.into())),
            _ => Ok(()),
        });
        tokio::select! {
            flushed = flushing => flushed,
            () = self.cancel.cancelled() => Err(Error::Cancelled),
        }
    }

    pub(super) fn outcome(&self) -> Result<RestoreOutcome> {
        self.check_fatal()?;
        let mut outcome = std::mem::take(&mut *locked(&self.outcome));
        outcome.bytes_restored = self.bytes_restored.load(Ordering::Relaxed);
        Ok(outcome)
    }
}

fn path_hash(path: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}
