//! The results of a search, with the fields of restic's JSON.

use jiff::Zoned;
use serde::Serialize;

use crate::id::{BlobId, SnapshotId};
use crate::ls::mode_text;
use crate::node::Node;

/// One hit.
#[derive(Debug)]
pub enum Hit {
    Node {
        snapshot: SnapshotId,
        path: Vec<u8>,
        node: Box<Node>,
    },
    Object(FoundObject),
    /// A tree that cannot be read: nothing below it was searched.
    Unreadable {
        snapshot: SnapshotId,
        tree: BlobId,
        message: String,
    },
}

/// A blob or tree that was searched for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundObject {
    /// `blob` or `tree`.
    pub object_type: &'static str,
    pub id: BlobId,
    pub path: String,
    /// The directory of the file to which a blob belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tree: Option<BlobId>,
    pub snapshot: SnapshotId,
    #[serde(with = "crate::time::rfc3339")]
    pub time: Zoned,
}

/// A node that was found: one of `matches` in `find --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundNode {
    pub path: String,
    pub permissions: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub mode: u64,
    pub mtime: String,
    pub atime: String,
    pub ctime: String,
    pub uid: u32,
    pub gid: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub inode: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub device_id: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub size: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub links: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub linktarget: String,
}

impl FoundNode {
    pub fn new(path: &[u8], node: &Node) -> Self {
        let time = crate::ls::time_text;
        Self {
            path: String::from_utf8_lossy(path).into_owned(),
            permissions: mode_text(node.mode),
            kind: node.kind.word().to_owned(),
            mode: u64::from(node.mode.0),
            mtime: time(node.mtime),
            atime: time(node.atime),
            ctime: time(node.ctime),
            uid: node.uid,
            gid: node.gid,
            user: node.user.clone(),
            group: node.group.clone(),
            inode: node.inode,
            device_id: node.device_id,
            size: node.size,
            links: node.links,
            linktarget: String::from_utf8_lossy(&node.link_target).into_owned(),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
