//! What attempts of a copy left in the repository: found by the task's tag, and taken away where nobody wants it.

use lifeboat_mover::report::BackedUp;
use lifeboat_plan::pod_volumes::report_key;

use super::{Case, Made, REPOSITORY_PACE, REPOSITORY_PATIENCE, Unusable};

impl Case {
    /// The snapshot of this attempt; asked again while storage does not answer.
    pub(super) async fn made(&self) -> Result<Option<Made>, String> {
        let task = self.task();
        let mut tries = 0;
        loop {
            match self.desk.hands.made(&self.key, &task).await {
                Ok(made) => return Ok(made),
                Err(Unusable { words, may_pass }) => {
                    tries += 1;
                    if !may_pass || tries >= REPOSITORY_PATIENCE {
                        return Err(words);
                    }
                }
            }
            tokio::time::sleep(self.desk.pace * REPOSITORY_PACE).await;
        }
    }

    /// Whether it is certain that this attempt made no snapshot.
    pub(crate) async fn made_nothing(&self) -> bool {
        matches!(self.made().await, Ok(None))
    }

    /// What came of the mover that has ended: the snapshot, with what it said of it, or why there is none. `told` is an
    /// error where it did not say that it made one.
    pub(crate) async fn copy(&self, told: Result<BackedUp, &str>) -> Result<Made, String> {
        let made = self.made().await;
        let made =
            made.map_err(|trouble| format!("nobody can tell whether the volume was copied: {trouble}"))?;
        let Some(mut made) = made else {
            return Err(match told {
                Ok(told) => {
                    format!("the mover named snapshot {}, which is not in the repository", told.snapshot)
                }
                Err(words) => words.to_owned(),
            });
        };
        if let Ok(told) = told {
            let snapshot = &mut made.snapshot;
            snapshot.bytes = told.bytes;
            snapshot.bytes_added = told.bytes_added;
            snapshot.changed = told.changed.count;
            snapshot.unreadable = told.unreadable.count.max(snapshot.unreadable);
            snapshot.unreadable_first = told.unreadable.first;
        }
        Ok(made)
    }

    /// Forgets what all attempts made. Gives what may be left, in words.
    pub(crate) async fn forget_all(&self) -> String {
        if !self.has_begun() {
            return String::new();
        }
        let reports: Vec<String> = self.tasks().map(|task| report_key(&self.group, &task)).collect();
        self.desk.hands.drop_reports(&self.key, &reports).await;
        let left = self.forget_tasks(self.tasks()).await;
        if !left.is_empty() {
            self.give_up_tasks(self.tasks()).await;
        }
        left
    }

    /// What attempts before this one made after all: one copy is enough.
    pub(crate) async fn forget_earlier(&self) {
        let this = self.task();
        let earlier = || self.tasks().filter(|task| *task != this);
        if !self.forget_tasks(earlier()).await.is_empty() {
            self.give_up_tasks(earlier()).await;
        }
    }

    async fn forget_tasks(&self, tasks: impl Iterator<Item = String>) -> String {
        let (mut made, mut left) = (Vec::new(), String::new());
        for task in tasks {
            match self.desk.hands.made(&self.key, &task).await {
                Ok(found) => made.extend(found.map(|found| found.snapshot.id)),
                Err(Unusable { words, .. }) => {
                    tracing::warn!(object = self.place.name, words, "a snapshot may be left behind");
                    left = format!("; a snapshot of it may be left in the repository: {words}");
                }
            }
        }
        if !made.is_empty() {
            left.push_str(&self.forget(&made).await);
        }
        left
    }

    pub(crate) async fn forget(&self, snapshots: &[String]) -> String {
        match self.desk.hands.forget(&self.key, snapshots).await {
            Ok(()) => String::new(),
            Err(words) => {
                let words = format!("; snapshot {} is left in the repository: {words}", snapshots.join(", "));
                tracing::warn!(object = self.place.name, words, "a snapshot is left behind");
                words
            }
        }
    }
}
