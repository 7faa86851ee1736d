//! The directory of a snapshot at which a restore starts, and the owner, mode and times that the target's root gets. A
//! snapshot of Lifeboat that has the volume at its root stores them in a tag; one that has the volume at a path, as
//! restic's do, has an entry for it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use lifeboat_repository::Error;
use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::id::BlobId;
use lifeboat_repository::node::{Node, NodeTime};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::walk::{find_directory, find_node};
use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, fchmod, fchown, futimens};
use tokio_util::sync::CancellationToken;

use crate::report::Cause;
use crate::run::backup::ROOT_TAG;
use crate::run::failure::{self, Failed};

/// How many entries a message names.
const NAMED: usize = 10;

pub(super) struct Folder {
    pub(super) tree: BlobId,
    owner: Option<Owner>,
}

/// What the path of a restore is in the snapshot.
pub(super) enum FolderOrEntry {
    Directory(Folder),
    /// A file, a link or another single entry.
    Entry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    mode: u32,
    uid: u32,
    gid: u32,
    /// Access and modification; None if only a tag of the snapshot knows the directory.
    times: Option<(NodeTime, NodeTime)>,
}

impl Folder {
    /// What is at `path`, or the root of the snapshot. A path that the snapshot does not have is [`Cause::NotStored`].
    pub(super) async fn find(
        repository: &Repository,
        snapshot: &Snapshot,
        path: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<FolderOrEntry, Failed> {
        let Some(path) = path else {
            let owner = snapshot.tags.iter().find_map(|tag| Owner::of_tag(tag));
            return Ok(FolderOrEntry::Directory(Self { tree: snapshot.tree, owner }));
        };
        let finding = Self::at(repository, snapshot, Path::new(path));
        tokio::select! {
            found = finding => found,
            () = cancel.cancelled() => Err(Failed::Cancelled),
        }
    }

    async fn at(repository: &Repository, snapshot: &Snapshot, path: &Path) -> Result<FolderOrEntry, Failed> {
        let index = repository.load_index().await.map_err(failure::of(Cause::Target))?;
        let reader = BlobReader::new(repository, Arc::new(index));
        match Self::in_tree(&reader, snapshot, path).await {
            Err(error @ (Error::NothingFound { .. } | Error::Invalid { .. })) => {
                let instead = instead(&reader, snapshot.tree, path).await.unwrap_or_default();
                let message = format!("{}{instead}; nothing was written", failure::message(&error));
                Err(Failed::new(Cause::NotStored, message))
            }
            found => found.map_err(failure::of(Cause::Target)),
        }
    }

    async fn in_tree(reader: &BlobReader, snapshot: &Snapshot, path: &Path) -> Result<FolderOrEntry, Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            let tree = find_directory(reader, snapshot.tree, path).await?;
            return Ok(FolderOrEntry::Directory(Self { tree, owner: None }));
        };
        let parent = find_directory(reader, snapshot.tree, parent).await?;
        let node = find_node(reader, parent, name.as_encoded_bytes()).await?;
        if node.as_ref().is_some_and(|node| !node.is_directory()) {
            return Ok(FolderOrEntry::Entry);
        }
        let tree = find_directory(reader, snapshot.tree, path).await?;
        // Directories above the backed-up paths were synthesized or belong to the system.
        let is_content = snapshot.paths.iter().any(|stored| path.starts_with(stored));
        let owner = node.as_ref().filter(|_| is_content).and_then(Owner::of_node);
        Ok(FolderOrEntry::Directory(Self { tree, owner }))
    }

    /// Sets owner, mode and times of the directory, as far as the snapshot has them. False if this user may not set owner and mode: only
    /// root may change an owner, and others may only set the mode of their own directories. Called last: every new entry of the directory
    /// changes its time.
    pub(super) fn give_owner(&self, directory: &OwnedFd) -> io::Result<bool> {
        let Some(Owner { mode, uid, gid, times }) = self.owner else { return Ok(true) };
        let is_root = rustix::process::geteuid().is_root();
        let allowed = |outcome: rustix::io::Result<()>| match outcome {
            Err(rustix::io::Errno::PERM) if !is_root => Ok(false),
            outcome => outcome.map(|()| true),
        };
        let owner = allowed(fchown(directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))))?;
        let mode = allowed(fchmod(directory, Mode::from_raw_mode(mode)))?;
        if let Some((accessed, modified)) = times {
            let time = |time: NodeTime| Timespec {
                tv_sec: time.seconds,
                tv_nsec: time.nanoseconds.min(999_999_999).into(),
            };
            let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
            allowed(futimens(directory, &times))?;
        }
        Ok(owner && mode)
    }
}

/// What the snapshot has instead of a path, for messages: the first entries of the nearest directory above it.
async fn instead(reader: &BlobReader, root: BlobId, path: &Path) -> Result<String, Error> {
    let (mut tree, mut above) = (root, PathBuf::from("/"));
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        let nodes = reader.load_tree(&tree).await?;
        let node = nodes.iter().find(|node| node.name == name.as_encoded_bytes());
        let Some(below) = node.and_then(|node| node.subtree) else {
            return Ok(format!(", and '{}' has {}", above.display(), names(&nodes)));
        };
        above.push(name);
        tree = below;
    }
    Ok(String::new())
}

fn names(nodes: &[Node]) -> String {
    let named = nodes.iter().take(NAMED).map(|node| String::from_utf8_lossy(&node.name).into_owned());
    let named: Vec<String> = named.collect();
    match nodes.len().saturating_sub(NAMED) {
        _ if nodes.is_empty() => "nothing".to_owned(),
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

impl Owner {
    fn of_tag(tag: &str) -> Option<Self> {
        let mut parts = tag.strip_prefix(ROOT_TAG)?.split(':');
        let mode = u32::from_str_radix(parts.next()?, 8).ok().filter(|mode| *mode <= 0o7777)?;
        let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { mode, uid, gid, times: None }).filter(Self::is_possible)
    }

    fn of_node(node: &Node) -> Option<Self> {
        let owner = Self {
            mode: node.mode.permissions(),
            uid: node.uid,
            gid: node.gid,
            times: Some((node.atime, node.mtime)),
        };
        Some(owner).filter(Self::is_possible)
    }

    /// To the system, the largest number means "do not change".
    fn is_possible(&self) -> bool {
        self.uid != u32::MAX && self.gid != u32::MAX
    }
}
