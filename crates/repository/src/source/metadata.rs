//! Makes nodes from the file system: takes a directory handle and a name, or an open file, and returns the node as
//! restic 0.19 stores it. One `NodeReader` is shared by all threads of a backup.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::readlinkat;

use super::accounts::Accounts;
use super::stat::Stat;
use super::xattr::{self, Owner};
use super::zone::Zone;
use crate::node::{Mode, Node, NodeKind};

/// Which device numbers of file systems are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceIds {
    /// For every node, as restic does.
    #[default]
    Always,
    /// Only where they are needed: for files with several links. Volumes that are mounted again for every backup get
    /// a new number each time, which would change every tree; restic has a feature flag for this.
    HardLinks,
}

/// Options for making nodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetadataOptions {
    /// `--with-atime`: otherwise the modification time is stored as the access time.
    pub with_atime: bool,
    pub device_ids: DeviceIds,
}

/// Metadata that is missing in a node. The node is stored nevertheless; the user should know.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("cannot list the extended attributes: {0}")]
    Attributes(io::Error),
    #[error("cannot read the extended attribute '{name}': {error}")]
    Attribute { name: String, error: io::Error },
}

impl Problem {
    /// Directories above the targets often belong to another user: restic does not report problems with their
    /// attributes.
    pub fn is_expected_above_targets(&self) -> bool {
        matches!(self, Self::Attributes(error) if error.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// A node and the metadata that it was made from.
#[derive(Debug)]
pub struct Taken {
    /// Without content and subtree, which the caller adds.
    pub node: Node,
    pub stat: Stat,
    pub problems: Vec<Problem>,
}

/// Makes nodes; holds what they have in common.
#[derive(Debug, Clone)]
pub struct NodeReader {
    options: MetadataOptions,
    accounts: Accounts,
    zone: Zone,
}

impl NodeReader {
    /// Reads the system's accounts and time zone, once.
    pub fn new(options: MetadataOptions) -> Self {
        Self { options, accounts: Accounts::of_system(), zone: Zone::of_system() }
    }

    /// The node of an entry of a directory; of the symbolic link itself if it is one.
    pub fn node_of(&self, dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Taken> {
        self.node_with_stat(dir, name, Stat::at(dir, name)?)
    }

    /// Like `node_of`, if the caller already has the `Stat`.
    pub fn node_with_stat(&self, dir: BorrowedFd<'_>, name: &[u8], stat: Stat) -> io::Result<Taken> {
        let mut taken = self.without_attributes(name, stat);
        if taken.node.kind == NodeKind::Symlink {
            taken.node.link_target = readlinkat(dir, name, Vec::new())?.into_bytes();
        }
        taken.node.xattrs = xattr::read(&Owner::entry(dir, name), &mut taken.problems);
        Ok(taken)
    }

    /// The node of an open file or directory, wherever its name leads now.
    pub fn for_open_file(&self, file: BorrowedFd<'_>, name: &[u8]) -> io::Result<Taken> {
        let mut taken = self.without_attributes(name, Stat::of(file)?);
        taken.node.xattrs = xattr::read(&Owner::open(file), &mut taken.problems);
        Ok(taken)
    }

    fn without_attributes(&self, name: &[u8], stat: Stat) -> Taken {
        let mode = Mode::from_unix(stat.mode);
        let kind = mode.kind();
        let has_links = !matches!(kind, NodeKind::Directory | NodeKind::Fifo | NodeKind::Socket);
        let is_device = matches!(kind, NodeKind::BlockDevice | NodeKind::CharDevice);
        let links = if has_links { stat.links } else { 0 };
        let needs_device_id = kind != NodeKind::Directory && links != 1;
        let keeps_device_id = self.options.device_ids == DeviceIds::Always || needs_device_id;
        let node = Node {
            name: name.to_vec(),
            mtime: self.zone.local(stat.mtime),
            atime: self.zone.local(if self.options.with_atime { stat.atime } else { stat.mtime }),
            ctime: self.zone.local(stat.ctime),
            uid: stat.uid,
            gid: stat.gid,
            user: self.accounts.user_name(stat.uid).to_owned(),
            group: self.accounts.group_name(stat.gid).to_owned(),
            inode: stat.inode,
            device_id: if keeps_device_id { stat.device_id } else { 0 },
            size: if kind == NodeKind::File { stat.size } else { 0 },
            links,
            device: if is_device { stat.device } else { 0 },
            mode,
            kind,
            ..Node::default()
        };
        Taken { node, stat, problems: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
