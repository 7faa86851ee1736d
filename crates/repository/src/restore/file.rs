//! A file that is being written. Blobs arrive in any order and from several threads; the thread that writes the last
//! one completes the file. A file of one blob is opened, written and completed at once.

pub(super) mod open;
pub(super) mod write;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, FallocateFlags, Timespec, Timestamps, UTIME_NOW, fallocate, utimensat};
use rustix::io::{Errno, Result as SystemResult};
use tokio::sync::OwnedSemaphorePermit;

use super::directory::DirRef;
use super::links::Fate;
use super::metadata::{self, MetadataTarget};
use super::outcome::Action;
use super::shared::Shared;
use crate::node::Node;
use crate::source::stat::Stat;
use open::{create, identity_of, open_again, open_existing};
use write::{fill_with_zeros, write_all, write_sparse};

/// How a file gets its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The file does not exist.
    Create,
    /// A file with this device, inode and size exists: only differing parts are written.
    Repair { identity: (u64, u64), size: u64 },
}

/// A file in progress.
pub(super) struct File {
    directory: DirRef,
    /// Without its content, which may be long.
    node: Node,
    how: How,
    /// The number of blobs that are not written yet, plus one while blobs are still being added.
    left: AtomicU64,
    failed: AtomicBool,
    /// Informs links to this file if it fails.
    fate: Option<Fate>,
    opened: Mutex<Opened>,
    /// The first error of closing it: some bytes that were written may not be stored.
    not_closed: OnceLock<Errno>,
    _room: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Opened {
    handle: Option<Arc<OwnedFd>>,
    /// Identity of the file that was opened first: a replacement is not written to.
    identity: Option<(u64, u64)>,
    broken: bool,
}

impl File {
    pub(super) fn new(
        directory: DirRef,
        node: Node,
        how: How,
        fate: Option<Fate>,
        room: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        Arc::new(Self {
            directory,
            node,
            how,
            left: AtomicU64::new(1),
            failed: AtomicBool::new(false),
            fate,
            opened: Mutex::default(),
            not_closed: OnceLock::new(),
            _room: room,
        })
    }

    pub(super) fn is_new(&self) -> bool {
        self.how == How::Create
    }

    /// Adds one expected blob.
    pub(super) fn expect_blob(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Called when a blob was written or given up, or when no more blobs are expected. True for the last call, whose
    /// caller must complete the file.
    #[must_use]
    pub(super) fn blob_done(&self) -> bool {
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Records that the file is incomplete, whatever its size. Reported once.
    pub(super) fn fail(&self, message: impl std::fmt::Display) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            self.shared().problem(&self.location(), format!("the file is incomplete: {message}"));
        }
        if let Some(fate) = &self.fate {
            fate.mark_incomplete();
        }
    }

    /// Writes a blob at its offset.
    pub(super) fn write(self: &Arc<Self>, plain: &[u8], at: u64) {
        if self.locked().broken {
            return;
        }
        let written = self.handle().and_then(|handle| {
            let written = if self.shared().options.sparse {
                write_sparse(&handle, plain, at, self.old_size())
            } else {
                write_all(&handle, plain, at)
            };
            self.release(handle);
            written
        });
        match written {
            Ok(()) => self.shared().wrote(plain.len() as u64),
            Err(error) => self.abort("write to it", error),
        }
    }

    /// Makes a part of a new file read as zeros and allocates its space, without writing if the file system supports
    /// that.
    pub(super) fn write_zeros(self: &Arc<Self>, at: u64, length: u64) {
        if self.locked().broken {
            return;
        }
        let zeros = self.handle().and_then(|handle| {
            let zeros = match fallocate(&handle, FallocateFlags::empty(), at, length) {
                Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => fill_with_zeros(&handle, at, length),
                answer => answer,
            };
            self.release(handle);
            zeros
        });
        match zeros {
            Ok(()) => self.shared().wrote(length),
            Err(error) => self.abort("write to it", error),
        }
    }

