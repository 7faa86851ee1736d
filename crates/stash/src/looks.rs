//! Cached results of inspections (looks) of repositories that the server cannot open. An inspection by a mover starts
//! a pod in the tenant's namespace, so its result is cached for a few minutes: for the retention at the end of a
//! session, for the status, and for waiting restores. The cache never decides what is written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_control::{Turns, locked};
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_transfer::repositories::RepositoryKey;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// How long a result is used. The end of a session of this server invalidates it earlier.
const FRESH: Duration = Duration::from_mins(5);
/// The pause after a failure until another mover is started: the first one, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How many repositories are remembered: a large one has thousands of snapshots.
const MOST: usize = 32;

/// The result of an inspection, by the server or by a mover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// The ID of the restic repository.
    pub(crate) id: String,
    pub(crate) snapshots: Vec<SnapshotFacts>,
    /// The size of its packs, if they were counted.
    pub(crate) bytes: Option<u64>,
}

/// The cache of results from movers. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct MoverLooks {
    known: Arc<Mutex<BTreeMap<RepositoryKey, (Instant, Looked)>>>,
    failed: Arc<Mutex<BTreeMap<RepositoryKey, Failed>>>,
    turns: Turns,
}

/// The last failure of a repository's movers.
#[derive(Clone, Debug)]
struct Failed {
    at: Instant,
    pause: Duration,
    message: String,
    /// The generation of the Repository: after a change of its spec the next mover is started at once.
    generation: Option<i64>,
}

impl MoverLooks {
    /// One mover at a time works for the server on a repository.
    pub(crate) async fn turn(&self, key: &RepositoryKey) -> OwnedMutexGuard<()> {
        self.turns.take(key.to_string()).await
    }

    /// The turn, if no mover of this server works on the repository.
    pub(crate) fn try_turn(&self, key: &RepositoryKey) -> Option<OwnedMutexGuard<()>> {
        self.turns.try_take(key.to_string())
    }

    /// The last result, if it is recent.
    pub(crate) fn known(&self, key: &RepositoryKey) -> Option<Looked> {
        let known = locked(&self.known);
        known.get(key).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, looked)| looked.clone())
    }

    /// Stores a result.
    pub(crate) fn found(&self, key: &RepositoryKey, looked: &Looked) {
        locked(&self.failed).remove(key);
        let mut known = locked(&self.known);
        known.insert(key.clone(), (Instant::now(), looked.clone()));
        known.retain(|_, (at, _)| at.elapsed() < FRESH);
        while known.len() > MOST {
            let oldest = known.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            known.remove(&oldest);
        }
    }

    /// Removes snapshots that were forgotten from the stored result.
    pub(crate) fn forgotten(&self, key: &RepositoryKey, ids: &[String]) {
        if let Some((_, looked)) = locked(&self.known).get_mut(key) {
            looked.snapshots.retain(|snapshot| !ids.contains(&snapshot.id));
        }
    }

    /// Drops the stored result, because a mover changed the repository.
    pub(crate) fn changed(&self, key: &RepositoryKey) {
        locked(&self.known).remove(key);
    }

    /// Stores why a mover failed, and doubles the pause until the next one.
    pub(crate) fn failed(&self, key: &RepositoryKey, generation: Option<i64>, message: &str) {
        let mut failed = locked(&self.failed);
        failed.retain(|_, failed| failed.at.elapsed() < LONGEST_PAUSE * 2);
        let before = failed.get(key).filter(|before| before.generation == generation);
        let pause = before.map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
        let message = message.to_owned();
        failed.insert(key.clone(), Failed { at: Instant::now(), pause, message, generation });
    }

    /// Why no mover is started now: the last one failed recently.
    pub(crate) fn failure(&self, key: &RepositoryKey, generation: Option<i64>) -> Option<String> {
        let failed = locked(&self.failed);
        let last = failed.get(key).filter(|last| last.generation == generation);
        last.filter(|last| last.at.elapsed() < last.pause).map(|last| last.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::common::{LocationName, NamespaceName};

    use super::*;

    fn key(name: &str) -> RepositoryKey {
        RepositoryKey::new(LocationName::new("stash"), NamespaceName::new(name))
    }

    fn looked(ids: &[&str]) -> Looked {
        let snapshot = |id: &&str| SnapshotFacts { id: (*id).to_owned(), ..SnapshotFacts::default() };
        Looked { id: "r".into(), snapshots: ids.iter().map(snapshot).collect(), bytes: None }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_counts_until_it_is_old_or_the_repository_was_changed() {
        let looks = MoverLooks::default();
        looks.found(&key("a"), &looked(&["1", "2"]));
        looks.forgotten(&key("a"), &["1".to_owned()]);
        assert_eq!(looks.known(&key("a")), Some(looked(&["2"])));
        assert_eq!(looks.known(&key("b")), None);
        looks.changed(&key("a"));
        assert_eq!(looks.known(&key("a")), None);
        looks.found(&key("a"), &looked(&[]));
        tokio::time::advance(FRESH).await;
        assert_eq!(looks.known(&key("a")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn few_repositories_are_remembered() {
        let looks = MoverLooks::default();
        for number in 0..=MOST {
            looks.found(&key(&number.to_string()), &looked(&[]));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!((looks.known(&key("0")), locked(&looks.known).len()), (None, MOST));
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_movers_rest_for_longer_each_time_unless_the_spec_was_changed() {
        let (looks, key) = (MoverLooks::default(), key("a"));
        for pause in [30, 60, 120, 240, 300, 300] {
            looks.failed(&key, Some(1), "no");
            tokio::time::advance(Duration::from_secs(pause - 1)).await;
            assert_eq!(looks.failure(&key, Some(1)).as_deref(), Some("no"), "{pause}");
            assert_eq!(looks.failure(&key, Some(2)), None);
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(looks.failure(&key, Some(1)), None, "{pause}");
        }
        looks.found(&key, &looked(&[]));
        looks.failed(&key, Some(1), "no");
        tokio::time::advance(FIRST_PAUSE).await;
        assert_eq!(looks.failure(&key, Some(1)), None);
    }
}
