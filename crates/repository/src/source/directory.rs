//! Directories and files by handles. A child is opened below its parent's handle and never through a symbolic link,
//! so that what is read is what was listed, whatever happens to the names above it meanwhile.
//!
//! A tree may be deeper than the number of files that a process may have open. So only the deepest directories of a
//! path and every 64th above them stay open; the others are closed and, when they are needed again, reopened below
//! the nearest open one and checked to be the same.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom, openat, seek};
use rustix::io::Errno;

use super::stat::Stat;
use crate::error::{Error, Result};

/// How many directories at the end of a path are always open.
const OPEN_AT_END: usize = 32;
/// Of the directories above them, one in this many is open.
const OPEN_ONE_IN: usize = 64;
/// A tree is a blob, whose length has 32 bits.
const LARGEST_TREE: u64 = u32::MAX as u64;
/// An entry of a tree has at least this many bytes beside its name.
const SHORTEST_ENTRY: u64 = 190;
/// For reading names: one system call returns about a thousand.
const NAMES_BUFFER: usize = 32 * 1024;

/// An open directory; cheap to share between threads.
#[derive(Debug)]
pub struct DirectoryHandle {
    parent: Option<Arc<DirectoryHandle>>,
    /// The name in the parent; without a parent, the path by which it was opened.
    name: Vec<u8>,
    depth: usize,
    device_id: u64,
    inode: u64,
    open: Mutex<Option<Arc<OwnedFd>>>,
}

impl DirectoryHandle {
    /// The directory at a path, following symbolic links: for a path from the user.
    pub fn open(path: &[u8]) -> io::Result<Arc<Self>> {
        let file = open_quietly(CWD, path, OFlags::DIRECTORY)?;
        Self::new(None, path, file)
    }

    /// A directory that is already open, wherever its path leads now.
    pub fn of(directory: impl AsFd) -> io::Result<Arc<Self>> {
        let file = open_quietly(directory, b".", OFlags::DIRECTORY)?;
        Self::new(None, b"/", file)
    }

    /// A directory in this one; a symbolic link is refused.
    pub fn open_child(self: &Arc<Self>, name: &[u8]) -> io::Result<Arc<Self>> {
        let file = open_quietly(self.file()?, name, OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
        let child = Self::new(Some(Arc::clone(self)), name, file)?;
        child.close_one_above();
        Ok(child)
    }

    /// A regular file in this directory, and its metadata when it was opened. A link, pipe or device is refused, even
    /// one that was created after the directory was listed.
    pub fn open_file(&self, name: &[u8]) -> io::Result<(File, Stat)> {
        // Without waiting for the other end of a pipe.
        let file = open_quietly(self.file()?, name, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
        let stat = Stat::of(&file)?;
        if !stat.is_file() {
            return Err(io::Error::other("it is no longer a regular file"));
        }
        Ok((File::from(file), stat))
    }

    /// The metadata of an entry; of the symbolic link itself if it is one.
    pub fn stat(&self, name: &[u8]) -> io::Result<Stat> {
        Stat::at(self.file()?.as_fd(), name)
    }

    /// The names of all entries, sorted by their bytes, each once.
    pub fn names(&self) -> io::Result<Names> {
        let file = self.file()?;
        seek(&file, SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(NAMES_BUFFER);
        let mut entries = RawDir::new(&file, buffer.spare_capacity_mut());
        let mut names = Names::default();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name())?;
            }
        }
        names.sort();
        if names.is_too_large() {
            let message = format!(
                "it has {} entries, whose tree would be larger than 4 GiB, which the format cannot store: exclude a part of \
                 them, or move them into several directories",
                names.starts.len()
            );
            return Err(io::Error::other(message));
        }
        Ok(names)
    }

