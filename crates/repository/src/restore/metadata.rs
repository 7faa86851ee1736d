//! Sets owner, extended attributes (with ACLs), mode and times of restored entries, in an order that preserves them:
//! changing the owner clears set-uid and capabilities, an ACL changes the mode, and everything changes times.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown,
    flistxattr, fremovexattr, fsetxattr, futimens, llistxattr, lremovexattr, lsetxattr, openat, utimensat,
};
use rustix::io::{Errno, Result as SystemResult};

use super::shared::Shared;
use crate::node::{Node, NodeKind, NodeTime};
use crate::source::stat::Stat;

/// The longest list of names in Linux.
const LONGEST_LIST: usize = 64 * 1024;
const USUAL_LIST: usize = 1024;

/// The object whose metadata is set.
pub enum MetadataTarget<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// An entry of a directory; a symbolic link is never followed.
    Entry { directory: BorrowedFd<'a>, name: &'a [u8] },
}

/// The operations that failed, with their errors.
#[derive(Debug, Default)]
pub(super) struct Failure(Vec<String>);

impl Failure {
    pub(super) fn new(action: &str, error: impl Into<io::Error>) -> Self {
        Self(vec![format!("cannot {action}: {}", error.into())])
    }

    fn note(&mut self, action: &str, result: SystemResult<()>) {
        if let Err(error) = result {
            self.0.extend(Self::new(action, error).0);
        }
    }

