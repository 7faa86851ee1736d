//! Checks tokens and opens repositories for the gateway. The MAC of a token is checked at each request; whether its
//! task is still recorded is read from the object that the token names, and cached for some seconds.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::common::{RepositoryName, StorageName, TaskId};
use lifeboat_control::locked;
use lifeboat_mover::task::lock_user;
use lifeboat_plan::transfer::gateway::{Claims, Rights, TokenError, open};
use lifeboat_repository::Retry;
use lifeboat_web::gateway::{FileAccess, FilesError, Gatekeeper, Grant, NoGrant, RepositoryFiles};
use tokio::time::Instant;

use super::{Gateway, StoredFiles};
use crate::movers::TaskState;
use crate::repositories::{RepositoryKey, RepositoryProblem};

/// How long it is cached that a task is recorded.
const TASK_AGE: Duration = Duration::from_secs(10);
/// How long an open repository is used before its object and its Secret are read again.
const FILES_AGE: Duration = Duration::from_secs(30);
/// How many answers, and how many open repositories, are kept before old ones are removed.
const CHECKED: usize = 512;
const OPENED: usize = 32;

/// Values that are read again when they are old. If there are several callers, one reads the value and the others
/// wait for it.
pub(super) struct Remembered<K, V, const KEPT: usize>(Mutex<HashMap<K, Slot<V>>>);

type Slot<V> = Arc<tokio::sync::Mutex<Option<(Instant, V)>>>;

/// Whether tasks are recorded, by the UID of their objects and their own.
pub(super) type Checked = Remembered<(String, String), bool, CHECKED>;
/// Open repositories, by their keys.
pub(super) type OpenFiles = Remembered<String, Arc<StoredFiles>, OPENED>;

impl<K, V, const KEPT: usize> Default for Remembered<K, V, KEPT> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone, const KEPT: usize> Remembered<K, V, KEPT> {
    async fn get<E>(&self, key: K, age: Duration, ask: impl Future<Output = Result<V, E>>) -> Result<V, E> {
        let slot = self.slot(key, age);
        let mut known = slot.lock().await;
        if let Some((since, value)) = known.as_ref()
            && since.elapsed() < age
        {
            return Ok(value.clone());
        }
        let value = ask.await?;
        *known = Some((Instant::now(), value.clone()));
        Ok(value)
    }

    fn slot(&self, key: K, age: Duration) -> Slot<V> {
        let mut slots = locked(&self.0);
        if slots.len() >= KEPT && !slots.contains_key(&key) {
            let is_young = |slot: &Slot<V>| {
                let Ok(known) = slot.try_lock() else { return true };
                known.as_ref().is_some_and(|(since, _)| since.elapsed() < age)
            };
            slots.retain(|_, slot| is_young(slot));
        }
        slots.entry(key).or_default().clone()
    }
}

#[async_trait]
impl Gatekeeper for Gateway {
    async fn grant(&self, token: &str) -> Result<Grant, NoGrant> {
        let secrets = self.secrets().await.map_err(|error| NoGrant::Unavailable(error.chain()))?;
        let claims = open(token, &secrets.token, self.shared.core.now()).map_err(|error| match error {
            TokenError::Forged => NoGrant::Invalid,
            TokenError::Expired => NoGrant::Expired,
        })?;
        let asked = (claims.owner_uid.clone(), claims.task.clone());
        let is_open = self.shared.checked.get(asked, TASK_AGE, self.is_open(&claims)).await?;
        let access = match (is_open, claims.rights) {
            (false, _) => FileAccess::Ended,
            (true, Rights::Backup) => FileAccess::Add,
            (true, Rights::Restore) => FileAccess::Read,
        };
        let lock_user = lock_user(&claims.task);
        Ok(Grant { repository: claims.repository, task: claims.task, access, lock_user })
    }

    async fn files(&self, grant: &Grant) -> Result<Arc<dyn RepositoryFiles>, FilesError> {
        let asked = grant.repository.clone();
        let files = self.shared.opened.get(asked, FILES_AGE, self.open_files(grant)).await;
        match files {
            Ok(files) => Ok(files),
            Err(problem) => {
                let (repository, message) = (&grant.repository, problem.chain());
                tracing::warn!(
                    repository,
                    task = grant.task,
                    category = problem.category(),
                    message,
                    "the gateway cannot open a repository"
                );
                let reason = "repository";
                Err(match problem.retry() {
                    Retry::Never => FilesError::Failed { reason },
                    Retry::Later | Retry::Now => FilesError::Busy { reason },
                })
            }
        }
    }
}

impl Gateway {
    /// Whether the object that a token names has recorded its task.
    async fn is_open(&self, claims: &Claims) -> Result<bool, NoGrant> {
        let task = TaskId::new(&claims.task);
        let state = self.shared.movers.task_state(&claims.namespace, &claims.owner(), &task).await;
        let state = state.map_err(|error| NoGrant::Unavailable(error.chain()))?;
        Ok(state == TaskState::Open)
    }

    async fn open_files(&self, grant: &Grant) -> Result<Arc<StoredFiles>, RepositoryProblem> {
        let unknown = || RepositoryProblem::Unusable("this server does not serve its API".to_owned());
        let (storage, name) = grant.repository.split_once('/').ok_or_else(unknown)?;
        let key = RepositoryKey::new(StorageName::new(storage), RepositoryName::new(name));
        let access = self.source(&key).ok_or_else(unknown)?.access(&key).await?;
        let repository = self.shared.repositories.open(&access).await?;
        Ok(Arc::new(StoredFiles::new(repository)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_asked_for_again_when_it_is_old_and_old_ones_are_removed() {
        let (remembered, age) = (Remembered::<u32, u32, 4>::default(), Duration::from_secs(10));
        let ask = |key, answer| remembered.get(key, age, async move { Ok::<_, Infallible>(answer) });
        assert_eq!((ask(1, 5).await, ask(1, 6).await), (Ok(5), Ok(5)));
        tokio::time::advance(age).await;
        assert_eq!(ask(1, 7).await, Ok(7));
        tokio::time::advance(age).await;
        for key in 2..20 {
            assert_eq!(ask(key, key).await, Ok(key));
            tokio::time::advance(age).await;
        }
        assert!(locked(&remembered.0).len() <= 4);
    }

    #[tokio::test]
    async fn a_failure_is_not_remembered() {
        let remembered = Remembered::<u32, u32, 4>::default();
        let age = Duration::from_secs(10);
        assert_eq!(remembered.get(1, age, async { Err::<u32, _>("away") }).await, Err("away"));
        assert_eq!(remembered.get(1, age, async { Ok::<_, &str>(3) }).await, Ok(3));
    }
}
