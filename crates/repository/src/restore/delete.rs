//! Removes entries that obstruct others or are not in the snapshot: through handles, never through a symbolic link,
//! and never in another file system that is mounted below.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, Result as SystemResult};

use super::directory::DirRef;
use super::metadata::chmod_entry;
use super::outcome::{Action, add};
use super::plan::Removal;
use super::shared::Shared;
use super::walk::TreeNames;
use crate::error::Result;
use crate::source::directory::DirectoryHandle;
use crate::source::stat::Stat;

/// The name of a directory that was moved out of the way; a number follows.
const ASIDE: &str = ".lifeboat-aside-";
/// The most such directories in one directory.
const MOST_ASIDE: usize = 10_000;

/// Removes an entry that obstructs one of another kind.
pub(super) fn make_way(
    shared: &Shared,
    directory: BorrowedFd<'_>,
    name: &[u8],
    removal: Removal,
) -> SystemResult<()> {
    match removal {
        Removal::Unlink => unlinkat(directory, name, AtFlags::empty()),
        Removal::EmptyDirectory => match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if shared.options.delete_last => move_aside(directory, name),
            removed => removed,
        },
        Removal::Tree => remove_tree(shared, directory, name, b"", &mut |_, _| {}),
    }
}

/// Why an obstructing entry is still there, and what to do about it.
pub(super) fn obstacle(error: Errno) -> String {
    if matches!(error, Errno::NOTEMPTY | Errno::EXIST) {
        return "a directory that is not empty is in its place, and a restore does not remove its content: move the directory away, then \
                restore again"
            .to_owned();
    }
    format!("cannot remove what exists at its path: {}", std::io::Error::from(error))
}

/// Renames a directory that is in the way. It has no place in the snapshot, so that it is removed at the end, if everything else succeeds.
fn move_aside(directory: BorrowedFd<'_>, name: &[u8]) -> SystemResult<()> {
    for number in 0..MOST_ASIDE {
        let aside = format!("{ASIDE}{number}");
        match statat(directory, aside.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            // A directory never takes the place of anything but an empty directory.
            Err(Errno::NOENT) => return renameat(directory, name, directory, aside.as_str()),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

/// Removes (or in a dry run, reports) the selected entries of a directory that the snapshot does not have.
pub(super) fn remove_others(directory: &DirRef, names: &TreeNames<'_>) -> Result<()> {
    if let Some((handle, others)) = others(directory, names)? {
        remove_all(directory, handle.as_fd(), others);
    }
    Ok(())
}

/// An open directory and names in it.
pub(super) type Others = (Arc<OwnedFd>, Vec<Vec<u8>>);

/// The selected entries of a directory that the snapshot does not have; None if it cannot be read, which is reported.
pub(super) fn others(directory: &DirRef, names: &TreeNames<'_>) -> Result<Option<Others>> {
    let shared = directory.shared();
    let entries = directory.handle().map_err(std::io::Error::from);
    let entries = entries.and_then(|handle| Ok((DirectoryHandle::of(&*handle)?.names()?, handle)));
    let (entries, handle) = match entries {
        Ok(found) => found,
        Err(error) => {
            let message = format!("cannot list the entries to delete: {error}");
            shared.problem(&directory.location(None), message);
            return Ok(None);
        }
    };
    let mut is_known = vec![false; entries.remaining()];
    let read = names.for_each(&mut |name| {
        if let Some(known) = entries.position(name).and_then(|at| is_known.get_mut(at)) {
            *known = true;
        }
    });
    match read {
        Ok(()) => {}
        Err(error) if Shared::is_local(&error) => {
            shared.problem(&directory.location(None), error);
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let others = entries.zip(is_known).filter(|(_, is_known)| !is_known).map(|(name, _)| name);
    let others = others.filter(|name| shared.select(&directory.location(Some(name)), false).include);
    Ok(Some((handle, others.collect())))
}

/// Removes entries of a directory, with everything below them.
pub(super) fn remove_all(directory: &DirRef, handle: BorrowedFd<'_>, entries: Vec<Vec<u8>>) {
    let shared = directory.shared();
    for name in entries {
        let path = directory.location(Some(&name));
        if shared.cancel.is_cancelled() {
            return;
        }
        let mut report = |path: &[u8], is_directory: bool| {
            add(&shared.counts.files_deleted, 1);
            shared.notify(Action::Deleted, path, is_directory, 0);
        };
        if let Err(error) = remove_tree(shared, handle, &name, &path, &mut report) {
            shared.problem(&path, format!("cannot delete it: {}", std::io::Error::from(error)));
        }
    }
}

/// A directory that is being emptied.
struct Level {
    handle: OwnedFd,
    entries: Vec<Vec<u8>>,
    name: Vec<u8>,
    path: Vec<u8>,
}

/// Removes an entry with everything below it; a loop, so that depth needs no stack. In a dry run it only reports.
fn remove_tree(
    shared: &Shared,
    directory: BorrowedFd<'_>,
    name: &[u8],
    path: &[u8],
    report: &mut dyn FnMut(&[u8], bool),
) -> SystemResult<()> {
    let dry_run = shared.options.dry_run;
    let device = device_of(directory)?;
    let mut levels: Vec<Level> = Vec::new();
    let mut next = Some((name.to_vec(), path.to_vec()));
    loop {
        if shared.cancel.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        let parent = levels.last().map_or(directory, |level| level.handle.as_fd());
        if let Some((name, path)) = next.take() {
            if let Some(level) = open_level(shared, parent, &name, &path, device)? {
                levels.push(level);
            } else {
                if !dry_run {
                    unlinkat(parent, name.as_slice(), AtFlags::empty())?;
                }
                report(&path, false);
            }
        } else if let Some(level) = levels.pop() {
            let parent = levels.last().map_or(directory, |level| level.handle.as_fd());
            if !dry_run {
                unlinkat(parent, level.name.as_slice(), AtFlags::REMOVEDIR)?;
            }
            report(&level.path, true);
        }
        let Some(level) = levels.last_mut() else { return Ok(()) };
        next = level.entries.pop().map(|name| {
            let path = [level.path.as_slice(), b"/", name.as_slice()].concat();
            (name, path)
        });
    }
}

/// Opens an entry if it is a directory.
fn open_level(
    shared: &Shared,
    parent: BorrowedFd<'_>,
    name: &[u8],
    path: &[u8],
    device: u64,
) -> SystemResult<Option<Level>> {
    let stat = Stat::at(parent, name).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if !stat.is_directory() {
        return Ok(None);
    }
    if stat.device_id != device {
        return Err(Errno::XDEV);
    }
    // A user other than root empties a directory only with all permissions in it, which its owner may give.
    if !shared.is_root && !shared.options.dry_run && stat.mode & 0o700 != 0o700 {
        let _ = chmod_entry(parent, name, stat.mode & 0o7777 | 0o700);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(parent, name, flags, Mode::empty())?;
    if device_of(handle.as_fd())? != device {
        return Err(Errno::XDEV);
    }
    let entries = names_of(handle.as_fd())?;
    Ok(Some(Level { handle, entries, name: name.to_vec(), path: path.to_vec() }))
}

fn device_of(handle: BorrowedFd<'_>) -> SystemResult<u64> {
    let stat = Stat::of(handle).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(stat.device_id)
}

fn names_of(directory: BorrowedFd<'_>) -> SystemResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}
