//! The metadata of a file from `stat`: takes a directory handle and a name, or an open file, and never follows a
//! symbolic link.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp, makedev, statx};

use crate::node::{Mode, NodeKind, NodeTime};

/// The kernel's result, in this crate's types. Times are in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// As `st_mode`: type and permissions.
    pub mode: u32,
    pub size: u64,
    /// The space that the file system says it takes.
    pub allocated: u64,
    pub inode: u64,
    /// The device number of its file system.
    pub device_id: u64,
    pub links: u64,
    pub uid: u32,
    pub gid: u32,
    /// For a device: its number.
    pub device: u64,
    pub mtime: NodeTime,
    pub atime: NodeTime,
    pub ctime: NodeTime,
}

impl Stat {
    /// The metadata of the entry `name` of a directory; of the symbolic link itself if it is one.
    pub fn at(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Self> {
        let answer = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?;
        Ok(Self::from(&answer))
    }

    /// The metadata of an open file or directory.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let answer = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        Ok(Self::from(&answer))
    }

    pub fn kind(&self) -> NodeKind {
        Mode::from_unix(self.mode).kind()
    }

    pub fn is_directory(&self) -> bool {
        self.kind() == NodeKind::Directory
    }

    pub fn is_file(&self) -> bool {
        self.kind() == NodeKind::File
    }
}

impl From<&Statx> for Stat {
    fn from(answer: &Statx) -> Self {
        let time = |time: &StatxTimestamp| NodeTime::new(time.tv_sec, time.tv_nsec);
        Self {
            mode: answer.stx_mode.into(),
            size: answer.stx_size,
            allocated: answer.stx_blocks.saturating_mul(512),
            inode: answer.stx_ino,
            device_id: makedev(answer.stx_dev_major, answer.stx_dev_minor),
            links: answer.stx_nlink.into(),
            uid: answer.stx_uid,
            gid: answer.stx_gid,
            device: makedev(answer.stx_rdev_major, answer.stx_rdev_minor),
            mtime: time(&answer.stx_mtime),
            atime: time(&answer.stx_atime),
            ctime: time(&answer.stx_ctime),
        }
    }
}
