//! The snapshots that attempts of a backup left in the repository: found by the tag of their task, and forgotten if
//! they are not needed.

use std::collections::BTreeMap;

use lifeboat_api::common::TaskId;
use lifeboat_mover::report::{BackedUp, ComparedFiles};
use lifeboat_plan::transfer::attempts::FileCounts;
use lifeboat_repository::Retry;

use super::{REPOSITORY_PACE, REPOSITORY_PATIENCE, Stored, Transfer, Unusable};

/// What a mover reported about its snapshot.
#[derive(Debug)]
pub enum Reported<'a> {
    Snapshot(BackedUp),
    /// The mover reported no snapshot, for this reason.
    Nothing(&'a str),
}

impl Reported<'_> {
    /// The snapshot that is in the repository, with what the mover reported of it, or why there is none.
    pub fn of(self, stored: Option<Stored>) -> Result<Stored, NotStored> {
        let Some(mut stored) = stored else {
            return Err(match self {
                Self::Snapshot(reported) => NotStored::Missing(reported.snapshot),
                Self::Nothing(message) => NotStored::NotReported(message.to_owned()),
            });
        };
        if let Self::Snapshot(reported) = self {
            let snapshot = &mut stored.snapshot;
            snapshot.bytes = reported.bytes;
            snapshot.bytes_added = reported.bytes_added;
            snapshot.changed = reported.changed.count;
            snapshot.files = files_of(&reported).or(snapshot.files);
            snapshot.unreadable = reported.unreadable.count.max(snapshot.unreadable);
            snapshot.unreadable_first = reported.unreadable.first;
        }
        Ok(stored)
    }
}

/// The files that a mover counted.
pub fn files_of(reported: &BackedUp) -> Option<FileCounts> {
    let ComparedFiles { new, modified, unmodified } = reported.compared?;
    Some(FileCounts { total: reported.files, new, modified, unmodified })
}

/// Why a mover that has ended left no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum NotStored {
    #[error("it is unknown whether the volume was copied: {0}")]
    Unknown(String),
    #[error("the mover named snapshot {0}, which is not in the repository")]
    Missing(String),
    /// The mover did not report a snapshot, for this reason.
    #[error("{0}")]
    NotReported(String),
}

impl Transfer {
    /// The snapshots of this attempt, one for each part that is done; asked again while storage does not answer.
    async fn stored(&self) -> Result<Vec<Stored>, NotStored> {
        let task = self.task();
        let mut tries = 0;
        loop {
            match self.work.effects.stored(&self.key, &task).await {
                Ok(stored) => return Ok(stored),
                Err(Unusable { message, retry }) => {
                    tries += 1;
                    if retry == Retry::Never || tries >= REPOSITORY_PATIENCE {
                        return Err(NotStored::Unknown(message));
                    }
                }
            }
            tokio::time::sleep(self.work.pace * REPOSITORY_PACE).await;
        }
    }

    /// Whether it is certain that this attempt stored no snapshot.
    pub async fn stored_nothing(&self) -> bool {
        matches!(self.stored().await, Ok(stored) if stored.is_empty())
    }

    /// The snapshots of this attempt, by the UIDs of their parts.
    pub async fn stored_parts(&self) -> Result<BTreeMap<String, Stored>, NotStored> {
        let stored = self.stored().await?;
        Ok(stored.into_iter().map(|stored| (stored.part.clone(), stored)).collect())
    }

    /// What came of the mover that has ended: the snapshot, with what the mover reported of it, or why there is none. For
    /// a task with one part.
    pub async fn copy(&self, reported: Reported<'_>) -> Result<Stored, NotStored> {
        let task = self.task();
        reported.of(self.stored_parts().await?.remove(task.as_str()))
    }

    /// Forgets the snapshots of all attempts. Returns a text about those that may be left; empty if none is.
    pub async fn forget_all(&self) -> String {
        if !self.has_begun() {
            return String::new();
        }
        let tasks: Vec<TaskId> = self.tasks().collect();
        self.work.effects.drop_reports(&self.key, &self.group, &tasks).await;
        let left = self.forget_tasks(self.tasks()).await;
        if !left.is_empty() {
            self.give_up_tasks(self.tasks()).await;
        }
        left
    }

    /// Forgets the snapshots of earlier attempts, which may have been stored after the attempt was given up.
    pub async fn forget_earlier(&self) {
        let this = self.task();
        let earlier = || self.tasks().filter(|task| *task != this);
        if !self.forget_tasks(earlier()).await.is_empty() {
            self.give_up_tasks(earlier()).await;
        }
    }

    async fn forget_tasks(&self, tasks: impl Iterator<Item = TaskId>) -> String {
        let (mut stored, mut left) = (Vec::new(), String::new());
        for task in tasks {
            match self.work.effects.stored(&self.key, &task).await {
                Ok(found) => stored.extend(found.into_iter().map(|found| found.snapshot.id)),
                Err(Unusable { message, .. }) => {
                    tracing::warn!(object = self.owner().name, message, "a snapshot may be left behind");
                    left = format!("; a snapshot of the volume may be left in the repository: {message}");
                }
            }
        }
        if !stored.is_empty() {
            left.push_str(&self.forget(&stored).await);
        }
        left
    }

    /// Forgets these snapshots. Returns a text about those that are left; empty if none is.
    pub async fn forget(&self, snapshots: &[String]) -> String {
        match self.work.effects.forget(&self.key, snapshots).await {
            Ok(()) => String::new(),
            Err(problem) => {
                let message = format!(
                    "; snapshot {} is left in the repository: {}",
                    snapshots.join(", "),
                    problem.chain()
                );
                tracing::warn!(object = self.owner().name, message, "a snapshot is left behind");
                message
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_plan::transfer::attempts::Snapshot;

    use super::*;

    #[test]
    fn the_files_of_a_snapshot_are_those_that_its_mover_counted_or_else_its_own() {
        let own = Some(FileCounts { total: 1, new: 1, ..FileCounts::default() });
        let stored = || Stored {
            part: "p".into(),
            snapshot: Snapshot { files: own, ..Snapshot::default() },
            end: None,
        };
        let compared = Some(ComparedFiles { new: 1, modified: 2, unmodified: 3 });
        let counted = Reported::Snapshot(BackedUp { files: 6, compared, ..BackedUp::default() });
        let expected = Some(FileCounts { total: 6, new: 1, modified: 2, unmodified: 3 });
        assert_eq!(counted.of(Some(stored())).unwrap().snapshot.files, expected);
        let earlier_version = Reported::Snapshot(BackedUp { files: 6, ..BackedUp::default() });
        assert_eq!(earlier_version.of(Some(stored())).unwrap().snapshot.files, own);
        assert_eq!(Reported::Nothing("it died").of(Some(stored())).unwrap().snapshot.files, own);
    }
}
