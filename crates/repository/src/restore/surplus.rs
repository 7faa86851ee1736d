//! The last walk of a restore with `delete_last`: removes what the snapshot does not have. Everything that it has was written and
//! verified before. Directories are opened as in any restore, never through a symbolic link, and other file systems below the target
//! are left alone.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::delete;
use super::directory::DirRef;
use super::feed;
use super::metadata::MetadataTarget;
use super::shared::Shared;
use super::walk::{self, TreeNames, Visitor};
use crate::error::Result;
use crate::id::BlobId;
use crate::node::Node;
use crate::source::stat::Stat;

/// Removes what `tree` does not have; what cannot be removed becomes a problem.
pub(super) async fn run(shared: &Arc<Shared>, tree: BlobId) -> Result<()> {
    let walker = Arc::clone(shared);
    feed::run(shared, move |_feed| {
        walk::walk(&walker, tree, &mut Remover { shared: Arc::clone(&walker) })?;
        walker.progress.total_is_known();
        Ok(())
    })
    .await
}

struct Remover {
    shared: Arc<Shared>,
}

impl Visitor for Remover {
    fn enter(&mut self, _directory: &DirRef, _selected: bool) -> Result<bool> {
        Ok(true)
    }

    fn entry(&mut self, _directory: &DirRef, _node: Node) -> Result<()> {
        Ok(())
    }

    fn listed(&mut self, directory: &DirRef, names: &TreeNames<'_>) -> Result<()> {
        self.shared.check_running()?;
        if let Some((handle, others)) = delete::others(directory, names)?
            && !others.is_empty()
            && self.is_in_target(handle.as_fd())
        {
            self.remove(directory, handle.as_fd(), others);
        }
        self.shared.check_running()
    }
}

impl Remover {
    /// Whether a directory is in the file system of the target, and not in one that is mounted below it.
    fn is_in_target(&self, directory: BorrowedFd<'_>) -> bool {
        let device = |handle: BorrowedFd<'_>| Stat::of(handle).ok().map(|stat| stat.device_id);
        let root = self.shared.target.root().and_then(device);
        root.is_some() && root == device(directory)
    }

    /// Removes entries of a directory, which has its final mode and times already and keeps them.
    fn remove(&self, directory: &DirRef, handle: BorrowedFd<'_>, others: Vec<Vec<u8>>) {
        let target = MetadataTarget::Open(handle);
        let mode = directory.node().map(|node| node.mode.permissions());
        let opened = mode.filter(|mode| !self.shared.is_root && mode & 0o700 != 0o700);
        if let Some(mode) = opened {
            let _ = target.chmod(mode | 0o700);
        }
        delete::remove_all(directory, handle, others);
        let Some(node) = directory.node() else { return };
        let closed = opened.map_or(Ok(()), |mode| target.chmod(mode));
        if let Err(error) = closed.and_then(|()| target.set_times(node)) {
            let message = format!("cannot set its mode and times: {}", std::io::Error::from(error));
            self.shared.problem(&directory.location(None), message);
        }
    }
}
