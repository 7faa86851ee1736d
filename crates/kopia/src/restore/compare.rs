//! Compares an existing file with the parts that it should have: parts that are there already are not read from the
//! repository.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use lifeboat_repository::restore::writing::identity_of;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, Result as SystemResult};

use super::directory::Directory;
use crate::object::Part;
use crate::repository::Repository;

/// An existing file, opened to be compared.
pub(super) struct Existing {
    handle: OwnedFd,
    pub(super) identity: (u64, u64),
}

impl Existing {
    /// Opens a regular file, through no symbolic link.
    pub(super) fn open(directory: &Arc<Directory>, name: &[u8]) -> SystemResult<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let handle = openat(&*directory.handle()?, name, flags, Mode::empty())?;
        let (identity, _) = identity_of(&handle)?;
        Ok(Self { handle, identity })
    }

    /// Whether the file has the bytes of a part at an offset. The hash of a part that is compressed in itself says
    /// nothing about them.
    pub(super) fn has(&self, repository: &Repository, part: &Part, at: u64, buffer: &mut Vec<u8>) -> bool {
        if part.compressed {
            return false;
        }
        let Ok(length) = usize::try_from(part.length) else { return false };
        buffer.resize(length, 0);
        self.read(buffer, at).is_ok() && repository.matches(&part.content, buffer)
    }

    /// Fills the buffer from an offset.
    pub(super) fn read(&self, mut buffer: &mut [u8], mut at: u64) -> SystemResult<()> {
        while !buffer.is_empty() {
            match rustix::io::pread(&self.handle, &mut *buffer, at) {
                Ok(0) => return Err(Errno::IO),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    at += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
