//! A file that is being written. Its parts arrive in any order and from several threads; the thread that writes the last
//! one completes the file.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifeboat_repository::node::Node;
use lifeboat_repository::restore::writing::{
    MetadataTarget, Stat, create, identity_of, open_again, open_existing, write_all, write_sparse,
};
use rustix::io::Result as SystemResult;
use tokio::sync::OwnedSemaphorePermit;

use super::directory::Directory;
use super::shared::Shared;
use super::{Action, metadata};

/// How a file gets its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The file does not exist.
    Create,
    /// A file with this device, inode and size exists: only the parts that differ are written.
    Repair { identity: (u64, u64), size: u64 },
}

/// A file in progress.
pub(super) struct File {
    directory: Arc<Directory>,
    node: Node,
    how: How,
    /// The number of parts that are not written yet, plus one while parts are still being added.
    left: AtomicU64,
    failed: AtomicBool,
    opened: Mutex<Opened>,
    _room: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Opened {
    handle: Option<Arc<OwnedFd>>,
    /// Identity of the file that was opened first: a replacement is not written to.
    identity: Option<(u64, u64)>,
}

impl File {
    pub(super) fn new(
        directory: &Arc<Directory>,
        node: Node,
        how: How,
        room: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        Arc::new(Self {
            directory: Arc::clone(directory),
            node,
            how,
            left: AtomicU64::new(1),
            failed: AtomicBool::new(false),
            opened: Mutex::default(),
            _room: room,
        })
    }

    /// Adds one expected part.
    pub(super) fn expect_part(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// A part was written or given up, or no more parts are expected. The last call completes the file.
    pub(super) fn part_done(self: &Arc<Self>) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 && !self.shared().cancel.is_cancelled() {
            self.complete();
        }
    }

    /// Records that the file is incomplete. Reported once.
    pub(super) fn fail(&self, message: impl std::fmt::Display) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            self.shared().problem(&self.location(), format!("the file is incomplete: {message}"));
        }
    }

    /// Writes a part at its offset.
    pub(super) fn write(&self, plain: &[u8], at: u64) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let old_size = match self.how {
            How::Create => 0,
            How::Repair { size, .. } => size,
        };
        let written = self.handle().and_then(|handle| {
            if self.shared().options.sparse {
                write_sparse(&handle, plain, at, old_size)
            } else {
                write_all(&handle, plain, at)
            }
        });
        match written {
            Ok(()) => self.shared().wrote(plain.len() as u64),
            Err(error) => self.fail(format!("cannot write to it: {}", std::io::Error::from(error))),
        }
    }

    /// Checks the size, sets owner, mode and times.
    fn complete(&self) {
        let handle = match self.handle() {
            Ok(handle) => handle,
            Err(error) => return self.fail(format!("cannot create it: {}", std::io::Error::from(error))),
        };
        if self.locked().handle.take().is_some() {
            self.shared().closed_file();
        }
        let stat = match Stat::of(&*handle) {
            Ok(stat) => stat,
            Err(error) => return self.fail(format!("cannot read its metadata: {error}")),
        };
        if stat.size != self.node.size {
            self.fail(format!("it has {} bytes instead of {}", stat.size, self.node.size));
        }
        // An incomplete file keeps the current time, so that the next restore does not take it for unchanged.
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let target = MetadataTarget::Open(handle.as_fd());
        if let Err(failures) = metadata::apply(self.shared(), &target, &self.node, &stat, || self.location())
        {
            return self.shared().problem(&self.location(), failures);
        }
        self.shared().restored();
        let action = if self.how == How::Create { Action::Restored } else { Action::Updated };
        self.shared().notify(action, &self.location(), false, self.node.size);
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

    /// Its handle. It stays open until the file is complete, unless too many files are open already.
    fn handle(&self) -> SystemResult<Arc<OwnedFd>> {
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
        if opened.identity.is_none() {
            opened.identity = Some(identity_of(&handle)?.0);
        }
        let handle = Arc::new(handle);
        if self.left.load(Ordering::Relaxed) > 1 && self.shared().may_keep_file() {
            opened.handle = Some(Arc::clone(&handle));
        }
        Ok(handle)
    }
}
