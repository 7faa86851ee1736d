//! The credentials that open a mover's repository. They are read when the mover's turn comes, because they may be
//! replaced while it waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_mover::task::RepositoryAccess;
use secrecy::SecretSlice;

use super::{AccessSource, RepositoryKey, RepositoryProblem};

/// Reads the credentials of a repository as they are now.
#[async_trait]
pub trait Keys: Send + Sync {
    async fn read(&self) -> Result<Key, RepositoryProblem>;
}

/// The credentials of a repository, as a mover gets them.
pub struct Key {
    /// The repository as the task file describes it; None for a task without a repository.
    pub repository: Option<RepositoryAccess>,
    /// The files beside the task file, by name: never in arguments, logs or status.
    pub files: BTreeMap<String, SecretSlice<u8>>,
}

/// Reads the credentials of the repository with this key through an [`super::AccessSource`].
pub struct SourceKeys {
    pub source: Arc<dyn AccessSource>,
    pub key: RepositoryKey,
}

#[async_trait]
impl Keys for SourceKeys {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        let access = self.source.access(&self.key).await?;
        Ok(Key { repository: Some(access.task), files: access.files })
    }
}

/// The credentials of a task without a repository, such as a call.
pub struct NoKeys;

#[async_trait]
impl Keys for NoKeys {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        Ok(Key { repository: None, files: BTreeMap::new() })
    }
}
