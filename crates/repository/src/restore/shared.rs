//! State shared by all parts and threads of one restore: source, target, options, counters.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::handles::Handles;
use super::outcome::{Action, Counts, Event, RestoreOutcome, add};
use super::system::System;
use super::target::Target;
use super::{RestoreOptions, Selection};
use crate::backup::Problem;
use crate::blobs::BlobReader;
use crate::error::{Error, Result, Retry};
use crate::progress::Progress;
use crate::source::accounts::Accounts;

/// The most files in memory: several windows.
pub(super) const FILES_AT_ONCE: u32 = 16 * 1024;

/// The state of one restore.
pub(super) struct Shared {
    pub(super) reader: BlobReader,
    pub(super) target: Target,
    pub(super) options: RestoreOptions,
    pub(super) progress: Arc<Progress>,
    pub(super) counts: Counts,
    pub(super) handles: Handles,
    /// One permit per file that is planned and not complete: thousands of small ones fit into a single read.
    pub(super) rooms: Arc<Semaphore>,
    pub(super) runtime: Handle,
    pub(super) cancel: CancellationToken,
    pub(super) accounts: Accounts,
    pub(super) is_root: bool,
    /// Hashes of the paths of files that were not written, so that `verify` skips them.
    pub(super) untouched: Mutex<HashSet<u64>>,
    /// Set when a tree with an invalid name was found: nothing is deleted any more (as in restic).
    pub(super) no_deletion: AtomicBool,
    pub(super) system: System,
    fatal: Mutex<Option<Error>>,
}

impl Shared {
    pub(super) fn new(
        reader: BlobReader,
        target: Target,
        options: RestoreOptions,
        progress: Arc<Progress>,
        cancel: CancellationToken,
        system: System,
    ) -> Arc<Self> {
        let accounts = if options.ownership_by_name { Accounts::of_system() } else { Accounts::default() };
        Arc::new(Self {
            reader,
            target,
            options,
            progress,
            counts: Counts::default(),
            handles: Handles::default(),
            rooms: Arc::new(Semaphore::new(FILES_AT_ONCE as usize)),
            runtime: Handle::current(),
            cancel,
            accounts,
            is_root: rustix::process::geteuid().is_root(),
            untouched: Mutex::default(),
            no_deletion: AtomicBool::new(false),
            system,
            fatal: Mutex::new(None),
        })
    }

    /// Fails once the restore was cancelled or has failed as a whole.
    pub(super) fn check_running(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Stops the restore.
    pub(super) fn fail(&self, error: Error) {
        if !matches!(error, Error::Cancelled) {
            self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        self.cancel.cancel();
    }

    /// The error that stopped the restore, if there is one.
    pub(super) fn check_fatal(&self) -> Result<()> {
        match self.fatal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => self.check_running(),
        }
    }

    /// Whether an error only affects one entry: an unreachable store affects all others, too.
    pub(super) fn is_local(error: &Error) -> bool {
        !matches!(error, Error::Cancelled)
            && (error.retry() == Retry::Never || matches!(error, Error::File { .. }))
    }

    pub(super) fn problem(&self, path: &[u8], message: impl std::fmt::Display) {
        self.progress.add_error();
        let path = String::from_utf8_lossy(path).into_owned();
        self.counts.problem(Problem { path, message: message.to_string() });
    }

    /// Counts an entry whose owner could not be set.
    pub(super) fn kept_owner(&self, path: impl FnOnce() -> Vec<u8>) {
        self.counts.kept_owner(|| String::from_utf8_lossy(&path()).into_owned());
    }

    pub(super) fn has_problems(&self) -> bool {
        self.counts.problem_count() > 0
    }

    pub(super) fn select(&self, path: &[u8], is_directory: bool) -> Selection {
        self.options.select.as_ref().map_or(Selection::ALL, |select| select(path, is_directory))
    }

    pub(super) fn selects_xattr(&self, name: &str) -> bool {
        self.options.select_xattr.as_ref().is_none_or(|select| select(name))
    }

    pub(super) fn allows_deletion(&self) -> bool {
        self.options.delete && !self.no_deletion.load(Ordering::Relaxed)
    }

    /// Whether entries that the snapshot does not have may be removed now that everything is written and verified.
    pub(super) fn allows_deletion_last(&self) -> bool {
        self.options.delete_last && !self.no_deletion.load(Ordering::Relaxed) && !self.has_problems()
    }

    pub(super) fn notify(&self, action: Action, path: &[u8], is_directory: bool, size: u64) {
        if let Some(notify) = &self.options.notify {
            notify(&Event { action, path: Path::new(OsStr::from_bytes(path)), is_directory, size });
        }
    }

    pub(super) fn wants_events(&self) -> bool {
        self.options.notify.is_some()
    }

    /// Counts an entry of the snapshot.
    pub(super) fn found(&self, bytes: u64) {
        add(&self.counts.total_files, 1);
        add(&self.counts.total_bytes, bytes);
        self.progress.add_total(1, bytes);
    }

    /// Counts a finished entry: its bytes were counted when they were written.
    pub(super) fn restored(&self) {
        add(&self.counts.files_restored, 1);
        self.progress.add_done(1, 0);
    }

    pub(super) fn wrote(&self, bytes: u64) {
        add(&self.counts.bytes_restored, bytes);
        self.progress.add_done(0, bytes);
    }

    /// Counts a file whose content was not changed.
    pub(super) fn skipped(&self, path: &[u8], bytes: u64) {
        add(&self.counts.files_skipped, 1);
        add(&self.counts.bytes_skipped, bytes);
        self.progress.add_done(1, bytes);
        if self.options.verify {
            self.untouched.lock().unwrap_or_else(PoisonError::into_inner).insert(path_hash(path));
        }
    }

    /// Waits until everything is on disk.
    pub(super) async fn flush(self: &Arc<Self>) -> Result<()> {
        let shared = Arc::clone(self);
        let flushing = tokio::task::spawn_blocking(move || match shared.target.root() {
            Some(root) if !shared.options.dry_run => Ok((shared.system.flush)(root)?),
            _ => Ok(()),
        });
        let flushed = tokio::select! {
            flushed = flushing => flushed.map_err(std::io::Error::other).flatten(),
            () = self.cancel.cancelled() => return Err(Error::Cancelled),
        };
        flushed.map_err(Error::file("flush the files in", &self.options.target))
    }

    pub(super) fn outcome(&self) -> Result<RestoreOutcome> {
        self.check_fatal()?;
        Ok(self.counts.outcome(self.options.verify))
    }
}

/// Eight bytes per path: a million paths take eight megabytes.
pub(super) fn path_hash(path: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}
