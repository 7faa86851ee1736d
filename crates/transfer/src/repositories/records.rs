//! What a repository needs from the API that it belongs to: how to reach it, and where its state is written down.

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;

use super::{Access, RepositoryKey, RepositoryProblem};

/// Finds what reaches and opens a repository, from settings and Secrets as they are now.
#[async_trait]
pub trait AccessSource: Send + Sync {
    async fn access(&self, key: &RepositoryKey) -> Result<Access, RepositoryProblem>;
}

/// Where the state of repositories is written down for people and for the controller that looks after them.
#[async_trait]
pub trait RepositoryRecords: Send + Sync {
    /// Data is about to be stored: the record exists after this, and does not say that the repository was emptied.
    async fn expect_data(&self, access: &Access) -> Result<(), ApiError>;
    /// Whether the repository could be opened: None, or the reason for people.
    async fn set_state(&self, access: &Access, problem: Option<String>) -> Result<(), ApiError>;
    /// Whether the last snapshot was forgotten by Lifeboat.
    async fn set_emptied(&self, key: &RepositoryKey, emptied: bool) -> Result<(), ApiError>;
    /// A snapshot that the mover of this task may still store until its deadline is to be forgotten.
    async fn note_given_up(
        &self,
        key: &RepositoryKey,
        task: &TaskId,
        deadline: Timestamp,
    ) -> Result<(), ApiError>;
    /// The locks of this owner, whose end was reported, are to be removed.
    async fn note_dead_owner(&self, key: &RepositoryKey, owner: &str) -> Result<(), ApiError>;
}

/// Both together.
pub trait RepositoryHost: AccessSource + RepositoryRecords {}

impl<T: AccessSource + RepositoryRecords> RepositoryHost for T {}
