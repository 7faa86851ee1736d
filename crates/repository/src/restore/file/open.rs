//! Opens the files of a restore below a directory: a new one, or one that exists and whose identity is known. No symbolic
//! link is followed, and nothing that has taken the file's place is written to.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fchmod, ftruncate, openat};
use rustix::io::{Errno, Result as SystemResult};

use crate::node::Node;
use crate::restore::metadata::chmod_entry;
use crate::source::stat::Stat;

/// Creates the file. `sparse`: it has its size at once.
pub fn create(directory: &OwnedFd, node: &Node, sparse: bool) -> SystemResult<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(directory, node.name.as_slice(), flags, Mode::RUSR | Mode::WUSR)?;
    if sparse && node.size > 0 {
        ftruncate(&handle, node.size)?;
    }
    Ok(handle)
}

/// Opens the file that [`create`] or [`open_existing`] opened before. `known`: its device and inode.
pub fn open_again(directory: &OwnedFd, node: &Node, known: (u64, u64)) -> SystemResult<OwnedFd> {
    // Non-blocking, in case it was replaced by a pipe.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let handle = openat(directory, node.name.as_slice(), flags, Mode::empty())?;
    if identity_of(&handle)?.0 == known { Ok(handle) } else { Err(Errno::STALE) }
}

/// Opens a file that existed before the restore, with this device and inode and this size, and gives it its new size.
pub fn open_existing(
    directory: &OwnedFd,
    node: &Node,
    known: (u64, u64),
    size: u64,
) -> SystemResult<OwnedFd> {
    let handle = match open_again(directory, node, known) {
        Err(Errno::ACCESS) => {
            chmod_entry(directory.as_fd(), &node.name, 0o600)?;
            open_again(directory, node, known)?
        }
        other => other?,
    };
    let (_, mode) = identity_of(&handle)?;
    if mode & 0o7000 != 0 {
        // Incomplete content must not be executable with another user's privileges.
        fchmod(&handle, Mode::from_raw_mode(mode & 0o777))?;
    }
    if size != node.size {
        ftruncate(&handle, node.size)?;
    }
    Ok(handle)
}

/// Device and inode of a file, and its mode.
pub fn identity_of(handle: &OwnedFd) -> SystemResult<((u64, u64), u32)> {
    let stat = Stat::of(handle).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if stat.is_file() { Ok(((stat.device_id, stat.inode), stat.mode)) } else { Err(Errno::STALE) }
}
