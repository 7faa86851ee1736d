//! A node: one file, directory, link or device of a tree, with all that restic's format keeps of it.
//! `json` writes and reads it exactly as Go does, so that an unchanged directory is the same blob whoever saved it.

mod json;
mod mode;
mod quote;
mod time;

pub use json::{TreeBuilder, parse_tree};
pub use mode::Mode;
pub use time::NodeTime;

use crate::id::BlobId;

/// What a node is.
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
    /// A word that this version does not know: listed, carried along, never created on restore.
    Unknown(String),
}

/// An extended attribute; ACLs are stored as such, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xattr {
    pub name: String,
    pub value: Vec<u8>,
}

/// One entry of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Any bytes that a file name may have; trees from elsewhere may hold worse, see `has_safe_name`.
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
    /// Of the file system, if it was kept: a backup can leave out all but those of files with several links (`DeviceIds`).
    pub device_id: u64,
    pub size: u64,
    pub links: u64,
    /// Of a symlink: any bytes.
    pub link_target: Vec<u8>,
    pub xattrs: Vec<Xattr>,
    /// What other systems keep (Windows attributes): JSON, carried along untouched.
    pub generic_attributes: Option<String>,
    /// Of a device: its number as `stat` gives it.
    pub device: u64,
    /// Of a file: its blobs, in order. `None` for everything else.
    pub content: Option<Vec<BlobId>>,
    /// Of a directory.
    pub subtree: Option<BlobId>,
    /// What went wrong when restic read it.
    pub error: String,
}

impl Node {
    /// Whether the name is one component of a path: not empty, no `/`, no NUL, not `.` or `..`.
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

    /// The name for people.
    pub fn display_name(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }

    /// The blobs of a file; empty for everything else.
    pub fn blobs(&self) -> &[BlobId] {
        self.content.as_deref().unwrap_or_default()
    }
}
