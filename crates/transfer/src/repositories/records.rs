//! What a repository needs from its API: how to reach it, and where its state is recorded.

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;

use super::{Access, RepositoryKey, RepositoryProblem};

/// Builds the access to a repository from settings and Secrets as they are now.
#[async_trait]
pub trait AccessSource: Send + Sync {
    async fn access(&self, key: &RepositoryKey) -> Result<Access, RepositoryProblem>;
}

/// Where the state of repositories is recorded, for people and for the controller that maintains them.
#[async_trait]
pub trait RepositoryRecords: Send + Sync {
    /// Called before data is stored: creates the record if needed, and clears its mark that the repository was
    /// emptied.
    async fn expect_data(&self, access: &Access) -> Result<(), ApiError>;
    /// Records whether the repository could be opened: None, or the reason for people.
    async fn set_state(&self, access: &Access, problem: Option<String>) -> Result<(), ApiError>;
    /// Records whether Lifeboat forgot the last snapshot.
    async fn set_emptied(&self, key: &RepositoryKey, emptied: bool) -> Result<(), ApiError>;
    /// Records that a snapshot which the mover of this task may still store, until its deadline, is to be forgotten.
    async fn note_given_up(
        &self,
        key: &RepositoryKey,
        task: &TaskId,
        deadline: Timestamp,
    ) -> Result<(), ApiError>;
    /// Records that the locks of this owner, which has ended for certain, are to be removed.
    async fn note_dead_owner(&self, key: &RepositoryKey, owner: &str) -> Result<(), ApiError>;
}

/// Reaches repositories and records their state.
pub trait RepositoryHost: AccessSource + RepositoryRecords {}

impl<T: AccessSource + RepositoryRecords> RepositoryHost for T {}
