//! Creates entries without content (links, pipes and devices), and sets the metadata of entries that are otherwise
//! correct.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Mode, mknodat, symlinkat};
use rustix::io::{Errno, Result as SystemResult};

use super::directory::DirRef;
use super::metadata::{self, Failure, MetadataTarget};
use super::outcome::Action;
use crate::node::{Node, NodeKind};
use crate::source::stat::Stat;

/// An entry and what to do with it.
pub(super) struct Special {
    pub(super) directory: DirRef,
    pub(super) node: Node,
    /// Whether it must be created.
    pub(super) create: bool,
    /// The action to report; None for files, which are reported elsewhere.
    pub(super) action: Option<Action>,
}

impl Special {
    pub(super) fn carry_out(self) {
        let shared = self.directory.shared();
        if let Err(failure) = self.attempt() {
            shared.problem(&self.directory.location(Some(&self.node.name)), failure);
        } else if let Some(action) = self.action {
            shared.restored();
            if shared.wants_events() {
                shared.notify(action, &self.directory.location(Some(&self.node.name)), false, 0);
            }
        }
    }

    fn attempt(&self) -> Result<(), Failure> {
        let failed = |action: &'static str| move |error: Errno| Failure::new(action, error);
        let directory = self.directory.handle().map_err(failed("open its directory"))?;
        let name = self.node.name.as_slice();
        if self.create {
            create(directory.as_fd(), &self.node).map_err(failed("create it"))?;
        }
        let stat =
            Stat::at(directory.as_fd(), name).map_err(|error| Failure::new("read its metadata", error))?;
        if stat.kind() != self.node.kind {
            return Err(Failure::new("set its metadata", Errno::STALE));
        }
        let target = MetadataTarget::Entry { directory: directory.as_fd(), name };
        metadata::apply(self.directory.shared(), &target, &self.node, &stat, true, || {
            self.directory.location(Some(&self.node.name))
        })
    }
}

fn create(directory: BorrowedFd<'_>, node: &Node) -> SystemResult<()> {
    let name = node.name.as_slice();
    let mode = Mode::RUSR | Mode::WUSR;
    match node.kind {
        NodeKind::Symlink => symlinkat(node.link_target.as_slice(), directory, name),
        NodeKind::Fifo => mknodat(directory, name, FileType::Fifo, mode, 0),
        NodeKind::CharDevice => mknodat(directory, name, FileType::CharacterDevice, mode, node.device),
        NodeKind::BlockDevice => mknodat(directory, name, FileType::BlockDevice, mode, node.device),
        _ => Err(Errno::INVAL),
    }
}
