//! Walks the tree of a snapshot without a target: lists entries, finds folders and files.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use lifeboat_repository::node::NodeKind;
use lifeboat_repository::restore::writing::LONGEST_PATH;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::id::ObjectId;
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::tree::{self, Entry};

/// The directory at a path below another one.
pub(crate) async fn find_directory(
    repository: &Repository,
    root: ObjectId,
    folder: Option<&Path>,
) -> Result<ObjectId> {
    let mut at = root;
    for component in folder.into_iter().flat_map(Path::components) {
        let name = match component {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => name,
            Component::ParentDir | Component::Prefix(_) => return Err(missing(folder)),
        };
        let entries = tree::load(repository, at).await?;
        let found = entries.into_iter().find(|entry| entry.node.name == name.as_bytes());
        let found = found.filter(|entry| entry.node.is_directory()).ok_or_else(|| missing(folder))?;
        at = found.object()?;
    }
    Ok(at)
}

fn missing(folder: Option<&Path>) -> Error {
    let folder = folder.unwrap_or(Path::new("/")).display();
    Error::NothingFound { what: format!("the snapshot has no directory '{folder}'") }
}

/// An entry with its path in the snapshot, such as `/etc/hosts`.
pub struct Listed<'a> {
    pub path: &'a [u8],
    /// With the targets of links.
    pub entry: &'a Entry,
}

/// Lists a snapshot, or a folder of it, in the order of its directories. The only file of a block device is listed with
/// its name.
pub async fn list(
    repository: &Repository,
    snapshot: &Snapshot,
    folder: Option<&Path>,
    recursive: bool,
    each: &mut (dyn FnMut(Listed<'_>) + Send),
    cancel: &CancellationToken,
) -> Result<()> {
    let work = walk(repository, snapshot, folder, recursive, each);
    tokio::select! {
        done = work => done,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}

async fn walk(
    repository: &Repository,
    snapshot: &Snapshot,
    folder: Option<&Path>,
    recursive: bool,
    each: &mut (dyn FnMut(Listed<'_>) + Send),
) -> Result<()> {
    let root = snapshot.root()?.object()?;
    if let Some(device) = tree::load_device(repository, root).await? {
        each(Listed { path: &device.node.name.clone(), entry: &device });
        return Ok(());
    }
    let start = find_directory(repository, root, folder).await?;
    let prefix = folder.map(|folder| folder.as_os_str().as_bytes().to_vec()).unwrap_or_default();
    let prefix: Vec<u8> = prefix.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(prefix);
    let prefix = if prefix.is_empty() || prefix.starts_with(b"/") {
        prefix
    } else {
        [b"/", prefix.as_slice()].concat()
    };
    let mut levels = vec![(start, prefix, tree::load(repository, start).await?.into_iter())];
    while let Some((_, path, entries)) = levels.last_mut() {
        let Some(mut entry) = entries.next() else {
            levels.pop();
            continue;
        };
        let path = [path.as_slice(), b"/", &entry.node.name].concat();
        if path.len() > LONGEST_PATH {
            return Err(Error::damaged("the snapshot", "it has a path that is too long"));
        }
        if entry.node.kind == NodeKind::Symlink {
            entry.node.link_target = tree::link_target(repository, &entry).await?;
        }
        each(Listed { path: &path, entry: &entry });
        if entry.node.is_directory() && recursive {
            let object = entry.object()?;
            if levels.iter().any(|(above, _, _)| *above == object) {
                return Err(Error::damaged(format!("directory {object}"), "it contains itself"));
            }
            levels.push((object, path, tree::load(repository, object).await?.into_iter()));
        }
    }
    Ok(())
}
