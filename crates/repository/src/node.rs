//! A node: one file, directory, link or device of a tree, with all metadata of restic's format. `json` writes and
//! reads it exactly as Go does, so that an unchanged directory is the same blob, whether restic or Lifeboat saved it.

mod json;
mod mode;
mod quote;
pub(crate) mod stream;
mod time;

pub use json::{TreeBuilder, parse_tree};
pub use mode::Mode;
pub use time::NodeTime;

use crate::id::BlobId;

/// The type of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeKind {
    #[default]
    File,
    Directory,
    Symlink,
    BlockDevice,
    CharDevice,
    Fifo,
    Socket,
    Irregular,
    /// A type that this version does not know: listed, preserved, never created on restore.
    Unknown(String),
}

/// An extended attribute; ACLs are stored in this form, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xattr {
    pub name: String,
    pub value: Vec<u8>,
}

/// One entry of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Any bytes that a file name may contain; trees from other sources may contain invalid names, see
    /// `has_safe_name`.
    pub name: Vec<u8>,
    pub kind: NodeKind,
    pub mode: Mode,
    pub mtime: NodeTime,
    pub atime: NodeTime,
    pub ctime: NodeTime,
    pub uid: u32,
    pub gid: u32,
    pub user: String,
    pub group: String,
    pub inode: u64,
    /// The device of the file system, if it was stored: a backup can omit it except for files with several links
    /// (`DeviceIds`).
    pub device_id: u64,
    pub size: u64,
    pub links: u64,
    /// The target of a symlink: any bytes.
    pub link_target: Vec<u8>,
    pub xattrs: Vec<Xattr>,
    /// Attributes of other systems (Windows): JSON, preserved unchanged.
    pub generic_attributes: Option<String>,
    /// For a device: its number as returned by `stat`.
    pub device: u64,
    /// For a file: its blobs, in order. `None` for everything else.
    pub content: Option<Vec<BlobId>>,
    /// For a directory: its tree.
    pub subtree: Option<BlobId>,
    /// The error that restic recorded when it read the file.
    pub error: String,
}

impl Node {
    /// Whether the name is a single path component: not empty, no `/`, no NUL, not `.` or `..`.
    pub fn has_safe_name(&self) -> bool {
        let name = self.name.as_slice();
        !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
    }

    pub fn is_directory(&self) -> bool {
        self.kind == NodeKind::Directory
    }

    pub fn is_file(&self) -> bool {
        self.kind == NodeKind::File
    }

    /// The name for display.
    pub fn display_name(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }

    /// The blobs of a file; empty for everything else.
    pub fn blobs(&self) -> &[BlobId] {
        self.content.as_deref().unwrap_or_default()
    }
}
