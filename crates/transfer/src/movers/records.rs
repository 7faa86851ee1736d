//! Which Jobs belong to this server. The proof is the object that the Job names, not the Job's labels, because anyone
//! with permissions in its namespace can write labels.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_plan::transfer::movers::job::{self, MoverRecord};
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
    /// The kind of the object is not one of this API's.
    Unknown,
}

/// Answers, from the objects of one API, whether a task is recorded.
#[async_trait]
pub trait TaskRecords: Send + Sync {
    /// `namespace` is that of the Job or Secret which names the task and its object.
    async fn state(&self, namespace: &str, owner: &Owner, task: &TaskId) -> Result<TaskState, ApiError>;
}

/// The records of all APIs of a server. Clones share them.
#[derive(Clone, Default)]
pub(super) struct AllRecords(Arc<Mutex<Vec<Arc<dyn TaskRecords>>>>);

impl AllRecords {
    pub(super) fn add(&self, records: Arc<dyn TaskRecords>) {
        locked(&self.0).push(records);
    }

    /// The answer of the API that knows the object's kind.
    async fn state(&self, namespace: &str, owner: &Owner, task: &TaskId) -> Result<TaskState, ApiError> {
        let apis = locked(&self.0).clone();
        for records in apis {
            match records.state(namespace, owner, task).await? {
                TaskState::Unknown => {}
                known => return Ok(known),
            }
        }
        Ok(TaskState::Unknown)
    }
}

impl Movers {
    /// What the records say about the task of a Job or Secret.
    pub(super) async fn state(&self, made: &MoverRecord) -> Result<TaskState, ApiError> {
        self.task_state(made.namespace.as_str(), &made.owner, &made.candidate.task).await
    }

    /// What the records say about a task. `namespace` is that of its mover.
    pub(crate) async fn task_state(
        &self,
        namespace: &str,
        owner: &Owner,
        task: &TaskId,
    ) -> Result<TaskState, ApiError> {
        self.records.state(namespace, owner, task).await
    }

    /// Whether this server created a Job. In the movers' own namespace only Lifeboat creates Jobs; elsewhere the
    /// object that the Job names must have recorded its task.
    pub(super) async fn is_ours(&self, job: &Value) -> Result<bool, ApiError> {
        if job["metadata"]["namespace"] == *self.settings.namespace {
            return Ok(true);
        }
        match job::read(job) {
            Some(made) => Ok(self.state(&made).await? == TaskState::Open),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An API with one kind, whose tasks all stand the same.
    struct OneKind(&'static str, TaskState);

    #[async_trait]
    impl TaskRecords for OneKind {
        async fn state(&self, _: &str, owner: &Owner, _: &TaskId) -> Result<TaskState, ApiError> {
            Ok(if owner.kind == self.0 { self.1 } else { TaskState::Unknown })
        }
    }

    #[tokio::test]
    async fn the_api_that_knows_the_kind_of_an_object_answers_for_its_tasks() {
        let all = AllRecords::default();
        all.add(Arc::new(OneKind("First", TaskState::Open)));
        all.clone().add(Arc::new(OneKind("Second", TaskState::Over)));
        for (kind, expected) in
            [("First", TaskState::Open), ("Second", TaskState::Over), ("Third", TaskState::Unknown)]
        {
            let object = json!({"metadata": {
                "labels": {"app.kubernetes.io/name": "lifeboat-mover", "lifeboat.io/owner-kind": kind},
                "annotations": {"lifeboat.io/task": "u-1"}}});
            let made = job::read(&object).unwrap();
            let state = all.state(made.namespace.as_str(), &made.owner, &made.candidate.task).await;
            assert_eq!(state.unwrap(), expected, "{kind}");
        }
    }
}
