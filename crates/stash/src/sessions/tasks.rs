//! Tasks of movers for sessions: their names, and the proof that a Job belongs to a session. A Job in a tenant's namespace counts only
//! if the session that it names has its task on record: labels are claims of whoever may create Jobs there.

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::TaskId;
use lifeboat_api::stash::Repository;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::repository::fate::host_digest;
use lifeboat_plan::stash::state::SessionState;
use lifeboat_plan::transfer::attempts::task_uid;
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_transfer::movers::{TaskRecords, TaskState};

use super::kind::SessionKind;
use crate::repository::controller::task_state;

/// What the tasks of one mover of a host have in common: the session, the member, the host and, from the second mover on, its number.
pub(super) fn task_base(session: &str, member: usize, host: &HostName, mover: usize) -> String {
    let base = format!("{session}.{member}.{}", host_digest(host.as_str()));
    if mover == 0 { base } else { format!("{base}.{mover}") }
}

/// What the tasks of a mover have in common that copies what a restore overwrites.
pub(super) fn safety_base(session: &str, member: usize, host: &HostName, mover: usize) -> String {
    format!("{}.safety", task_base(session, member, host, mover))
}

/// The kind whose objects have tasks of maintenance.
const REPOSITORY: &str = "Repository";

/// Which tasks sessions and Repositories have on record.
pub(crate) struct SessionTasks(pub(crate) Core);

#[async_trait]
impl TaskRecords for SessionTasks {
    async fn state(&self, _namespace: &str, owner: &Owner, task: &TaskId) -> Result<TaskState, ApiError> {
        if owner.kind == REPOSITORY {
            let resource = objects::resource_of::<Repository>();
            let api = objects::namespaced(&self.0.client, &owner.namespace, &resource);
            let attempt = format!("read Repository {}/{}", owner.namespace, owner.name);
            let found = api.get_opt(&owner.name).await.attempt(attempt)?;
            return Ok(
                found.map_or(TaskState::Over, |found| task_state(&objects::to_json(&found), owner, task))
            );
        }
        let Some(kind) = SessionKind::of(&owner.kind) else { return Ok(TaskState::Unknown) };
        let api = objects::namespaced(&self.0.client, &owner.namespace, &kind.resource());
        let attempt = format!("read {} {}/{}", owner.kind, owner.namespace, owner.name);
        let found = api.get_opt(&owner.name).await.attempt(attempt)?;
        let Some(found) = found.filter(|found| found.uid().as_deref() == Some(owner.uid.as_str())) else {
            return Ok(TaskState::Over);
        };
        let Ok(state) = kind.read(&found) else { return Ok(TaskState::Unknown) };
        Ok(state_of(&state, &owner.uid, task))
    }
}

/// Movers of one host at most: one for each volume that needs a mover of its own.
const MOST_MOVERS: usize = 64;

fn state_of(state: &SessionState, session: &str, task: &TaskId) -> TaskState {
    if state.phase.has_ended() {
        return TaskState::Over;
    }
    for (member, of_member) in state.members.iter().enumerate() {
        for host in &of_member.hosts {
            let bases = |mover: usize| {
                let of_data = task_base(session, member, &host.name, mover);
                [of_data, safety_base(session, member, &host.name, mover)]
            };
            let is_own = |base: String| {
                task.as_str().starts_with(&format!("{base}-"))
                    && host.run.attempt.is_some_and(|last| {
                        (1..=u64::try_from(last).unwrap_or(0))
                            .any(|attempt| task_uid(&base, attempt) == *task)
                    })
            };
            if (0..MOST_MOVERS).flat_map(bases).any(is_own) {
                return if host.phase.has_ended() { TaskState::Over } else { TaskState::Open };
            }
        }
    }
    TaskState::Unrecorded
}
