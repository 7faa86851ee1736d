//! Creates a directory as soon as an entry in it is restored.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, readlinkat, unlinkat};
use rustix::io::{Errno, Result as SystemResult};

use super::Restorer;
use crate::error::Result;
use crate::node::NodeKind;
use crate::restore::directory::DirRef;
use crate::restore::metadata::chmod_entry;
use crate::restore::plan::{self, Existing, Step};
use crate::source::stat::Stat;

impl Restorer {
    /// Makes sure that a directory and all its parents exist. If that is impossible, returns false and reports a
    /// problem.
    pub(super) fn make(&mut self, directory: &DirRef) -> Result<bool> {
        if directory.presence().is_some() {
            return Ok(true);
        }
        let mut missing = vec![directory];
        while let Some(parent) = missing[missing.len() - 1].parent()
            && parent.presence().is_none()
        {
            missing.push(parent);
        }
        for directory in missing.into_iter().rev() {
            self.shared.check_running()?;
            match self.make_one(directory) {
                Ok(()) => {}
                Err(message) => {
                    self.shared.problem(&directory.location(None), message);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn make_one(&self, directory: &DirRef) -> Result<(), String> {
        let options = &self.shared.options;
        let (Some(parent), Some(node)) = (directory.parent(), directory.node()) else {
            // The target itself, in a dry run, if it does not exist.
            return Ok(());
        };
        let Some(presence) = parent.presence() else { return Ok(()) };
        let failed = |error: Errno| format!("cannot create the directory: {}", std::io::Error::from(error));
        let handle = parent.handle().map_err(failed)?;
        let name = node.name.as_slice();
        let (existing, stat) = if presence.fresh {
            (Existing::Missing, Stat::default())
        } else {
            look_at(handle.as_fd(), name).map_err(|error| format!("cannot check its path: {error}"))?
        };
        match plan::decide(node, &existing, options.overwrite, options.delete) {
            Step::Metadata if options.dry_run => {
                directory.is_there(false, &stat);
                Ok(())
            }
            Step::Metadata => self.enter_existing(directory, handle.as_fd(), &stat).map_err(failed),
            Step::Create | Step::Replace(_) if options.dry_run => Ok(()),
            Step::Create => make_new(directory, handle.as_fd()).map_err(failed),
            Step::Replace(_) => unlinkat(&*handle, name, AtFlags::empty())
                .and_then(|()| make_new(directory, handle.as_fd()))
                .map_err(failed),
            Step::Conflict(reason) => Err(format!("{reason}, and nothing may be overwritten")),
            Step::Compare | Step::Skip => Err("it may not be overwritten".to_owned()),
        }
    }

    /// Opens an existing directory; a user other than root needs all permissions in it, until it gets its final mode.
    fn enter_existing(&self, directory: &DirRef, parent: BorrowedFd<'_>, stat: &Stat) -> SystemResult<()> {
        let name = directory.node().map(|node| node.name.as_slice()).unwrap_or_default();
        if !self.shared.is_root && stat.mode & 0o700 != 0o700 {
            chmod_entry(parent, name, stat.mode & 0o7777 | 0o700)?;
        }
        open(directory, parent, name, false)
    }
}

fn make_new(directory: &DirRef, parent: BorrowedFd<'_>) -> SystemResult<()> {
    let name = directory.node().map(|node| node.name.as_slice()).unwrap_or_default();
    mkdirat(parent, name, Mode::RWXU)?;
    open(directory, parent, name, true)
}

fn open(directory: &DirRef, parent: BorrowedFd<'_>, name: &[u8], fresh: bool) -> SystemResult<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = Arc::new(openat(parent, name, flags, Mode::empty())?);
    let stat = Stat::of(&*handle).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    directory.is_there(fresh, &stat);
    directory.keep(&handle);
    Ok(())
}

/// What exists at a path, in the plan's types.
pub fn look_at(directory: BorrowedFd<'_>, name: &[u8]) -> std::io::Result<(Existing, Stat)> {
    let stat = match Stat::at(directory, name) {
        Ok(stat) => stat,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((Existing::Missing, Stat::default()));
        }
        Err(error) => return Err(error),
    };
    let kind = stat.kind();
    let link_target = match kind {
        NodeKind::Symlink => readlinkat(directory, name, Vec::new())?.into_bytes(),
        _ => Vec::new(),
    };
    let existing = Existing::Present {
        kind,
        size: stat.size,
        mtime: stat.mtime,
        links: stat.links,
        link_target,
        device: stat.device,
    };
    Ok((existing, stat))
}
