//! What attempts of a copy left in the repository: found by the task's tag, and taken away where nobody wants it.

use std::sync::atomic::Ordering;

use lifeboat_cluster::ApiError;

use super::{Copying, REPOSITORY_PACE, REPOSITORY_PATIENCE};
use crate::pod_volumes::hands::{Made, Unusable};

impl Copying<'_> {
    /// The snapshot of an attempt; asked again while storage does not answer.
    pub(super) async fn made(&self, attempt: u64) -> Result<Option<Made>, String> {
        let (location, namespace) = self.repository();
        let mut tries = 0;
        loop {
            match self.desk.hands.made(&location, &namespace, &self.task(attempt)).await {
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

    /// Ends movers of all attempts and forgets what they made. Gives what may be left, in words.
    pub(super) async fn clean(&self, attempt: u64) -> Result<String, ApiError> {
        if !self.begun.load(Ordering::Relaxed) {
            return Ok(String::new());
        }
        let (location, namespace) = self.repository();
        let (mut made, mut left) = (Vec::new(), String::new());
        for number in 1..=attempt {
            let task = self.task(number);
            self.desk.hands.clear(&task).await?;
            match self.desk.hands.made(&location, &namespace, &task).await {
                Ok(found) => made.extend(found.map(|found| found.snapshot.id)),
                Err(Unusable { words, .. }) => {
                    left = format!("; a snapshot of it may be left in the repository: {words}");
                }
            }
        }
        if !made.is_empty() {
            left.push_str(&self.forget(&made).await);
        }
        Ok(left)
    }

    /// What attempts before this one made after all: one copy is enough.
    pub(super) async fn forget_earlier(&self, attempt: u64) {
        let (location, namespace) = self.repository();
        let mut made = Vec::new();
        for number in 1..attempt {
            match self.desk.hands.made(&location, &namespace, &self.task(number)).await {
                Ok(found) => made.extend(found.map(|found| found.snapshot.id)),
                Err(Unusable { words, .. }) => {
                    tracing::warn!(object = self.place.name, words, "a snapshot may be left behind");
                }
            }
        }
        if !made.is_empty() {
            self.forget(&made).await;
        }
    }

    /// A mover whose end was reported, and after which none follows, holds nobody up.
    pub(super) async fn unlock(&self, owner: Option<&str>) {
        let (location, namespace) = self.repository();
        if let Some(owner) = owner {
            self.desk.hands.unlock(&location, &namespace, owner).await;
        }
    }

    pub(super) async fn forget(&self, snapshots: &[String]) -> String {
        let (location, namespace) = self.repository();
        match self.desk.hands.forget(&location, &namespace, snapshots).await {
            Ok(()) => String::new(),
            Err(words) => {
                let words = format!("; snapshot {} is left in the repository: {words}", snapshots.join(", "));
                tracing::warn!(object = self.place.name, words, "a snapshot is left behind");
                words
            }
        }
    }
}
