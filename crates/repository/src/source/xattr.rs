//! Extended attributes, with ACLs and security labels, of files, directories, links and devices. By a handle if the
//! file is open, otherwise by its name below the directory's handle, never through a symbolic link.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{fgetxattr, flistxattr, lgetxattr, llistxattr};
use rustix::io::Errno;

use super::metadata::Problem;
use crate::node::Xattr;

/// The longest list of names and the longest value in Linux.
const LONGEST: usize = 64 * 1024;
/// Enough for most lists and values, without an allocation.
const USUAL: usize = 1024;

/// The object whose attributes are read.
pub(super) enum Owner<'a> {
    Open(BorrowedFd<'a>),
    /// An entry of a directory. There is no system call for a handle and a name, so the path goes through `/proc`.
    Entry(Vec<u8>),
}

impl<'a> Owner<'a> {
    pub(super) fn entry(dir: BorrowedFd<'_>, name: &[u8]) -> Self {
        let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        Owner::Entry(path)
    }

    pub(super) fn open(file: BorrowedFd<'a>) -> Self {
        Owner::Open(file)
    }

    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Owner::Open(file) => flistxattr(file, buffer),
            Owner::Entry(path) => llistxattr(path.as_slice(), buffer),
        }
    }

    fn get(&self, name: &[u8], buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Owner::Open(file) => fgetxattr(file, name, buffer),
            Owner::Entry(path) => lgetxattr(path.as_slice(), name, buffer),
        }
    }
}

/// All attributes in the order of the file system. An attribute that cannot be read becomes a problem and is left
/// out; a file system without attributes is not a problem.
pub(super) fn read(owner: &Owner<'_>, problems: &mut Vec<Problem>) -> Vec<Xattr> {
    let names = match with_buffer(|buffer| owner.list(buffer)) {
        Ok(names) => names,
        Err(Errno::NOTSUP | Errno::NODATA) => return Vec::new(),
        Err(error) => {
            problems.push(Problem::Attributes(error.into()));
            return Vec::new();
        }
    };
    let mut xattrs = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let text = String::from_utf8_lossy(name).into_owned();
        match with_buffer(|buffer| owner.get(name, buffer)) {
            Ok(value) => xattrs.push(Xattr { name: text, value }),
            // Removed after it was listed, or listed by a file system that does not support it.
            Err(Errno::NOTSUP | Errno::NODATA) => {}
            Err(error) => problems.push(Problem::Attribute { name: text, error: io::Error::from(error) }),
        }
    }
    xattrs
}

/// Calls with a small buffer first, then with one that is always large enough.
fn with_buffer(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut usual = [0; USUAL];
    match call(&mut usual) {
        Ok(length) => Ok(usual[..length.min(USUAL)].to_vec()),
        Err(Errno::RANGE) => {
            let mut longest = vec![0; LONGEST];
            let length = call(&mut longest)?;
            longest.truncate(length);
            longest.shrink_to_fit();
            Ok(longest)
        }
        Err(error) => Err(error),
    }
}
