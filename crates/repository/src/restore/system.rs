//! The system calls at the end of a restore that say whether the data is stored: on a network file system or with a
//! quota, a full disk may be reported only when a file is closed or flushed. Functions, so that tests can fail them.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{Errno, Result as SystemResult};

/// The system calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct System {
    pub(super) close: fn(OwnedFd) -> SystemResult<()>,
    /// Flushes the file system of the target, and reports errors of all writes since the target was opened.
    pub(super) flush: fn(BorrowedFd<'_>) -> SystemResult<()>,
}

impl Default for System {
    fn default() -> Self {
        Self { close, flush: |target| rustix::fs::syncfs(target) }
    }
}

/// Dropping an `OwnedFd` would ignore the error.
fn close(handle: OwnedFd) -> SystemResult<()> {
    match nix::unistd::close(handle) {
        // On Linux, the file is closed then, too.
        Ok(()) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(Errno::from_raw_os_error(error as i32)),
    }
}
