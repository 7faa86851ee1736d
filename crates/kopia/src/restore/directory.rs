//! A directory that is being restored. Every entry that is not finished refers to it; when the last reference is dropped,
//! the directory gets its owner, mode and times, and drops its reference to its parent. So times are right without a
//! second walk, and only directories with unfinished entries are in memory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use lifeboat_repository::node::Node;
use lifeboat_repository::restore::plan::{self, Existing, Step};
use lifeboat_repository::restore::writing::{MetadataTarget, Stat, chmod_entry, look_at};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::{Errno, Result as SystemResult};

use super::shared::Shared;
use super::{Action, metadata};

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// What is known of a directory once it exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Presence {
    /// This restore has made it, so it was empty.
    pub(super) fresh: bool,
    /// Device and inode: a handle that is opened later must have the same.
    identity: (u64, u64),
}

/// A directory of the target.
pub(super) struct Directory {
    shared: Arc<Shared>,
    number: u64,
    parent: Option<Arc<Directory>>,
    /// None for the target itself.
    node: Option<Node>,
    presence: OnceLock<Presence>,
    /// Something in it was restored, so its metadata is set.
    touched: AtomicBool,
}

impl Directory {
    /// The target itself.
    pub(super) fn root(shared: &Arc<Shared>) -> SystemResult<Arc<Self>> {
        let root = Self::new(shared, None, None);
        if let Some(handle) = shared.target.root() {
            root.is_there(false, handle)?;
        }
        Ok(Arc::new(root))
    }

    /// An entry of a directory; nothing is created yet.
    pub(super) fn child(self: &Arc<Self>, node: Node) -> Arc<Self> {
        Arc::new(Self::new(&self.shared, Some(Arc::clone(self)), Some(node)))
    }

