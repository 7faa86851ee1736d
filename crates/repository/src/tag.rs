//! Changes the tags of snapshots. A snapshot's ID is the hash of its content, so each change writes a new snapshot,
//! keeps the first ID in `original`, and removes the old one afterwards.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::SnapshotId;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::repository::Repository;

/// A change of tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// Exactly these tags.
    Set(Vec<String>),
    Change {
        add: Vec<String>,
        remove: Vec<String>,
    },
}

impl TagChange {
    /// From `--set`, `--add` and `--remove`, which cannot be mixed in restic.
    pub fn new(set: Vec<String>, add: Vec<String>, remove: Vec<String>) -> Result<Self> {
        match (set.is_empty(), add.is_empty() && remove.is_empty()) {
            (true, true) => Err(Error::invalid("tags", "nothing to set, add or remove was given")),
            (false, false) => Err(Error::invalid("tags", "set cannot be used with add or remove")),
            (false, true) => Ok(Self::Set(set)),
            (true, false) => Ok(Self::Change { add, remove }),
        }
    }

    /// The new tags, or `None` if nothing changes. An empty tag among those to set means no tags at all.
    fn apply(&self, tags: &[String]) -> Option<Vec<String>> {
        let mut new = match self {
            Self::Set(set) if *set == [String::new()] => Vec::new(),
            Self::Set(set) => set.clone(),
            Self::Change { .. } => tags.to_vec(),
        };
        if let Self::Change { add, remove } = self {
            for tag in add {
                if !new.contains(tag) {
                    new.push(tag.clone());
                }
            }
            new.retain(|tag| !remove.contains(tag));
        }
        (new != tags).then_some(new)
    }
}

/// A changed snapshot, as in restic's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedSnapshot {
    pub message_type: &'static str,
    pub old_snapshot_id: SnapshotId,
    pub new_snapshot_id: SnapshotId,
}

/// Changes the tags of these snapshots, under an exclusive lock. Returns those that changed.
pub async fn tag(
    repository: &Repository,
    snapshots: &[SnapshotId],
    change: &TagChange,
    lock: &LockOptions,
) -> Result<Vec<ChangedSnapshot>> {
    Lock::hold(repository, LockKind::Exclusive, lock, async |lock| {
        let mut changed = Vec::new();
        for old in snapshots {
            let mut snapshot = repository.load_snapshot(*old).await?;
            let Some(tags) = change.apply(&snapshot.tags) else { continue };
            snapshot.tags = tags;
            snapshot.original.get_or_insert(*old);
            lock.verify().await?;
            let new = repository.save_snapshot(&snapshot).await?;
            repository.remove_file(FileKind::Snapshot, old.0).await?;
            changed.push(ChangedSnapshot {
                message_type: "changed",
                old_snapshot_id: *old,
                new_snapshot_id: new,
            });
        }
        Ok(changed)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_repository, save_snapshot};

    fn tags_of(text: &str) -> Vec<String> {
        text.split_terminator(',').map(str::to_owned).collect()
    }

    #[rstest::rstest]
    #[case::add("a", "", "b", "", Some("a,b"))]
    #[case::add_what_is_there("a", "", "a", "", None)]
    #[case::remove("a,b", "", "", "a", Some("b"))]
    #[case::remove_what_is_not_there("a", "", "", "b", None)]
    #[case::both("a", "", "b", "a", Some("b"))]
    #[case::set("a", "x,y", "", "", Some("x,y"))]
    fn tags_change_as_asked(
        #[case] old: &str,
        #[case] set: &str,
        #[case] add: &str,
        #[case] remove: &str,
        #[case] expected: Option<&str>,
    ) {
        let change = TagChange::new(tags_of(set), tags_of(add), tags_of(remove)).unwrap();
        assert_eq!(change.apply(&tags_of(old)), expected.map(tags_of));
    }

    #[test]
    fn an_empty_tag_sets_no_tags_and_mixing_is_refused() {
        assert_eq!(TagChange::Set(vec![String::new()]).apply(&tags_of("a")), Some(Vec::new()));
        assert!(TagChange::new(tags_of("a"), tags_of("b"), Vec::new()).is_err());
        assert!(TagChange::new(Vec::new(), Vec::new(), Vec::new()).is_err());
    }

    #[tokio::test]
    async fn the_first_id_is_kept_over_all_changes() {
        let repository = memory_repository().await;
        let (first, _) = save_snapshot(&repository, 1, &[("a", b"x")]).await;
        let lock = LockOptions::default();
        let mut id = first;
        for word in ["a", "b"] {
            let change = TagChange::new(Vec::new(), tags_of(word), Vec::new()).unwrap();
            let changed = tag(&repository, &[id], &change, &lock).await.unwrap();
            assert_eq!(changed[0].old_snapshot_id, id);
            id = changed[0].new_snapshot_id;
        }
        let snapshots = repository.load_snapshots().await.unwrap();
        assert_eq!(snapshots.len(), 1);
        assert_eq!((snapshots[0].1.original, &snapshots[0].1.tags), (Some(first), &tags_of("a,b")));
    }
}