    /// The handle, reopened if it had to be closed.
    pub fn file(&self) -> io::Result<Arc<OwnedFd>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*open {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.reopen()?);
        *open = Some(Arc::clone(&file));
        Ok(file)
    }

    /// The path for display: that of the topmost handle and the names from there.
    pub fn path(&self) -> Vec<u8> {
        let names: Vec<_> = self.upwards().map(|directory| directory.name.as_slice()).collect();
        let path = names.into_iter().rev().collect::<Vec<_>>().join(&b'/');
        super::path::clean(&path)
    }

    /// The device number of its file system.
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    fn new(parent: Option<Arc<Self>>, name: &[u8], file: OwnedFd) -> io::Result<Arc<Self>> {
        let Stat { device_id, inode, .. } = Stat::of(&file)?;
        let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
        let open = Mutex::new(Some(Arc::new(file)));
        Ok(Arc::new(Self { parent, name: name.to_vec(), depth, device_id, inode, open }))
    }

    /// This directory, then its ancestors.
    fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |directory| directory.parent.as_deref())
    }

    fn close_one_above(&self) {
        let above = self.upwards().nth(OPEN_AT_END);
        if let Some(directory) = above.filter(|directory| directory.depth % OPEN_ONE_IN != 0) {
            *directory.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Collects names up to the nearest open directory, then opens one after the other below it.
    fn reopen(&self) -> io::Result<OwnedFd> {
        let mut names = vec![self.name.as_slice()];
        let mut start = None;
        for directory in self.upwards().skip(1) {
            start.clone_from(&*directory.open.lock().unwrap_or_else(PoisonError::into_inner));
            if start.is_some() {
                break;
            }
            names.push(&directory.name);
        }
        // The topmost is never closed.
        let start = start.ok_or(Errno::BADF)?;
        let mut file = start.try_clone()?;
        for name in names.into_iter().rev() {
            file = open_quietly(&file, name, OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
        }
        let now = Stat::of(&file)?;
        if (now.device_id, now.inode) != (self.device_id, self.inode) {
            return Err(io::Error::other("another directory has taken its place"));
        }
        Ok(file)
    }
}

/// The names in a directory, in one buffer: a list of a million would take twice the memory.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Each name is followed by a NUL byte.
    text: Vec<u8>,
    starts: VecDeque<u32>,
}

impl Names {
    /// A single name.
    pub fn of(name: &CStr) -> io::Result<Self> {
        let mut names = Self::default();
        names.push(name)?;
        Ok(names)
    }

    fn push(&mut self, name: &CStr) -> io::Result<()> {
        let start = u32::try_from(self.text.len());
        self.starts.push_back(start.map_err(|_| io::Error::other("the directory has too many entries"))?);
        self.text.extend_from_slice(name.to_bytes_with_nul());
        Ok(())
    }

    /// The number of names that were not taken yet.
    pub fn remaining(&self) -> usize {
        self.starts.len()
    }

    /// The position of a name among those that were not taken yet.
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        self.starts.binary_search_by(|start| name_at(&self.text, *start).cmp(name)).ok()
    }

    /// Whether no tree can have so many entries.
    fn is_too_large(&self) -> bool {
        let entries = SHORTEST_ENTRY.saturating_mul(self.starts.len() as u64);
        entries.saturating_add(self.text.len() as u64) > LARGEST_TREE
    }

    fn sort(&mut self) {
        let text = &self.text;
        let mut starts = Vec::from(std::mem::take(&mut self.starts));
        starts.sort_unstable_by(|one, other| name_at(text, *one).cmp(name_at(text, *other)));
        starts.dedup_by(|one, other| name_at(text, *one) == name_at(text, *other));
        self.starts = starts.into();
    }
}

fn name_at(text: &[u8], start: u32) -> &[u8] {
    let rest = text.get(start as usize..).unwrap_or_default();
    CStr::from_bytes_until_nul(rest).map_or(rest, CStr::to_bytes)
}

impl Iterator for Names {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let start = self.starts.pop_front()?;
        Some(name_at(&self.text, start).to_vec())
    }
}

/// The names in the directory at a path, for `targets::tree`.
pub fn list(path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let names = DirectoryHandle::open(path).and_then(|directory| directory.names());
    names.map(Iterator::collect).map_err(Error::file("read the directory", super::os_path(path)))
}

impl Drop for DirectoryHandle {
    /// One after the other: dropping deep trees recursively would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(parent) = next {
            next = Arc::into_inner(parent).and_then(|mut parent| parent.parent.take());
        }
    }
}