    fn new(shared: &Arc<Shared>, parent: Option<Arc<Self>>, node: Option<Node>) -> Self {
        Self {
            shared: Arc::clone(shared),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            parent,
            node,
            presence: OnceLock::new(),
            touched: AtomicBool::new(false),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn presence(&self) -> Option<Presence> {
        self.presence.get().copied()
    }

    fn is_there(&self, fresh: bool, handle: impl AsFd) -> SystemResult<()> {
        let _ = self.presence.set(Presence { fresh, identity: identity(handle)? });
        Ok(())
    }

    /// Its path below the target, without a leading slash.
    pub(super) fn path(&self) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = Some(self);
        while let Some(directory) = at {
            names.extend(directory.node.as_ref().map(|node| node.name.as_slice()));
            at = directory.parent.as_deref();
        }
        names.reverse();
        names.join(&b'/')
    }

    /// The path in the snapshot, such as `/etc/hosts`: of this directory, or of an entry.
    pub(super) fn location(&self, entry: Option<&[u8]>) -> Vec<u8> {
        let mut path = vec![b'/'];
        path.extend(self.path());
        if let Some(entry) = entry {
            if path.len() > 1 {
                path.push(b'/');
            }
            path.extend_from_slice(entry);
        }
        path
    }

    /// Its handle, opened again if it was closed. A replacement of the directory is not accepted.
    pub(super) fn handle(&self) -> SystemResult<Arc<OwnedFd>> {
        if let Some(handle) = self.shared.open_directory(self.number) {
            return Ok(handle);
        }
        let handle = self.shared.target.open_below(&self.path(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        if self
            .presence
            .get()
            .is_some_and(|known| identity(&handle).is_ok_and(|found| found != known.identity))
        {
            return Err(Errno::STALE);
        }
        let handle = Arc::new(handle);
        self.shared.keep_directory(self.number, Arc::clone(&handle));
        Ok(handle)
    }

    /// Makes sure that it and its parents exist. If that is impossible, reports a problem and returns false.
    pub(super) fn make(self: &Arc<Self>) -> bool {
        let mut missing = Vec::new();
        let mut at = Some(self);
        while let Some(directory) = at.filter(|directory| !directory.touched.swap(true, Ordering::Relaxed)) {
            missing.push(directory);
            at = directory.parent.as_ref();
        }
        for directory in missing.into_iter().rev().filter(|directory| directory.node.is_some()) {
            self.shared.found(0);
            if let Err(message) = directory.make_one() {
                self.shared.problem(&directory.location(None), message);
            }
        }
        // In a dry run, what is missing stays so.
        self.shared.options.dry_run || self.presence.get().is_some()
    }

    fn make_one(&self) -> Result<(), String> {
        let options = &self.shared.options;
        let (Some(parent), Some(node)) = (&self.parent, &self.node) else { return Ok(()) };
        let Some(presence) = parent.presence() else {
            return if options.dry_run {
                Ok(())
            } else {
                Err("its directory could not be created".to_owned())
            };
        };
        let failed = |error: Errno| format!("cannot create the directory: {}", std::io::Error::from(error));
        let handle = parent.handle().map_err(failed)?;
        let name = node.name.as_slice();
        let (existing, stat) = if presence.fresh {
            (Existing::Missing, Stat::default())
        } else {
            look_at(handle.as_fd(), name).map_err(|error| format!("cannot check its path: {error}"))?
        };
        let step = plan::decide(node, &existing, options.overwrite, false);
        match step {
            Step::Metadata => {
                if !options.dry_run && !self.shared.is_root && stat.mode & 0o700 != 0o700 {
                    chmod_entry(handle.as_fd(), name, stat.mode & 0o7777 | 0o700).map_err(failed)?;
                }
                self.open(&handle, false).map_err(failed)
            }
            Step::Create | Step::Replace(_) if options.dry_run => Ok(()),
            Step::Create | Step::Replace(_) => {
                if step != Step::Create {
                    unlinkat(&*handle, name, AtFlags::empty()).map_err(failed)?;
                }
                mkdirat(&*handle, name, Mode::RWXU).map_err(failed)?;
                self.open(&handle, true).map_err(failed)
            }
            Step::Conflict(reason) => Err(format!("{reason}, and nothing may be overwritten")),
            Step::Compare | Step::Skip => Err("it may not be overwritten".to_owned()),
        }
    }

    fn open(&self, parent: &OwnedFd, fresh: bool) -> SystemResult<()> {
        let name = self.node.as_ref().map(|node| node.name.as_slice()).unwrap_or_default();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = Arc::new(openat(parent, name, flags, Mode::empty())?);
        self.is_there(fresh, &*handle)?;
        self.shared.keep_directory(self.number, handle);
        Ok(())
    }

    fn finish(&self, node: &Node) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot reopen the directory: {error}");
        let handle = self.handle().map_err(|error| failed(error.into()))?;
        let stat = Stat::of(&*handle).map_err(failed)?;
        let target = MetadataTarget::Open(handle.as_fd());
        metadata::apply(&self.shared, &target, node, &stat, || self.location(None))
            .map_err(|failures| failures.to_string())
    }
}

impl Drop for Directory {
    /// Everything in it is done. A chain of parents is dropped one inside of the other: a path has at most two thousand
    /// components.
    fn drop(&mut self) {
        let Some(node) = self.node.take() else { return };
        let wanted = self.touched.load(Ordering::Relaxed) && !self.shared.cancel.is_cancelled();
        let dry_run = self.shared.options.dry_run;
        if wanted && (dry_run || self.presence.get().is_some()) {
            // The name is part of the path.
            self.node = Some(node.clone());
            let finished = if dry_run { Ok(()) } else { self.finish(&node) };
            match finished {
                Ok(()) => {
                    self.shared.restored();
                    self.shared.notify(Action::Restored, &self.location(None), true, 0);
                }
                Err(message) => self.shared.problem(&self.location(None), message),
            }
        }
        self.shared.take_directory(self.number);
    }
}

fn identity(handle: impl AsFd) -> SystemResult<(u64, u64)> {
    let stat = Stat::of(handle).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((stat.device_id, stat.inode))
}