    fn note_xattr(&mut self, action: &str, name: &[u8], result: SystemResult<()>) {
        // A file system without attributes is not a failure (as in restic).
        if !matches!(result, Err(Errno::NOTSUP | Errno::NODATA)) {
            self.note(&format!("{action} extended attribute '{}'", name.escape_ascii()), result);
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// Sets the metadata of `node` on `target`, whose current state is `stat`. Tries everything and reports all failures.
/// Only root may change owners: for other users that is not a failure; the entry is counted by its `path`.
pub(super) fn apply(
    shared: &Shared,
    target: &MetadataTarget<'_>,
    node: &Node,
    stat: &Stat,
    times: bool,
    path: impl FnOnce() -> Vec<u8>,
) -> Result<(), Failure> {
    let mut failure = Failure::default();
    let (uid, gid) = owner(shared, node);
    let given_away = (uid, gid) != (stat.uid, stat.gid);
    if given_away {
        match target.chown(uid, gid) {
            Err(Errno::PERM | Errno::ACCESS) if !shared.is_root => shared.kept_owner(path),
            result => failure.note("set the owner", result),
        }
    }
    set_xattrs(shared, target, node, &mut failure);
    let mode = node.mode.permissions();
    let changed = given_away || !node.xattrs.is_empty() || stat.mode & 0o7777 != mode;
    if node.kind != NodeKind::Symlink && changed {
        failure.note("set the mode", target.chmod(mode));
    }
    if times && (given_away || changed || stat.mtime != node.mtime || stat.atime != node.atime) {
        failure.note("set the times", target.set_times(node));
    }
    if failure.0.is_empty() { Ok(()) } else { Err(failure) }
}

fn owner(shared: &Shared, node: &Node) -> (u32, u32) {
    if !shared.options.ownership_by_name {
        return (node.uid, node.gid);
    }
    let uid = shared.accounts.user_id(&node.user).unwrap_or(node.uid);
    let gid = shared.accounts.group_id(&node.group).unwrap_or(node.gid);
    (uid, gid)
}

/// An attribute that cannot be set does not prevent the others.
fn set_xattrs(shared: &Shared, target: &MetadataTarget<'_>, node: &Node, failure: &mut Failure) {
    let present = match target.list_xattrs() {
        Ok(names) => names,
        Err(Errno::NOTSUP | Errno::NODATA) => Vec::new(),
        Err(error) => {
            failure.note("list extended attributes", Err(error));
            Vec::new()
        }
    };
    for xattr in node.xattrs.iter().filter(|xattr| shared.selects_xattr(&xattr.name)) {
        failure.note_xattr("set", xattr.name.as_bytes(), target.set_xattr(&xattr.name, &xattr.value));
    }
    for name in present.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let wanted = node.xattrs.iter().any(|xattr| xattr.name.as_bytes() == name);
        // Set by the system: a label cannot be removed, only changed, and only root can remove the others.
        let given = name == b"security.selinux" || (!shared.is_root && name.starts_with(b"security."));
        if !wanted && !given && shared.selects_xattr(&String::from_utf8_lossy(name)) {
            failure.note_xattr("remove", name, target.remove_xattr(name));
        }
    }
}

impl MetadataTarget<'_> {
    pub fn chown(&self, uid: u32, gid: u32) -> SystemResult<()> {
        // To the kernel, the largest number means "do not change"; rustix does not allow it.
        let (user, group) =
            ((uid != u32::MAX).then(|| Uid::from_raw(uid)), (gid != u32::MAX).then(|| Gid::from_raw(gid)));
        match self {
            Self::Open(handle) => fchown(handle, user, group),
            Self::Entry { directory, name } => {
                chownat(directory, *name, user, group, AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }

    pub fn chmod(&self, mode: u32) -> SystemResult<()> {
        match self {
            Self::Open(handle) => fchmod(handle, Mode::from_raw_mode(mode)),
            Self::Entry { directory, name } => chmod_entry(*directory, name, mode),
        }
    }

    pub fn set_times(&self, node: &Node) -> SystemResult<()> {
        let times = Timestamps { last_access: timespec(node.atime), last_modification: timespec(node.mtime) };
        match self {
            Self::Open(handle) => futimens(handle, &times),
            Self::Entry { directory, name } => utimensat(directory, *name, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    fn list_xattrs(&self) -> SystemResult<Vec<u8>> {
        let list = |buffer: &mut [u8]| match self {
            Self::Open(handle) => flistxattr(handle, buffer),
            Self::Entry { directory, name } => llistxattr(entry_path(*directory, name), buffer),
        };
        let mut usual = [0; USUAL_LIST];
        match list(&mut usual) {
            Ok(length) => Ok(usual[..length.min(USUAL_LIST)].to_vec()),
            Err(Errno::RANGE) => {
                let mut longest = vec![0; LONGEST_LIST];
                let length = list(&mut longest)?;
                longest.truncate(length);
                Ok(longest)
            }
            Err(error) => Err(error),
        }
    }

    fn set_xattr(&self, name: &str, value: &[u8]) -> SystemResult<()> {
        match self {
            Self::Open(handle) => fsetxattr(handle, name, value, XattrFlags::empty()),
            Self::Entry { directory, name: entry } => {
                lsetxattr(entry_path(*directory, entry), name, value, XattrFlags::empty())
            }
        }
    }

    fn remove_xattr(&self, name: &[u8]) -> SystemResult<()> {
        match self {
            Self::Open(handle) => fremovexattr(handle, name),
            Self::Entry { directory, name: entry } => lremovexattr(entry_path(*directory, entry), name),
        }
    }
}

/// There are no system calls for attributes by handle and name, so the path of the directory's handle is used, which
/// cannot lead elsewhere.
fn entry_path(directory: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

/// Changes the mode of an entry that must not be followed. The system call for this is too new, so the entry is
/// opened without any permission and changed through the path of that handle.
pub fn chmod_entry(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> SystemResult<()> {
    let handle = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = Stat::of(&handle).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if stat.kind() == NodeKind::Symlink {
        return Err(Errno::LOOP);
    }
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    chmodat(CWD, path.as_str(), Mode::from_raw_mode(mode), AtFlags::empty())
}

fn timespec(time: NodeTime) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.min(999_999_999).into() }
}

#[cfg(test)]
mod tests;
