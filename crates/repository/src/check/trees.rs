//! Checks snapshots and their trees: each can be read, contains nothing impossible, and its blobs are in the index.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::CheckOptions;
use super::index::full_message;
use super::report::{ErrorKind, HintKind, Report};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, Id, SnapshotId};
use crate::index::Index;
use crate::node::{Node, NodeKind};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::walk::{EntrySet, Root, Visit, visit_trees};

const CONCURRENT: usize = 16;

/// The snapshots to check that can be read.
pub(super) async fn load_snapshots(
    repository: &Repository,
    options: &CheckOptions,
    report: &Report,
) -> Result<Vec<(SnapshotId, BlobId)>> {
    let listed = repository.list(FileKind::Snapshot).await?;
    let mut ids: Vec<_> = listed.iter().map(|file| SnapshotId(file.id)).collect();
    if let Some(wanted) = &options.snapshots {
        let wanted: HashSet<_> = wanted.iter().collect();
        ids.retain(|id| wanted.contains(id));
    }
    ids.sort_unstable();
    let load = |id: SnapshotId| async move { (id, repository.load_snapshot(id).await) };
    let mut loading = stream::iter(ids).map(load).buffered(CONCURRENT);
    let mut snapshots = Vec::new();
    while let Some((id, snapshot)) = loading.next().await {
        match snapshot {
            Ok(snapshot) => snapshots.push((id, snapshot.tree)),
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => {
                report.damaged_snapshot(id);
                report.error_of(
                    Some(id),
                    ErrorKind::Snapshot,
                    format!("snapshot {id}"),
                    full_message(&error),
                );
            }
        }
    }
    Ok(snapshots)
}

/// Visits every tree; marks the needed blobs in `used`.
pub(super) async fn check_trees(
    reader: &BlobReader,
    snapshots: &[(SnapshotId, BlobId)],
    used: &Arc<EntrySet>,
    report: &Arc<Report>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<()> {
    let (index, marks, found) = (Arc::clone(reader.index()), Arc::clone(used), Arc::clone(report));
    let work = Arc::new(move |visit: &mut Visit| check_tree(&index, &marks, &found, visit));
    let roots = snapshots.iter().map(|root| Root::from(*root));
    visit_trees(reader, roots, used, work, progress, cancel).await
}

fn check_tree(index: &Index, used: &EntrySet, report: &Report, visit: &mut Visit) -> Result<()> {
    report.trees.fetch_add(1, Ordering::Relaxed);
    let (object, snapshot) = (format!("tree {}", visit.tree), visit.root.snapshot);
    let error = |kind, message: String| report.error_of(snapshot, kind, &*object, message);
    let mut last: Option<Vec<u8>> = None;
    loop {
        let node = match visit.next_node() {
            Ok(Some(node)) => node,
            Ok(None) => return Ok(()),
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(problem) => {
                let missing = matches!(problem, Error::MissingBlob { .. });
                let kind = if missing { ErrorKind::MissingBlob } else { ErrorKind::Tree };
                error(kind, full_message(&problem));
                return Ok(());
            }
        };
        let report_problem = |kind, what: String| error(kind, format!("'{}' {what}", node.display_name()));
        if let Some(problem) = impossible(&node) {
            report_problem(ErrorKind::Tree, problem);
        }
        if last.is_some_and(|last| last >= node.name) {
            report_problem(ErrorKind::Tree, "is not sorted or not unique".to_owned());
        }
        check_content(index, used, report, &object, &node, &report_problem)?;
        last = Some(node.name);
    }
}

/// Properties that are invalid, whatever else the repository contains.
pub(super) fn impossible(node: &Node) -> Option<String> {
    if !node.has_safe_name() {
        return Some("is not a file name: restoring it could write elsewhere".to_owned());
    }
    let null = |id: &BlobId| id.0 == Id([0; 32]);
    match &node.kind {
        NodeKind::Directory if node.subtree.is_none() => Some("is a directory without a tree".to_owned()),
        NodeKind::Directory if node.subtree.as_ref().is_some_and(null) => {
            Some("is a directory whose tree is null".to_owned())
        }
        NodeKind::File if node.content.is_none() => Some("is a file without a list of blobs".to_owned()),
        NodeKind::File if node.blobs().iter().any(null) => Some("is a file with a null blob".to_owned()),
        NodeKind::Irregular => Some("has the invalid type 'irregular'".to_owned()),
        NodeKind::Unknown(word) => Some(format!("has the invalid type '{word}'")),
        _ => None,
    }
}

fn check_content(
    index: &Index,
    used: &EntrySet,
    report: &Report,
    object: &str,
    node: &Node,
    report_problem: &dyn Fn(ErrorKind, String),
) -> Result<()> {
    let mut size = Some(0_u64);
    for blob in node.blobs() {
        let copies = index.find_all(BlobKind::Data, blob)?;
        used.insert_all(&copies);
        let Some(first) = copies.first() else {
            report_problem(ErrorKind::MissingBlob, format!("needs data blob {blob}, which is in no index"));
            size = None;
            continue;
        };
        size = size.and_then(|size| size.checked_add(u64::from(first.location.plain_length())));
    }
    if node.is_file() && size.is_some_and(|size| size != node.size) {
        let message = format!(
            "'{}' has {} bytes, its blobs have {}",
            node.display_name(),
            node.size,
            size.unwrap_or(0)
        );
        report.hint(HintKind::FileSize, object, message);
    }
    Ok(())
}
