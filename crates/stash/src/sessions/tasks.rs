//! Tasks of movers for sessions: their names, and the proof that a Job belongs to a session. A Job in a tenant's
//! namespace counts only if the session that it names has recorded its task, because every user who may create Jobs
//! there can write any label.

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::TaskId;
use lifeboat_api::stash::{HookPhase, Repository};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::repository::fate::host_digest;
use lifeboat_plan::stash::state::conditions::{ConditionType, Truth};
use lifeboat_plan::stash::state::{HostState, SessionState};
use lifeboat_plan::transfer::attempts::task_uid;
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_transfer::movers::{TaskRecords, TaskState};

use super::kind::SessionKind;
use crate::repository::controller::task_state;

/// The common prefix of the tasks of one mover of a host: the session, the member, the host and, from the second
/// mover on, its number.
pub(super) fn task_base(session: &str, member: usize, host: &HostName, mover: usize) -> String {
    let base = format!("{session}.{member}.{}", host_digest(host.as_str()));
    if mover == 0 { base } else { format!("{base}.{mover}") }
}

/// The common prefix of the tasks of a mover that makes a safety copy.
pub(super) fn safety_base(session: &str, member: usize, host: &HostName, mover: usize) -> String {
    format!("{}.safety", task_base(session, member, host, mover))
}

/// The kind whose objects have tasks of maintenance.
const REPOSITORY: &str = "Repository";

/// The tasks that sessions and Repositories have recorded.
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

/// When a hook runs, as a part of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookMark {
    Pre,
    Post,
}

impl HookMark {
    const ALL: [Self; 2] = [Self::Pre, Self::Post];

    fn as_str(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
        }
    }
}

/// The task of a call before or after a host.
pub(super) fn hook_task(session: &str, member: usize, host: &HostName, mark: HookMark) -> TaskId {
    task_uid(&format!("{}.{}", task_base(session, member, host, 0), mark.as_str()), 1)
}

/// The task of a call before or after all members of a batch.
pub(super) fn batch_hook_task(session: &str, mark: HookMark) -> TaskId {
    task_uid(&format!("{session}.batch.{}", mark.as_str()), 1)
}

fn state_of(state: &SessionState, session: &str, task: &TaskId) -> TaskState {
    if state.has_ended() {
        return TaskState::Over;
    }
    if let Some(mark) = HookMark::ALL.into_iter().find(|mark| batch_hook_task(session, *mark) == *task) {
        return open_while(has_batch_hook_begun(state, mark));
    }
    for (member, of_member) in state.members.iter().enumerate() {
        for host in &of_member.hosts {
            if let Some(found) = state_of_host(host, session, member, task) {
                return found;
            }
        }
    }
    TaskState::Unrecorded
}

/// The record of a host about a task; None if the task is not one of the host's.
fn state_of_host(host: &HostState, session: &str, member: usize, task: &TaskId) -> Option<TaskState> {
    let hooks = [(HookMark::Pre, &host.run.pre_hook), (HookMark::Post, &host.run.post_hook)];
    for (mark, phase) in hooks {
        if hook_task(session, member, &host.name, mark) == *task {
            return Some(open_while(*phase == Some(HookPhase::Started)));
        }
    }
    let bases = |mover: usize| {
        let of_data = task_base(session, member, &host.name, mover);
        [of_data, safety_base(session, member, &host.name, mover)]
    };
    let attempt = (0..MOST_MOVERS).flat_map(bases).find_map(|base| {
        let attempt = task.as_str().strip_prefix(&format!("{base}-"))?.parse().ok()?;
        (task_uid(&base, attempt) == *task).then_some(attempt)
    })?;
    let last = host.run.attempt.and_then(|last| u64::try_from(last).ok()).unwrap_or(0);
    Some(if host.phase.has_ended() {
        TaskState::Over
    } else if (1..=last).contains(&attempt) {
        TaskState::Open
    } else {
        TaskState::Unrecorded
    })
}

fn open_while(is_open: bool) -> TaskState {
    if is_open { TaskState::Open } else { TaskState::Over }
}

