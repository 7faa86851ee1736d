//! Writes the content of a snapshot to a stream: a file as it is, a directory as a tar or zip archive. `dump` takes
//! the path in the snapshot and the writer (usually a pipe). Data is read ahead and decoded on several threads, and
//! written in order by one. Called by the command line; the caller holds the repository's lock.
//!
//! Memory is bounded: a few batches of at most 4 MiB of sealed and 8 MiB of plain data, or one blob, per request.

mod acl;
mod pieces;
mod stream;
mod tar;
#[cfg(test)]
mod tests;
mod zip;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::BlobId;
use crate::node::{Node, NodeKind};
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::walk::{find_directory, find_node};
use pieces::Pieces;

/// The format of a directory. A file is always written as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DumpFormat {
    /// Directories are refused.
    Raw,
    #[default]
    Tar,
    Zip,
}

impl std::str::FromStr for DumpFormat {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "raw" => Ok(Self::Raw),
            "tar" => Ok(Self::Tar),
            "zip" => Ok(Self::Zip),
            other => Err(Error::invalid("archive format", format!("'{other}' is not one of tar, zip"))),
        }
    }
}

/// The object at a path of a snapshot.
enum ObjectAtPath {
    File(Box<Node>),
    /// With its path below the root, with which the entries of the archive start.
    Directory(BlobId, Vec<u8>),
}

/// Writes `path` of the snapshot to `writer`. A blob that cannot be read or a failed write is an error; what was
/// written before is not undone.
pub async fn dump(
    repository: &Repository,
    snapshot: &Snapshot,
    path: impl AsRef<Path>,
    format: DumpFormat,
    writer: impl Write + Send + 'static,
    cancel: CancellationToken,
) -> Result<()> {
    let path = path.as_ref();
    let stop = cancel.child_token();
    let _guard = stop.clone().drop_guard();
    let prepare = async {
        let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
        let found = find(&reader, snapshot.tree, path).await?;
        Ok((reader, found))
    };
    let (reader, found) = tokio::select! {
        prepared = prepare => prepared?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    };
    if matches!(found, ObjectAtPath::Directory(..)) && format == DumpFormat::Raw {
        return Err(Error::invalid(
            "path",
            format!("'{}' is a directory, which needs an archive format", path.display()),
        ));
    }
    let (sender, batches) = mpsc::channel(stream::BATCHES);
    let tree_reader = reader.clone();
    let walking = tokio::task::spawn_blocking(move || {
        let mut pieces = Pieces::new(tree_reader.clone(), sender);
        match (found, format) {
            (ObjectAtPath::File(node), _) => pieces.content(&node)?,
            (ObjectAtPath::Directory(tree, prefix), DumpFormat::Zip) => {
                zip::archive(&tree_reader, tree, prefix, &mut pieces)?;
            }
            (ObjectAtPath::Directory(tree, prefix), _) => {
                tar::archive(&tree_reader, tree, prefix, &mut pieces)?;
            }
        }
        pieces.finish()
    });
    let streamed = stream::run(&reader, batches, writer, &stop).await;
    let end = walking.await.map_err(|_| Error::Local {
        action: "continue the dump".to_owned(),
        source: std::io::Error::other("one of its threads has panicked"),
    })?;
    match (streamed, end) {
        // The walk was stopped because the stream failed; the stream has the reason.
        (Err(error), _) => Err(error),
        (Ok(()), end) => end,
    }
}

async fn find(reader: &BlobReader, tree: BlobId, path: &Path) -> Result<ObjectAtPath> {
    use std::os::unix::ffi::OsStrExt;

    let parts: Vec<_> =
        path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
    let Some((last, parents)) = parts.split_last() else {
        return Ok(ObjectAtPath::Directory(tree, Vec::new()));
    };
    let parent: std::path::PathBuf = parents.iter().collect();
    let parent_tree = find_directory(reader, tree, &parent).await?;
    let name = last.as_os_str().as_bytes();
    let Some(node) = find_node(reader, parent_tree, name).await? else {
        return Err(Error::NothingFound { what: format!("the snapshot has no '{}'", path.display()) });
    };
    match (&node.kind, node.subtree) {
        (NodeKind::File, _) => Ok(ObjectAtPath::File(Box::new(node))),
        (NodeKind::Directory, Some(subtree)) => {
            let prefix: std::path::PathBuf = parts.iter().collect();
            Ok(ObjectAtPath::Directory(subtree, prefix.as_os_str().as_bytes().to_vec()))
        }
        (NodeKind::Directory, None) => {
            Err(Error::damaged(format!("directory '{}'", path.display()), "it has no tree"))
        }
        (kind, _) => Err(Error::invalid(
            "path",
            format!("'{}' is a {}, which has no content to write", path.display(), kind.word()),
        )),
    }
}
