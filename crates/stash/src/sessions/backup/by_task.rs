//! Backs up members with a task: databases, and targets with a Task of the user. Each has one host, which one mover
//! stores.

use lifeboat_control::locked;
use lifeboat_plan::stash::databases::Direction;
use lifeboat_plan::stash::hosts::{HostName, HostOf};
use lifeboat_plan::stash::invoker::ValidMember;
use lifeboat_plan::stash::targets::{
    CleanPath, Host, HostPart, HostSource, MoverParts, MoverSource, TargetPlan,
};
use lifeboat_plan::stash::tasks::Interim;
use lifeboat_plan::stash::variables::{SystemVariables, TargetVariables};

use super::work::{BackupWork, failed};
use crate::repository::RepositoryKey;
use crate::sessions::engine::NoHosts;
use crate::tasks::{TaskProblem, TaskRequest, TaskWork, endpoint_pod, has_task, task_work};

impl From<TaskProblem> for NoHosts {
    fn from(problem: TaskProblem) -> Self {
        match problem {
            TaskProblem::Api(error) => Self::Api(error),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl BackupWork {
    /// The host of a member with a task; None for a member without one.
    pub(super) async fn plan_task(
        &self,
        key: &RepositoryKey,
        member: usize,
        valid: &ValidMember,
    ) -> Result<Option<TargetPlan>, NoHosts> {
        let target = valid.target.as_ref();
        if !has_task(target.map(|target| target.kind), valid.task.as_ref()) {
            return Ok(None);
        }
        let name = HostName::of(target.and_then(|target| target.alias.as_deref()), &HostOf::Whole);
        let request = TaskRequest {
            direction: Direction::Backup,
            namespace: &self.record.namespace,
            task: valid.task.as_ref(),
            target: target.map(|target| (target.kind, &target.key)),
            key,
            interim: Interim {
                temporary: valid.spec.temp_dir.as_ref(),
                template: valid.spec.interim_volume_template.as_ref(),
            },
            runtime: valid.spec.runtime_settings.as_ref(),
            variables: self.variables(valid, &name),
        };
        let Some(work) = task_work(&self.context, request).await? else { return Ok(None) };
        let Some(path) = CleanPath::stored(&work.path()) else {
            return Err(failed("the task names no path for its data"));
        };
        let has_hooks = valid.hooks.pre.is_some() || valid.hooks.post.is_some();
        let pod = if has_hooks { endpoint_pod(&self.context.core, &work).await? } else { None };
        let part = HostPart { path, volume: String::new(), sub_path: None };
        let source = HostSource { pod, parts: vec![part], ..HostSource::default() };
        locked(&self.at_work.tasks).insert(member, work);
        let host = Host { name, of: HostOf::Whole, source: Ok(source) };
        Ok(Some(TargetPlan { hosts: vec![host], notes: Vec::new() }))
    }

    /// The task of a member, once its host was found.
    pub(super) fn task(&self, member: usize) -> Option<TaskWork> {
        locked(&self.at_work.tasks).get(&member).cloned()
    }

    /// The movers of a host. That of a task mounts no volume of the target.
    pub(super) fn movers(&self, member: usize, source: &HostSource) -> Vec<MoverParts<HostPart>> {
        if self.task(member).is_none() {
            return source.movers();
        }
        let mounts = MoverSource::Volumes { volumes: Vec::new(), node: None };
        vec![MoverParts { source: mounts, parts: source.parts.clone() }]
    }

    fn variables(&self, valid: &ValidMember, host: &HostName) -> SystemVariables {
        let target = valid.spec.target.as_ref();
        SystemVariables {
            invoker_kind: self.invoker.id.kind.to_string(),
            invoker_name: self.invoker.id.name.clone(),
            backup_session: Some(self.record.name.clone()),
            host: host.to_string(),
            target: target
                .map(|target| TargetVariables { paths: target.paths.clone(), ..TargetVariables::default() }),
            exclude: target.map(|target| target.exclude.clone()).unwrap_or_default(),
            args: target.map(|target| target.args.clone()).unwrap_or_default(),
            retention: Some(self.invoker.policy().clone()),
            disable_caching: valid.spec.temp_dir.as_ref().is_some_and(|settings| settings.disable_caching),
            ..SystemVariables::default()
        }
    }
}
