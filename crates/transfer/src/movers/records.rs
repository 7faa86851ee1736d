//! Which Jobs belong to this server. The proof is the object that the Job names, not the Job's labels, because anyone
//! with permissions in its namespace can write labels.

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_plan::transfer::movers::{Owner, job};
use serde_json::Value;

use super::Movers;

/// What an object's record says about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The object has recorded this task and needs its mover.
    Open,
    /// The object is gone or has ended: its mover is not needed any more.
    Over,
    /// The object exists and has not recorded this task.
    Unrecorded,
    /// The kind of the object is unknown to this server.
    Unknown,
}

/// Answers, from the objects of each API, whether a task is recorded.
#[async_trait]
pub trait TaskRecords: Send + Sync {
    async fn state(&self, owner: &Owner, task: &str) -> Result<TaskState, ApiError>;
}

impl Movers {
    /// Whether this server created a Job. In the movers' own namespace only Lifeboat creates Jobs; elsewhere the
    /// object that the Job names must have recorded its task.
    pub(super) async fn is_ours(&self, job: &Value) -> Result<bool, ApiError> {
        if job["metadata"]["namespace"] == *self.settings.namespace {
            return Ok(true);
        }
        match job::read(job) {
            Some(made) => Ok(self.records.state(&made.owner, &made.candidate.uid).await? == TaskState::Open),
            None => Ok(false),
        }
    }
}
