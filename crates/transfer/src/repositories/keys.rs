//! What opens the repository of a mover. It is read when the mover's turn has come: until then credentials may be
//! exchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_mover::task::RepositoryAccess;
use secrecy::SecretSlice;

use super::{AccessSource, RepositoryKey, RepositoryProblem};

/// Reads what opens a repository, as it is now.
#[async_trait]
pub trait Keys: Send + Sync {
    async fn read(&self) -> Result<Key, RepositoryProblem>;
}

/// What opens a repository.
pub struct Key {
    /// As the task file names it; None for a task without a repository.
    pub repository: Option<RepositoryAccess>,
    /// The files beside the task file, by name: never in arguments, logs or status.
    pub files: BTreeMap<String, SecretSlice<u8>>,
}

/// What opens the repository of a key.
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

/// Of a task without a repository: a call.
pub struct NoKeys;

#[async_trait]
impl Keys for NoKeys {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        Ok(Key { repository: None, files: BTreeMap::new() })
    }
}
