//! Looks for the targets of an invoker, and for what it names in them: volumes, tasks, Secrets of databases. A name that is
//! not found is only a remark, because a session may find what is in pods and not in their template.

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::databases::Direction;
use lifeboat_plan::stash::invoker::{Presence, ValidBackup, ValidDriver, ValidMember};
use lifeboat_plan::stash::targets::unknown_volumes;
use lifeboat_plan::stash::tasks::{Interim, TaskError};
use lifeboat_plan::stash::variables::SystemVariables;
use serde_json::Value;

use crate::context::Context;
use crate::repository::key_of;
use crate::target::{TargetName, workload};
use crate::tasks::{TaskProblem, TaskRequest, has_task, task_work};

/// For each member, whether its target exists, and what of the names in it does not.
type Found = (Vec<Option<Presence>>, Vec<Option<String>>);

pub(super) async fn find(context: &Context, namespace: &str, valid: &ValidBackup) -> Result<Found, ApiError> {
    let (mut targets, mut not_found) = (Vec::new(), Vec::new());
    for member in &valid.members {
        let object = if let Some(target) = &member.target {
            let (kind, key) = (target.kind, &target.key);
            let name = TargetName { kind, namespace: &key.namespace, name: &key.name };
            let object = workload(&context.core, name).await?;
            targets.push(Some(match &object {
                Some(_) => Presence::Yes,
                None => Presence::No(format!("{key} does not exist; create it, or correct target.ref")),
            }));
            object
        } else {
            targets.push(None);
            None
        };
        let is_there = member.target.is_none() || object.is_some();
        let problem =
            if is_there { missing(context, namespace, valid, member, object.as_ref()).await? } else { None };
        not_found.push(problem);
    }
    if valid.members.is_empty() {
        targets.push(Some(Presence::No(format!(
            "no workload of namespace {namespace} has the labels of spec.volumeSelector.selector; create one, or correct the selector"
        ))));
    }
    Ok((targets, not_found))
}

/// What a session of a member will not find although its target exists.
async fn missing(
    context: &Context,
    namespace: &str,
    valid: &ValidBackup,
    member: &ValidMember,
    object: Option<&Value>,
) -> Result<Option<String>, ApiError> {
    let ValidDriver::Restic(repository) = &valid.driver else { return Ok(None) };
    let target = member.target.as_ref();
    if !has_task(target.map(|target| target.kind), member.task.as_ref()) {
        let (Some(target), Some(object)) = (target, object) else { return Ok(None) };
        let mounts = member.spec.target.iter().flat_map(|target| &target.volume_mounts);
        return Ok(unknown_volumes(target.kind, object, mounts.map(|mount| mount.name.as_str())));
    }
    let key = key_of(&repository.namespace, &repository.name);
    let request = TaskRequest {
        direction: Direction::Backup,
        namespace,
        task: member.task.as_ref(),
        target: target.map(|target| (target.kind, &target.key)),
        key: &key,
        interim: Interim {
            temporary: member.spec.temp_dir.as_ref(),
            template: member.spec.interim_volume_template.as_ref(),
        },
        runtime: member.spec.runtime_settings.as_ref(),
        variables: SystemVariables::default(),
    };
    match task_work(context, request).await {
        Err(TaskProblem::Api(error)) => Err(error),
        // The variables of a session are not known before it.
        Ok(_) | Err(TaskProblem::Task(TaskError::Variable(_) | TaskError::Replaced { .. })) => Ok(None),
        Err(problem) => Ok(Some(problem.to_string())),
    }
}