/// Opens for reading, without changing the access time if that is permitted: for the owner and for root.
fn open_quietly(dir: impl AsFd, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    match openat(&dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => Ok(openat(&dir, name, flags, Mode::empty())?),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn open(path: &Path) -> Arc<DirectoryHandle> {
        DirectoryHandle::open(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn names_are_sorted_by_bytes_as_often_as_they_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "ä", "a", "Z", ".hidden", "a.b"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let handle = open(dir.path());
        let expected: Vec<_> =
            [".hidden", "Z", "a", "a.b", "b", "ä"].iter().map(|name| name.as_bytes().to_vec()).collect();
        assert_eq!(handle.names().unwrap().collect::<Vec<_>>(), expected);
        assert_eq!(handle.names().unwrap().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn names_have_positions_and_too_many_are_recognised() {
        let mut names = Names::default();
        for name in [c"b", c"a", c"cc"] {
            names.push(name).unwrap();
        }
        names.sort();
        assert_eq!(
            [b"a".as_slice(), b"b", b"cc"].map(|name| names.position(name)),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!((names.position(b"c"), names.remaining()), (None, 3));
        assert!(!names.is_too_large());
        names.starts = std::iter::repeat_n(0, 22_700_000).collect();
        assert!(names.is_too_large());
    }

    #[test]
    fn a_directory_of_many_files_is_listed_in_full() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected: Vec<_> = (0..3000).map(|number| format!("file with number {number}")).collect();
        for name in &expected {
            fs::write(dir.path().join(name), "").unwrap();
        }
        expected.sort();
        let names = open(dir.path()).names().unwrap();
        assert!(names.eq(expected.iter().map(|name| name.as_bytes().to_vec())));
    }

    #[test]
    fn links_and_pipes_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("dir")).unwrap();
        fs::write(dir.path().join("file"), "content").unwrap();
        symlink("dir", dir.path().join("to dir")).unwrap();
        symlink("file", dir.path().join("to file")).unwrap();
        rustix::fs::mknodat(CWD, dir.path().join("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let handle = open(dir.path());
        assert!(handle.open_child(b"dir").is_ok());
        for name in ["to dir", "to file", "pipe", "dir"] {
            assert!(handle.open_file(name.as_bytes()).is_err(), "{name}");
        }
        for name in ["to dir", "file", "pipe"] {
            assert!(handle.open_child(name.as_bytes()).is_err(), "{name}");
        }
        let (mut file, stat) = handle.open_file(b"file").unwrap();
        assert_eq!(stat.size, 7);
        assert_eq!(std::io::read_to_string(&mut file).unwrap(), "content");
    }

    /// Creates and opens nested directories.
    fn deep(top: &Path, depth: usize) -> Vec<Arc<DirectoryHandle>> {
        let mut handles = vec![open(top)];
        for _ in 0..depth {
            let last = handles.last().unwrap();
            rustix::fs::mkdirat(last.file().unwrap(), "d", Mode::RWXU).unwrap();
            handles.push(last.open_child(b"d").unwrap());
        }
        handles
    }

    /// `remove_dir_all` of the standard library needs a handle per level.
    fn remove(handles: &[Arc<DirectoryHandle>]) {
        for pair in handles.windows(2).rev() {
            rustix::fs::unlinkat(pair[0].file().unwrap(), "d", rustix::fs::AtFlags::REMOVEDIR).unwrap();
        }
    }

    #[test]
    fn a_thousand_levels_need_few_open_files() {
        let dir = tempfile::tempdir().unwrap();
        let handles = deep(dir.path(), 1000);
        let open = handles.iter().filter(|handle| handle.open.lock().unwrap().is_some()).count();
        assert!(open < 50, "{open}");
        for handle in [&handles[1], &handles[500], &handles[999]] {
            assert_eq!(handle.names().unwrap().collect::<Vec<_>>(), [b"d".to_vec()]);
        }
        assert_eq!(handles[1000].path().len(), dir.path().as_os_str().len() + 2000);
        remove(&handles);
    }

    #[test]
    fn a_directory_that_was_replaced_is_not_taken_for_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let handles = deep(dir.path(), 40);
        let below_first = dir.path().join("d/d");
        fs::rename(&below_first, dir.path().join("moved")).unwrap();
        fs::create_dir(&below_first).unwrap();
        assert!(handles[1].names().is_ok());
        assert!(handles[2].names().unwrap_err().to_string().contains("taken its place"));
        assert!(handles[40].names().is_ok(), "still open");
    }
}
