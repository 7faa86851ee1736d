//! Walks the snapshots: every directory must be readable, every object complete. Directories and files that several
//! snapshots share are checked once.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use lifeboat_repository::node::NodeKind;
use lifeboat_repository::progress::Progress;

use super::CheckOutcome;
use crate::error::Result;
use crate::id::{ContentId, ObjectId};
use crate::object;
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::tree::{self, Entry};

/// Of objects only a hash is kept: eight bytes for each.
#[derive(Default)]
struct Seen {
    hasher: RandomState,
    intact: HashSet<u64>,
}

impl Seen {
    fn contains(&self, object: ObjectId) -> bool {
        self.intact.contains(&self.hasher.hash_one(object))
    }

    fn add(&mut self, object: ObjectId) {
        self.intact.insert(self.hasher.hash_one(object));
    }
}

pub(super) async fn check(
    repository: &Repository,
    snapshots: &[Snapshot],
    progress: &Progress,
    outcome: &mut CheckOutcome,
    damaged: &HashSet<ContentId>,
) -> Result<()> {
    progress.add_total(snapshots.len() as u64, 0);
    progress.total_is_known();
    let mut seen = Seen::default();
    for snapshot in snapshots {
        let before = outcome.total_errors;
        let mut checker =
            Checker { repository, progress, outcome: &mut *outcome, damaged, seen: &mut seen, snapshot };
        checker.snapshot().await?;
        if outcome.total_errors > before {
            outcome.damaged_snapshots.push(snapshot.id.clone());
        }
        outcome.snapshots += 1;
        progress.add_done(1, 0);
    }
    Ok(())
}

struct Checker<'a> {
    repository: &'a Repository,
    progress: &'a Progress,
    outcome: &'a mut CheckOutcome,
    damaged: &'a HashSet<ContentId>,
    seen: &'a mut Seen,
    snapshot: &'a Snapshot,
}

impl Checker<'_> {
    async fn snapshot(&mut self) -> Result<()> {
        let root = self.snapshot.root().and_then(Entry::object);
        let Some(root) = self.keep(b"/", root)? else { return Ok(()) };
        let device = tree::load_device(self.repository, root).await;
        if let Ok(Some(device)) = device {
            self.entry(b"/", &device).await?;
            return Ok(());
        }
        self.directories(root).await
    }

    /// Checks a tree; a directory that is intact, with everything below it, is remembered.
    async fn directories(&mut self, root: ObjectId) -> Result<()> {
        let Some(entries) = self.load(b"/", root).await? else { return Ok(()) };
        let mut levels = vec![(root, Vec::new(), entries, self.outcome.total_errors)];
        while let Some((object, path, entries, errors)) = levels.last_mut() {
            let Some(entry) = entries.next() else {
                if *errors == self.outcome.total_errors {
                    self.seen.add(*object);
                }
                levels.pop();
                continue;
            };
            let path = [path.as_slice(), b"/", &entry.node.name].concat();
            if !entry.node.is_directory() {
                self.entry(&path, &entry).await?;
                continue;
            }
            let Some(child) = self.keep(&path, entry.object())? else { continue };
            if levels.iter().any(|(above, ..)| *above == child) || path.len() > 4095 {
                self.error(&path, "the directory contains itself, or its path is too long");
            } else if !self.seen.contains(child)
                && let Some(entries) = self.load(&path, child).await?
            {
                levels.push((child, path, entries, self.outcome.total_errors));
            }
        }
        Ok(())
    }

    async fn load(&mut self, path: &[u8], directory: ObjectId) -> Result<Option<std::vec::IntoIter<Entry>>> {
        let loaded = tree::load(self.repository, directory).await;
        self.outcome.directories += 1;
        Ok(self.keep(path, loaded)?.map(Vec::into_iter))
    }

    /// A file or link.
    async fn entry(&mut self, path: &[u8], entry: &Entry) -> Result<()> {
        let Some(object) = self.keep(path, entry.object())? else { return Ok(()) };
        self.outcome.files += 1;
        if self.seen.contains(object) {
            return Ok(());
        }
        if entry.node.kind == NodeKind::Symlink {
            let target = tree::link_target(self.repository, entry).await;
            self.keep(path, target)?;
            return Ok(());
        }
        let size = entry.node.size;
        let parts = object::parts(self.repository, object, Some(size), size).await;
        let Some(parts) = self.keep(path, parts)? else { return Ok(()) };
        let mut intact = true;
        for part in parts {
            let located = self.repository.locate(&part.content).await;
            if self.keep(path, located)?.is_none() {
                intact = false;
            } else if self.damaged.contains(&part.content) {
                self.error(path, format!("its content {} cannot be read", part.content));
                intact = false;
            }
        }
        if intact {
            self.seen.add(object);
        }
        Ok(())
    }

    /// The value, or a recorded error. An error of the store as a whole ends the check.
    fn keep<T>(&mut self, path: &[u8], found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_local() => {
                self.error(path, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn error(&mut self, path: &[u8], error: impl std::fmt::Display) {
        let object = format!("{}:{}", self.snapshot.id, String::from_utf8_lossy(path));
        self.outcome.error(self.progress, object, error);
    }
}
