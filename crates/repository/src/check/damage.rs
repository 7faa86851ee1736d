//! Finds the snapshots that are affected by the errors of a check: those that need a blob of which no intact copy
//! exists.

use std::collections::HashMap;

use tokio_util::sync::CancellationToken;

use super::report::Report;
use super::trees::impossible;
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, SnapshotId};
use crate::node::Node;

/// Walks the trees once more; each is read once, however many snapshots share it.
pub(super) async fn find_snapshots(
    reader: &BlobReader,
    snapshots: &[(SnapshotId, BlobId)],
    report: &Report,
    cancel: &CancellationToken,
) -> Result<()> {
    let mut known = HashMap::new();
    for (id, tree) in snapshots {
        if is_damaged(reader, *tree, report, &mut known, cancel).await? {
            report.damaged_snapshot(*id);
        }
    }
    Ok(())
}

/// A directory whose subdirectories are being checked.
struct Level {
    tree: BlobId,
    damaged: bool,
    subtrees: Vec<BlobId>,
}

async fn is_damaged(
    reader: &BlobReader,
    root: BlobId,
    report: &Report,
    known: &mut HashMap<BlobId, bool>,
    cancel: &CancellationToken,
) -> Result<bool> {
    let mut levels: Vec<Level> = Vec::new();
    let mut next = Some(root);
    loop {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        if let Some(tree) = next.take() {
            match known.get(&tree) {
                Some(damaged) => {
                    let Some(level) = levels.last_mut() else { return Ok(*damaged) };
                    level.damaged |= damaged;
                }
                None => levels.push(look(reader, tree, report).await?),
            }
        }
        let Some(level) = levels.last_mut() else { return Ok(false) };
        next = level.subtrees.pop();
        if next.is_none()
            && let Some(done) = levels.pop()
        {
            known.insert(done.tree, done.damaged);
            match levels.last_mut() {
                Some(parent) => parent.damaged |= done.damaged,
                None => return Ok(done.damaged),
            }
        }
    }
}

async fn look(reader: &BlobReader, tree: BlobId, report: &Report) -> Result<Level> {
    let mut level = Level { tree, damaged: false, subtrees: Vec::new() };
    let mut nodes = match reader.nodes_as_stored(&tree).await {
        Ok(nodes) => nodes,
        Err(Error::Cancelled) => return Err(Error::Cancelled),
        Err(_) => return Ok(Level { damaged: true, ..level }),
    };
    loop {
        let node = match nodes.next() {
            Ok(Some(node)) => node,
            Ok(None) => return Ok(level),
            Err(_) => return Ok(Level { damaged: true, ..level }),
        };
        level.damaged = level.damaged || impossible(&node).is_some() || lacks_content(reader, &node, report)?;
        level.subtrees.extend(node.subtree.filter(|_| node.is_directory()));
    }
}

fn lacks_content(reader: &BlobReader, node: &Node, report: &Report) -> Result<bool> {
    for blob in node.blobs() {
        let copies = reader.index().find_all(BlobKind::Data, blob)?;
        if !copies.iter().any(|copy| report.is_whole(copy)) {
            return Ok(true);
        }
    }
    Ok(false)
}
