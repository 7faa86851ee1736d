//! The target directory of a restore. Everything below it is opened here: the kernel resolves names beneath the
//! target and through no symbolic link (openat2), or, where that is not available, each component is opened
//! separately.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result as SystemResult};

use crate::error::{Error, Result};

/// The longest path, as in the kernel: this also bounds the depth.
pub const LONGEST_PATH: usize = 4095;

/// With RESOLVE_BENEATH, the kernel may fail when something is renamed meanwhile, and must be called again.
const ATTEMPTS: usize = 16;

const SAFE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// The opened target.
#[derive(Debug)]
pub struct Target {
    /// None in a dry run if the directory does not exist.
    root: Option<OwnedFd>,
    /// Whether the kernel has openat2, and permits it.
    beneath: bool,
}

impl Target {
    /// Opens the directory; creates it and its parents unless it is a dry run. The path comes from the user, so
    /// symbolic links in it are followed.
    pub fn open(path: &Path, dry_run: bool) -> Result<Self> {
        if !dry_run {
            make_all(path).map_err(Error::file("create the target directory", path))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(root) => Some(root),
            Err(Errno::NOENT) if dry_run => None,
            Err(error) => return Err(Error::file("open the target directory", path)(error.into())),
        };
        let beneath = root.as_ref().is_some_and(|root| {
            openat2(root, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), SAFE).is_ok()
        });
        Ok(Self { root, beneath })
    }

    pub fn root(&self) -> Option<BorrowedFd<'_>> {
        self.root.as_ref().map(AsFd::as_fd)
    }

    /// Opens a path below the target (empty for the target itself), through no symbolic link, not even as the last
    /// component.
    pub fn open_below(&self, path: &[u8], flags: OFlags) -> SystemResult<OwnedFd> {
        let root = self.root.as_ref().ok_or(Errno::NOENT)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = if path.is_empty() { b".".as_slice() } else { path };
        if self.beneath {
            for _ in 0..ATTEMPTS {
                match openat2(root, path, flags, Mode::empty(), SAFE) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    answer => return answer,
                }
            }
        }
        open_by_component(root.as_fd(), path, flags)
    }
}

/// Opens each directory in the path by its name, which must not be a symbolic link.
fn open_by_component(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> SystemResult<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut components = path.split(|byte| *byte == b'/').peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        if component == b".." {
            return Err(Errno::XDEV);
        }
        let flags = if components.peek().is_some() { step } else { flags };
        let dir = at.as_ref().map_or(root, AsFd::as_fd);
        at = Some(openat(dir, component, flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

/// Like `mkdir -p`, with restic's mode for new directories.
fn make_all(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(beneath: bool) -> (tempfile::TempDir, Target) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("in/a/b")).unwrap();
        std::fs::create_dir_all(directory.path().join("out/c")).unwrap();
        std::os::unix::fs::symlink("../out", directory.path().join("in/link")).unwrap();
        std::os::unix::fs::symlink("a", directory.path().join("in/inner")).unwrap();
        let mut target = Target::open(&directory.path().join("in"), false).unwrap();
        target.beneath &= beneath;
        (directory, target)
    }

    #[rstest::rstest]
    fn links_and_parents_are_never_followed(#[values(true, false)] beneath: bool) {
        let (_directory, target) = target(beneath);
        let open = |path: &str| target.open_below(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY);
        for path in ["", "a", "a/b"] {
            assert!(open(path).is_ok(), "{path}");
        }
        for path in ["link", "link/c", "inner", "inner/b", "..", "a/../../out", "../out", "missing"] {
            assert!(open(path).is_err(), "{path}");
        }
    }
}
