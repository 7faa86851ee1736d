//! Restores members with a task: databases, and targets with a Task of the user. Each has one host, to which one
//! mover sends the data.

use std::collections::BTreeSet;

use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::databases::Direction;
use lifeboat_plan::stash::hosts::{HostName, HostOf, TargetKind};
use lifeboat_plan::stash::in_place::InPlace;
use lifeboat_plan::stash::invoker::ValidRestoreMember;
use lifeboat_plan::stash::rules::{RestoreInto, RestoreRequest, rule_of, select};
use lifeboat_plan::stash::session::RestoreArgs;
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::targets::{CleanPath, MoverParts, MoverSource};
use lifeboat_plan::stash::tasks::{Interim, is_volume_task};
use lifeboat_plan::stash::variables::SystemVariables;
use lifeboat_transfer::attempts::run_transfer;
use lifeboat_transfer::gateway::Rights;
use tokio_util::sync::CancellationToken;

use super::choice::{WritePart, is_restored};
use super::copies::Copies;
use super::find::{Ready, Tried, failed};
use super::found::FoundMember;
use super::work::RestoreWork;
use super::writing::Writing;
use crate::sessions::engine::NoHosts;
use crate::sessions::host_record::HostRecord;
use crate::sessions::pod::{PodRequest, job_of, pod_settings_on};
use crate::sessions::tasks::task_base;
use crate::sessions::volumes::{Claims, of_target};
use crate::tasks::{TaskProblem, TaskRequest, TaskWork, has_task, task_work};

/// Whether a task restores the member.
pub(super) fn is_for(member: &ValidRestoreMember) -> bool {
    let kind = kind(member);
    let name = member.task.as_ref().map(|task| task.name.as_str()).unwrap_or_default();
    if member.target.as_ref().is_some_and(|target| target.reference.is_none()) && name.is_empty() {
        // Claims are created from templates.
        return false;
    }
    let is_of_volumes = kind != Some(TargetKind::AppBinding) && is_volume_task(name);
    !is_of_volumes && has_task(kind, member.task.as_ref())
}

fn kind(member: &ValidRestoreMember) -> Option<TargetKind> {
    let target = member.target.as_ref()?;
    target.reference.as_ref().map(|(_, kind)| *kind)
}

fn host_name(member: &ValidRestoreMember) -> HostName {
    let alias = member.target.as_ref().and_then(|target| target.alias.as_deref());
    HostName::of(alias, &HostOf::Whole)
}

/// Finds the task of the member, and the snapshots for its host.
pub(super) async fn try_find(
    work: &RestoreWork,
    member: usize,
    valid: &ValidRestoreMember,
) -> Result<Tried, NoHosts> {
    if work.object.rollback_of().is_some() {
        return Err(failed("a restore by a task has no safety copy to go back to"));
    }
    let task = match find_task(work, valid).await {
        Err(TaskProblem::Api(error)) => return Err(error.into()),
        Err(missing @ TaskProblem::NoApp { .. }) => {
            return Ok(Tried::Waits(ConditionType::RestoreTargetFound.no(missing.to_string())));
        }
        Err(problem) => return Err(NoHosts::Failed(problem.to_string())),
        Ok(task) => task,
    };
    let rules = &valid.rules.rules;
    let has_patterns = |list: Option<&Vec<String>>| list.is_some_and(|list| !list.is_empty());
    let chooses =
        rules.iter().any(|rule| has_patterns(rule.include.as_ref()) || has_patterns(rule.exclude.as_ref()));
    if chooses && !task.has_files() {
        return Err(failed(
            "rules: include and exclude choose files, and a dump is restored whole; remove them",
        ));
    }
    let snapshots = match Box::pin(work.snapshots()).await? {
        Ok(snapshots) => snapshots,
        Err(observed) => return Ok(Tried::Waits(observed)),
    };
    let hosts = vec![host_name(valid)];
    let request = RestoreRequest { rules: rules.clone(), hosts, into: RestoreInto::Task, snapshots };
    let selection = select(&request);
    if let Some(problem) = selection.problem() {
        return Err(NoHosts::Failed(problem));
    }
    let on = work.on(member, claims(work, member).await?);
    let busy = work.busy(member, &on).await?;
    if let Some(reason) = busy.or_else(|| work.take_turn(member, &on)) {
        return Ok(Tried::Queued { reason, on });
    }
    locked(&work.tasks).insert(member, task);
    let found = FoundMember::default();
    Ok(Tried::Found(Box::new(Ready {
        found,
        on,
        selection,
        copies: Copies::default(),
        way: InPlace::AtOnce,
        uid: String::new(),
    })))
}

/// The claims of a target that a user's task restores.
async fn claims(work: &RestoreWork, member: usize) -> Result<BTreeSet<String>, ApiError> {
    let Some((kind, key)) = work.target(member).filter(|(kind, _)| kind.is_workload()) else {
        return Ok(BTreeSet::new());
    };
    let core = &work.context.core;
    let existing = Claims::read(core, &key.namespace).await?;
    Ok(of_target(core, &existing, key, kind).await?.on.claims)
}

/// Finds the task of a member whose host is recorded. If the task no longer exists, the host fails.
pub(super) async fn find_again(
    work: &RestoreWork,
    member: usize,
    valid: &ValidRestoreMember,
) -> Result<(), NoHosts> {
    match find_task(work, valid).await {
        Err(TaskProblem::Api(error)) => Err(error.into()),
        Err(_) => Ok(()),
        Ok(task) => {
            locked(&work.tasks).insert(member, task);
            Ok(())
        }
    }
}