/// Whether the hook of a batch began and has not ended: its condition is Unknown.
fn has_batch_hook_begun(state: &SessionState, mark: HookMark) -> bool {
    let kinds = match mark {
        HookMark::Pre => {
            [ConditionType::GlobalPreBackupHookSucceeded, ConditionType::GlobalPreRestoreHookSucceeded]
        }
        HookMark::Post => {
            [ConditionType::GlobalPostBackupHookSucceeded, ConditionType::GlobalPostRestoreHookSucceeded]
        }
    };
    kinds.iter().any(|kind| kind.status_in(&state.conditions) == Some(Truth::Unknown))
}

#[cfg(test)]
mod tests {
    use lifeboat_api::stash::HostRun;
    use lifeboat_plan::stash::state::{MemberState, SessionPhase, WorkPhase};
    use rstest::rstest;

    use super::*;

    fn state(phase: WorkPhase, run: HostRun) -> SessionState {
        let host = HostState { name: HostName("app".into()), phase, run, ..HostState::default() };
        let member = MemberState { hosts: vec![host], ..MemberState::default() };
        SessionState { phase: SessionPhase::Running, members: vec![member], ..SessionState::default() }
    }

    fn second_attempt() -> HostRun {
        HostRun { attempt: Some(2), ..HostRun::default() }
    }

    fn task(mover: usize, attempt: u64) -> TaskId {
        task_uid(&task_base("s", 0, &HostName("app".into()), mover), attempt)
    }

    #[rstest]
    #[case::the_last_attempt(task(0, 2), WorkPhase::Running, TaskState::Open)]
    #[case::an_earlier_attempt(task(0, 1), WorkPhase::Running, TaskState::Open)]
    #[case::the_second_mover(task(1, 1), WorkPhase::Running, TaskState::Open)]
    #[case::a_safety_copy(task_uid(&safety_base("s", 0, &HostName("app".into()), 1), 1), WorkPhase::Running, TaskState::Open)]
    #[case::not_yet_recorded(task(0, 3), WorkPhase::Running, TaskState::Unrecorded)]
    #[case::the_host_has_ended(task(0, 2), WorkPhase::Failed, TaskState::Over)]
    #[case::another_host(TaskId::new("s.0.00000000-1"), WorkPhase::Running, TaskState::Unrecorded)]
    #[case::another_member(task_uid(&task_base("s", 1, &HostName("app".into()), 0), 1), WorkPhase::Running, TaskState::Unrecorded)]
    fn a_mover_counts_while_its_host_has_its_attempt_on_record(
        #[case] task: TaskId,
        #[case] phase: WorkPhase,
        #[case] expected: TaskState,
    ) {
        assert_eq!(state_of(&state(phase, second_attempt()), "s", &task), expected);
    }

    #[rstest]
    #[case::running(Some(HookPhase::Started), TaskState::Open)]
    #[case::ended(Some(HookPhase::Succeeded), TaskState::Over)]
    #[case::never_began(None, TaskState::Over)]
    fn the_call_of_a_hook_counts_while_the_hook_runs_also_after_its_host(
        #[case] post_hook: Option<HookPhase>,
        #[case] expected: TaskState,
    ) {
        let state = state(WorkPhase::Succeeded, HostRun { post_hook, ..HostRun::default() });
        let task = hook_task("s", 0, &HostName("app".into()), HookMark::Post);
        assert_eq!(state_of(&state, "s", &task), expected);
    }

    #[test]
    fn the_call_of_a_batch_counts_while_its_condition_is_unknown_and_no_task_after_the_end() {
        let mut state = state(WorkPhase::Running, second_attempt());
        let task = batch_hook_task("s", HookMark::Pre);
        assert_eq!(state_of(&state, "s", &task), TaskState::Over);
        let now = jiff::Timestamp::UNIX_EPOCH;
        state.observe(&ConditionType::GlobalPreBackupHookSucceeded.observed(Truth::Unknown, ""), now);
        assert_eq!(state_of(&state, "s", &task), TaskState::Open);
        state.phase = SessionPhase::Failed;
        assert_eq!(state_of(&state, "s", &task), TaskState::Over);
        assert_eq!(state_of(&state, "s", &self::task(0, 2)), TaskState::Over);
    }
}
