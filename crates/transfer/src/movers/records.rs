//! Whose task a Job is: the proof comes from the object that the Job names, not from the Job's labels, which anybody with
//! rights in its namespace can write.

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_plan::transfer::movers::{Owner, job};
use serde_json::Value;

use super::Movers;

/// What the record of an object says about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The object has this task on record and needs its mover.
    Open,
    /// The object is gone or has ended: its mover is not needed any more.
    Over,
    /// The object is there and does not know this task.
    Unrecorded,
    /// The kind of the object is unknown to this server.
    Unknown,
}

/// Answers from the objects of each API whether a task is on record.
#[async_trait]
pub trait TaskRecords: Send + Sync {
    async fn state(&self, owner: &Owner, task: &str) -> Result<TaskState, ApiError>;
}

impl Movers {
    /// Whether a Job was made by this server. In the movers' own namespace only Lifeboat makes Jobs; elsewhere the object
    /// that the Job names must have its task on record.
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
