//! A directory that is being restored. Every entry that is not finished holds a `DirRef`; when the last one is
//! dropped, the directory gets its owner, mode and times, and drops the reference to its parent. That way times are
//! correct without a second walk, and only directories with unfinished entries are in memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::OFlags;
use rustix::io::{Errno, Result as SystemResult};

use super::metadata::{self, Failure, MetadataTarget};
use super::outcome::Action;
use super::shared::Shared;
use crate::node::Node;
use crate::source::stat::Stat;

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// A directory of the target.
pub(super) struct Directory {
    shared: Arc<Shared>,
    number: u64,
    parent: Option<DirRef>,
    /// None for the target itself.
    node: Option<Box<Node>>,
    path_length: usize,
    /// Set once the directory exists.
    presence: OnceLock<Presence>,
    /// Something below it was restored, so its metadata is set.
    touched: AtomicBool,
}

/// Properties of an existing directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Presence {
    /// This restore has created it, so it was empty.
    pub(super) fresh: bool,
    /// Device and inode: a handle that is opened later must have the same.
    identity: (u64, u64),
}

/// A reference that finishes the directory when the last one is dropped.
pub(super) struct DirRef(Option<Arc<Directory>>);

impl DirRef {
    /// The target itself.
    pub(super) fn root(shared: &Arc<Shared>) -> SystemResult<Self> {
        let directory = Directory {
            shared: Arc::clone(shared),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            parent: None,
            node: None,
            path_length: 0,
            presence: OnceLock::new(),
            touched: AtomicBool::new(false),
        };
        if let Some(root) = shared.target.root() {
            let _ = directory.presence.set(Presence { fresh: false, identity: identity(&stat_of(root)?) });
        }
        Ok(Self(Some(Arc::new(directory))))
    }

    /// An entry of this directory; nothing is created yet.
    pub(super) fn child(&self, node: Node) -> Self {
        let directory = Directory {
            shared: Arc::clone(&self.shared),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            parent: Some(self.clone()),
            path_length: self.path_length + 1 + node.name.len(),
            node: Some(Box::new(node)),
            presence: OnceLock::new(),
            touched: AtomicBool::new(false),
        };
        Self(Some(Arc::new(directory)))
    }
}

impl Clone for DirRef {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl std::ops::Deref for DirRef {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        self.0.as_ref().expect("a reference is taken out by drop only")
    }
}

impl Drop for DirRef {
    /// A loop, not a recursion: a path may have two thousand components.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut directory) = next.and_then(Arc::into_inner) {
            directory.finish();
            next = directory.parent.as_mut().and_then(|parent| parent.0.take());
        }
    }
}

impl Directory {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn parent(&self) -> Option<&DirRef> {
        self.parent.as_ref()
    }

    pub(super) fn node(&self) -> Option<&Node> {
        self.node.as_deref()
    }

    /// The length of its path below the target, in bytes.
    pub(super) fn path_length(&self) -> usize {
        self.path_length
    }

    pub(super) fn presence(&self) -> Option<Presence> {
        self.presence.get().copied()
    }

    /// Records that it exists.
    pub(super) fn is_there(&self, fresh: bool, stat: &Stat) {
        let _ = self.presence.set(Presence { fresh, identity: identity(stat) });
    }

    /// Records that it or something below it was restored.
    pub(super) fn touch(&self) {
        let mut at = Some(self);
        while let Some(directory) = at {
            if directory.touched.swap(true, Ordering::Relaxed) {
                return;
            }
            if directory.node.is_some() {
                self.shared.found(0);
            }
            at = directory.parent.as_deref();
        }
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
        if let Some(handle) = self.shared.handles.directory(self.number) {
            return Ok(handle);
        }
        let handle = self.shared.target.open_below(&self.path(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        if let Some(presence) = self.presence.get()
            && presence.identity != identity(&stat_of(handle.as_fd())?)
        {
            return Err(Errno::STALE);
        }
        let handle = Arc::new(handle);
        self.keep(&handle);
        Ok(handle)
    }

    /// Sets a handle that was just opened.
    pub(super) fn keep(&self, handle: &Arc<OwnedFd>) {
        self.shared.handles.keep_directory(self.number, Arc::clone(handle));
    }

    /// Called when everything in it is done: sets owner, attributes, mode and times.
    fn finish(&self) {
        let handle = self.shared.handles.take_directory(self.number);
        let Some(node) = &self.node else { return };
        let wanted = self.touched.load(Ordering::Relaxed) && !self.shared.cancel.is_cancelled();
        if !wanted {
            return;
        }
        let dry_run = self.shared.options.dry_run;
        if !dry_run && let Err(failure) = self.finish_with(node, handle) {
            self.shared.problem(&self.location(None), failure);
            return;
        }
        self.shared.restored();
        if self.shared.wants_events() {
            self.shared.notify(Action::Restored, &self.location(None), true, 0);
        }
    }

    fn finish_with(&self, node: &Node, handle: Option<Arc<OwnedFd>>) -> Result<(), Failure> {
        if self.presence.get().is_none() {
            return Ok(());
        }
        let opened = |error: Errno| Failure::new("reopen the directory", error);
        let handle = if let Some(handle) = handle {
            handle
        } else {
            let handle = self.handle().map_err(opened)?;
            self.shared.handles.take_directory(self.number);
            handle
        };
        let stat = Stat::of(handle.as_fd())
            .map_err(|error| Failure::new("read the metadata of the directory", error))?;
        let target = MetadataTarget::Open(handle.as_fd());
        metadata::apply(&self.shared, &target, node, &stat, true, || self.location(None))
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.device_id, stat.inode)
}

fn stat_of(handle: BorrowedFd<'_>) -> SystemResult<Stat> {
    Stat::of(handle).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