async fn find_task(work: &RestoreWork, valid: &ValidRestoreMember) -> Result<TaskWork, TaskProblem> {
    let host = host_name(valid);
    let rule = rule_of(&valid.rules.rules, &host);
    let list = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
    let source = rule.and_then(|rule| rule.source_host.clone()).filter(|source| !source.is_empty());
    let request = TaskRequest {
        direction: Direction::Restore,
        namespace: &work.record.namespace,
        task: valid.task.as_ref(),
        target: valid.target.as_ref().and_then(|target| {
            let (key, kind) = target.reference.as_ref()?;
            Some((*kind, key))
        }),
        key: work.key(),
        interim: Interim {
            temporary: valid.spec.temp_dir.as_ref(),
            template: valid.spec.interim_volume_template.as_ref(),
        },
        runtime: valid.spec.runtime_settings.as_ref(),
        variables: SystemVariables {
            invoker_kind: work.object.kind.as_str().to_owned(),
            invoker_name: work.record.name.clone(),
            restore_session: Some(work.record.name.clone()),
            source_host: source.unwrap_or_else(|| host.to_string()),
            host: host.to_string(),
            include: list(rule.and_then(|rule| rule.include.as_ref())),
            exclude: list(rule.and_then(|rule| rule.exclude.as_ref())),
            restore_paths: list(rule.and_then(|rule| rule.paths.as_ref())),
            restore_snapshots: list(rule.and_then(|rule| rule.snapshots.as_ref())),
            disable_caching: valid.spec.temp_dir.as_ref().is_some_and(|settings| settings.disable_caching),
            ..SystemVariables::default()
        },
    };
    // Upstream's tasks for claims do not count as tasks here; see `is_for`.
    let found = task_work(&work.context, request).await?;
    found.ok_or_else(|| {
        let name = valid.task.as_ref().map(|task| task.name.clone()).unwrap_or_default();
        lifeboat_plan::stash::tasks::TaskError::NoTask { name }.into()
    })
}

/// Runs the task of the member's host.
pub(super) async fn run(
    work: &RestoreWork,
    member: usize,
    cancel: &CancellationToken,
) -> Result<(), ApiError> {
    let task = locked(&work.tasks).get(&member).cloned();
    let found = FoundMember::default();
    if work.member_state(member).await.all_hosts_ended() {
        return work.settle_blocking(member, &found).await;
    }
    if !cancel.is_cancelled() && !work.block_backups(member, &found, cancel).await? {
        return work.settle_blocking(member, &found).await;
    }
    for record in work.hosts(member).await {
        let state = record.state().await;
        if state.phase.has_ended() {
            continue;
        }
        let Some(task) = &task else {
            record.failed("the task of the member, or its AppBinding, does not exist any more").await?;
            continue;
        };
        let parts = parts_of(work, member, &state);
        if !parts.iter().all(|part| is_restored(&state, part)) {
            record.patiently(cancel, || send(work, &record, task, parts.clone(), cancel)).await?;
        }
        let now = record.state().await;
        if !now.phase.has_ended() && parts.iter().all(|part| is_restored(&now, part)) {
            record.succeeded().await?;
        }
    }
    work.settle_blocking(member, &found).await
}

/// The data that is restored into the host, from its record.
fn parts_of(work: &RestoreWork, member: usize, host: &HostState) -> Vec<WritePart> {
    let rules = work.member(member).map(|member| member.rules.rules.as_slice()).unwrap_or_default();
    let rule = rule_of(rules, &host.name);
    let patterns = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
    let part = |chosen: &lifeboat_api::stash::RestoredPath| {
        Some(WritePart {
            exact: false,
            snapshot: chosen.snapshot.clone(),
            path: CleanPath::stored(&chosen.path)?,
            volume: String::new(),
            sub_path: None,
            include: patterns(rule.and_then(|rule| rule.include.as_ref())),
            exclude: patterns(rule.and_then(|rule| rule.exclude.as_ref())),
        })
    };
    host.paths.iter().filter_map(part).collect()
}

async fn send(
    work: &RestoreWork,
    record: &HostRecord,
    task: &TaskWork,
    parts: Vec<WritePart>,
    cancel: &CancellationToken,
) -> Result<(), ApiError> {
    let source = MoverSource::Volumes { volumes: Vec::new(), node: None };
    let base = task_base(&work.record.uid, record.member, &record.host, 0);
    let transfer = work.transfer(record, base, &source, false).await;
    let Some(transfer) = work.admitted(record, transfer, Rights::Restore).await? else { return Ok(()) };
    let core = &work.context.core;
    let job = job_of(&transfer, TaskWork::place());
    let member = work.member(record.member);
    let target = member.and_then(|member| member.target.as_ref());
    let runtime = member.and_then(|member| member.spec.runtime_settings.as_ref());
    let request = PodRequest { job: &job, runtime, target: None };
    let pod = match pod_settings_on(core, task.base(job.pod.clone()), &request).await? {
        Ok(pod) => pod,
        Err(error) => return record.failed(error.to_string()).await.map(drop),
    };
    let writing = Writing {
        transfer,
        record: record.clone(),
        parts: MoverParts { source, parts },
        pod,
        args: target.map_or_else(RestoreArgs::default, |target| target.args.clone()),
        task: Some(task.clone()),
    };
    run_transfer(&writing, cancel).await
}
