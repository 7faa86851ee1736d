//! `ls --ncdu`: a listing in the format that ncdu loads (`ncdu -f FILE`). Takes the steps of a listing in order and
//! returns text.

use lifeboat_repository::ls::Listed;
use lifeboat_repository::node::{Node, NodeKind};
use lifeboat_repository::snapshot::Snapshot;
use serde_json::json;

use crate::error::CliError;

/// ncdu expects sizes in blocks; a snapshot does not record how many blocks a file had.
const BLOCK: u64 = 512;

/// The state of the listing: how deep it is.
pub(super) struct Ncdu {
    depth: usize,
}

impl Ncdu {
    /// The beginning of the output.
    pub(super) fn begin(snapshot: &Snapshot) -> Result<(Self, String), CliError> {
        let about =
            serde_json::to_string(snapshot).map_err(|error| CliError::failed("cannot write JSON", error))?;
        Ok((Self { depth: 1 }, format!("[1, 2, {about}, [{{\"name\":\"/\"}}")))
    }

    /// The text for one step of the listing.
    pub(super) fn step(&mut self, listed: &Listed) -> String {
        match listed {
            Listed::Node { node, .. } if node.is_directory() => {
                self.depth += 1;
                format!(",\n{}[\n{}{}", indent(self.depth - 1), indent(self.depth), entry(node))
            }
            Listed::Node { node, .. } => format!(",\n{}{}", indent(self.depth), entry(node)),
            Listed::Leave { .. } => {
                self.depth = self.depth.saturating_sub(1);
                format!("\n{}]", indent(self.depth))
            }
        }
    }

    pub(super) fn end() -> &'static str {
        "\n]\n]\n"
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

fn entry(node: &Node) -> serde_json::Value {
    json!({
        "name": String::from_utf8_lossy(&node.name),
        "asize": node.size,
        "dsize": node.size.checked_next_multiple_of(BLOCK).unwrap_or(node.size),
        "dev": node.device_id,
        "ino": node.inode,
        "nlink": node.links,
        "notreg": !matches!(node.kind, NodeKind::Directory | NodeKind::File),
        "uid": node.uid,
        "gid": node.gid,
        "mode": node.mode.permissions(),
        "mtime": node.mtime.seconds.max(0),
    })
}