    /// Called when all available content is written: checks the size, sets owner, mode and times.
    pub(super) fn complete(self: &Arc<Self>) {
        let shared = self.shared();
        if shared.cancel.is_cancelled() || self.locked().broken {
            return;
        }
        let handle = match self.handle() {
            Ok(handle) => handle,
            Err(error) => return self.abort("create it", error),
        };
        self.close();
        let stat = match Stat::of(handle.as_fd()) {
            Ok(stat) => stat,
            Err(error) => return self.fail(format!("cannot read its metadata: {error}")),
        };
        if stat.size != self.node.size {
            self.fail(format!("it has {} bytes instead of {}", stat.size, self.node.size));
        }
        // An incomplete file keeps the current time, so that the next restore does not take it for unchanged.
        let whole = !self.failed.load(Ordering::Relaxed);
        let target = MetadataTarget::Open(handle.as_fd());
        if let Err(failure) = metadata::apply(shared, &target, &self.node, &stat, whole, || self.location()) {
            // The content is correct: further names can be linked to it.
            if whole {
                shared.problem(&self.location(), failure);
            }
            return;
        }
        self.release(handle);
        if let Some(error) = self.not_closed.get() {
            return self.incomplete_at_close(*error);
        }
        if whole {
            shared.restored();
            if shared.wants_events() {
                let action = if self.is_new() { Action::Restored } else { Action::Updated };
                shared.notify(action, &self.location(), false, self.node.size);
            }
        }
    }

    /// Closes the file; it is opened again when needed.
    pub(super) fn close(&self) {
        // Closed under the mutex, so that the thread that completes the file sees a failure.
        let mut opened = self.locked();
        if let Some(handle) = opened.handle.take() {
            self.release(handle);
        }
    }

    /// Gives a handle back; the last one closes the file.
    fn release(&self, handle: Arc<OwnedFd>) {
        if let Some(handle) = Arc::into_inner(handle)
            && let Err(error) = (self.shared().system.close)(handle)
        {
            let _ = self.not_closed.set(error);
        }
    }

    /// Reports that closing failed. The file must not look unchanged to the next restore, so it gets the current time.
    fn incomplete_at_close(&self, error: Errno) {
        self.fail(format!("closing it failed: {}", std::io::Error::from(error)));
        if let Ok(directory) = self.directory.handle() {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let times = Timestamps { last_access: now, last_modification: now };
            let _ = utimensat(&*directory, self.node.name.as_slice(), &times, AtFlags::SYMLINK_NOFOLLOW);
        }
        self.stop_if_full(error);
    }

    fn shared(&self) -> &Arc<Shared> {
        self.directory.shared()
    }

    fn location(&self) -> Vec<u8> {
        self.directory.location(Some(&self.node.name))
    }

    fn locked(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abort(&self, action: &str, error: Errno) {
        self.locked().broken = true;
        if let Some(fate) = &self.fate {
            fate.mark_lost();
        }
        if !self.failed.swap(true, Ordering::Relaxed) {
            let message = format!("cannot {action}: {}", std::io::Error::from(error));
            self.shared().problem(&self.location(), message);
        }
        self.stop_if_full(error);
    }

    fn stop_if_full(&self, error: Errno) {
        if self.shared().options.stop_when_full && matches!(error, Errno::NOSPC | Errno::DQUOT) {
            let path = std::ffi::OsString::from_vec(self.location());
            self.shared().fail(crate::error::Error::file("write", path)(error.into()));
        }
    }

    /// The size up to which there may be old bytes: 0 for a new file.
    fn old_size(&self) -> u64 {
        match self.how {
            How::Create => 0,
            How::Repair { size, .. } => size,
        }
    }

    fn handle(self: &Arc<Self>) -> SystemResult<Arc<OwnedFd>> {
        let mut opened = self.locked();
        if let Some(handle) = &opened.handle {
            return Ok(Arc::clone(handle));
        }
        let directory = self.directory.handle()?;
        let handle = match (opened.identity, self.how) {
            (Some(identity), _) => open_again(&directory, &self.node, identity)?,
            (None, How::Create) => create(&directory, &self.node, self.shared().options.sparse)?,
            (None, How::Repair { identity, size }) => open_existing(&directory, &self.node, identity, size)?,
        };
        if opened.identity.is_none() && self.left.load(Ordering::Relaxed) > 1 {
            opened.identity = Some(identity_of(&handle)?.0);
        }
        let handle = Arc::new(handle);
        opened.handle = Some(Arc::clone(&handle));
        drop(opened);
        if self.left.load(Ordering::Relaxed) > 1 {
            self.shared().handles.opened(self);
        }
        Ok(handle)
    }
}
