//! Decides which holes of a file are believed. Some file systems reported data that had just been written as a hole
//! (OpenZFS before 2.2.2, for example), and a hole is stored as zeros without being read. So a file may only have as
//! many bytes in holes as its size and its blocks allow, it must not have changed recently, and on file systems whose
//! answer comes from outside the kernel or was wrong before, everything is read.

use std::fs::File;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{FsWord, SeekFrom, fstatfs, seek};
use rustix::io::Errno;

use crate::chunker::MIN_SIZE;
use crate::source::stat::Stat;

const FUSE: FsWord = 0x6573_5546;
const ZFS: FsWord = 0x2fc1_2fc1;
/// Smaller files have no hole that is worth a system call.
const SMALLEST: u64 = MIN_SIZE as u64 * 2;

/// The holes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holes {
    size: u64,
    /// How many more bytes of holes are believed.
    believed: u64,
}

impl Holes {
    /// `settle` is the time for which a file must not have changed.
    pub(super) fn of(file: &File, stat: &Stat, settle: Duration) -> Self {
        let believed = believed(stat, Timestamp::now(), settle);
        let believed = if believed > 0 && is_trusted(file) { believed } else { 0 };
        Self { size: stat.size, believed }
    }

    /// How many whole chunks of zeros start at `start`, if it is in a hole of the file. The chunker splits zeros at
    /// the minimum size, so the chunks are known without reading them.
    pub(super) fn at(&self, file: &File, start: u64) -> Option<u64> {
        if self.believed < MIN_SIZE as u64 || self.size.saturating_sub(start) < SMALLEST {
            return None;
        }
        let data = match seek(file, SeekFrom::Data(start)) {
            Ok(data) => data.min(self.size),
            Err(Errno::NXIO) => self.size,
            Err(_) => return None,
        };
        let chunks = data.saturating_sub(start).min(self.believed) / MIN_SIZE as u64;
        (chunks > 0).then_some(chunks)
    }

    /// Called when bytes of a hole were skipped.
    pub(super) fn skipped(&mut self, bytes: u64) {
        self.believed = self.believed.saturating_sub(bytes);
    }
}

/// How many bytes of a file may be holes according to its metadata.
fn believed(stat: &Stat, now: Timestamp, settle: Duration) -> u64 {
    let changed = stat.mtime.max(stat.ctime);
    let changed = Timestamp::new(changed.seconds, i32::try_from(changed.nanoseconds).unwrap_or(0));
    let Ok(unchanged_for) = changed.map(|changed| now.duration_since(changed)) else { return 0 };
    let is_settled = Duration::try_from(unchanged_for).is_ok_and(|unchanged_for| unchanged_for >= settle);
    if stat.is_file() && stat.size >= SMALLEST && is_settled {
        stat.size.saturating_sub(stat.allocated)
    } else {
        0
    }
}

fn is_trusted(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| !matches!(system.f_type, FUSE | ZFS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeTime;

    const MIB: u64 = 1024 * 1024;

    fn stat() -> Stat {
        let (mtime, ctime) = (NodeTime::new(900, 0), NodeTime::new(970, 0));
        Stat { mode: 0o100_644, size: 100 * MIB, allocated: 30 * MIB, mtime, ctime, ..Stat::default() }
    }

    #[rstest::rstest]
    #[case(stat(), 70 * MIB, "what is not allocated")]
    #[case(Stat { allocated: 100 * MIB, ..stat() }, 0, "all of it is allocated")]
    #[case(Stat { allocated: 200 * MIB, ..stat() }, 0, "more than all of it is allocated")]
    #[case(Stat { mtime: NodeTime::new(971, 0), ..stat() }, 0, "it was written 29 seconds ago")]
    #[case(Stat { ctime: NodeTime::new(971, 0), ..stat() }, 0, "it was written, and its time set back")]
    #[case(Stat { mtime: NodeTime::new(2000, 0), ..stat() }, 0, "its time is in the future")]
    #[case(Stat { size: MIB - 1, allocated: 0, ..stat() }, 0, "too small to matter")]
    #[case(Stat { mode: 0o060_644, allocated: 0, ..stat() }, 0, "a device")]
    fn holes_are_believed_only_where_size_blocks_and_time_agree(
        #[case] stat: Stat,
        #[case] expected: u64,
        #[case] reason: &str,
    ) {
        let now = Timestamp::constant(1000, 0);
        assert_eq!(believed(&stat, now, Duration::from_secs(30)), expected, "{reason}");
    }

    #[test]
    fn no_more_holes_are_skipped_than_the_blocks_leave_room_for() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100 * MIB).unwrap();
        let stat = Stat::of(&file).unwrap();
        assert_eq!(Holes::of(&file, &stat, Duration::from_secs(30)).at(&file, 0), None, "just written");
        // As if the file system said that all of it but 10 MiB is allocated, and that all of it is a hole.
        let lying = Stat { allocated: 90 * MIB, ..stat };
        let mut holes = Holes::of(&file, &lying, Duration::ZERO);
        assert_eq!(holes.at(&file, 0), Some(20));
        holes.skipped(10 * MIB);
        assert_eq!(holes.at(&file, 10 * MIB), None);
    }
}
