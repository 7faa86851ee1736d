//! Hooks of a restore. The hook before a host runs in its pod before the workload is stopped, the one after it in the pod that runs with
//! the restored data. Hooks of a whole batch are calls, made by a mover.

use std::time::Duration;

use lifeboat_api::stash::GROUP;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hooks::{
    InvokerSummary, PostPolicy, StatusSummary, Summary, TargetSummary, ValidHook, global_post_runs,
};
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::in_place::Step;
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::state::conditions::{ConditionType, Truth};
use lifeboat_plan::stash::targets::{RestoreFacts, restore_plan};
use lifeboat_plan::transfer::attempts::task_uid;
use serde_json::Value;

use super::work::RestoreWork;
use crate::sessions::backup::written;
use crate::sessions::engine::{HookMoment, Stopped};
use crate::sessions::hooks::{self, HookFailure, HookRun};
use crate::sessions::host_record::HostRecord;
use crate::sessions::tasks::task_base;
use crate::target::{self, TargetName};

/// How long a pod may take to become Ready after the workload was started, for the hook that runs in it.
const READY: Duration = Duration::from_mins(5);

impl RestoreWork {
    pub(super) async fn run_hook_of(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
        when: HookMoment,
    ) -> Result<(), HookFailure> {
        let pod = match when {
            HookMoment::Before => self.ready_pod(record.member, &record.host).await,
            HookMoment::After => self.pod_after(record.member, &record.host).await,
        };
        let pod = pod.map_err(HookFailure::Api)?;
        let mark = if when == HookMoment::Before { "pre" } else { "post" };
        let base = task_base(&self.record.uid, record.member, &record.host, 0);
        let summary = self.summary(Some(record.member), &record.state().await);
        let run = HookRun {
            hook,
            summary: &summary,
            pod: pod.as_ref(),
            owner: self.record.owner(),
            task: task_uid(&format!("{base}.{mark}"), 1),
            namespace: &self.record.namespace,
        };
        hooks::run(&self.context, run, &self.cancel).await
    }

    /// The Ready pod of a host; None if there is none.
    async fn ready_pod(&self, member: usize, host: &HostName) -> Result<Option<Value>, ApiError> {
        let Some(valid) = self.member(member) else { return Ok(None) };
        let reference = valid.target.as_ref().and_then(|target| target.reference.as_ref());
        let (Some((key, kind)), Some(spec)) = (reference, &valid.spec.target) else { return Ok(None) };
        let name = TargetName { kind: *kind, namespace: &key.namespace, name: &key.name };
        let target = target::read(&self.context.core, &self.transfers.settings, name, None).await?;
        let facts = RestoreFacts { target, replicas: None, into_running: true };
        let Ok(plan) = restore_plan(&facts, spec, &valid.rules.rules) else { return Ok(None) };
        let found = plan.hosts.into_iter().find(|known| known.name == *host);
        Ok(found.and_then(|host| host.destination.ok()?.pod).map(|pod| pod.object))
    }

    /// The pod of a host after the restore: one of a workload that was started is waited for.
    async fn pod_after(&self, member: usize, host: &HostName) -> Result<Option<Value>, ApiError> {
        let standstill = self.member_state(member).await.standstill;
        let is_started = standstill.is_some_and(|record| record.step == Step::Started && record.replicas > 0);
        let until = tokio::time::Instant::now() + READY;
        loop {
            let found = self.ready_pod(member, host).await?;
            if found.is_some() || !is_started || tokio::time::Instant::now() >= until {
                return Ok(found);
            }
            tokio::select! {
                () = tokio::time::sleep(self.transfers.pace) => {}
                () = self.cancel.cancelled() => return Ok(None),
            }
        }
    }

    /// What the texts of a hook may name. `member`: None for a hook of the whole batch.
    fn summary(&self, member: Option<usize>, host: &HostState) -> Summary {
        let valid = member.and_then(|member| self.member(member)?.target.as_ref());
        let target = valid.and_then(|target| target.reference.as_ref());
        Summary {
            name: self.record.name.clone(),
            namespace: self.record.namespace.clone(),
            invoker: InvokerSummary {
                api_group: GROUP.to_owned(),
                kind: self.object.kind.as_str().to_owned(),
                name: self.record.name.clone(),
            },
            target: target.map_or_else(TargetSummary::default, |(key, kind)| TargetSummary {
                api_version: kind.api_version().to_owned(),
                kind: kind.to_string(),
                name: key.name.clone(),
                namespace: key.namespace.clone(),
            }),
            status: StatusSummary {
                phase: host.phase.to_string(),
                duration: host.duration.map(|duration| duration.to_string()).unwrap_or_default(),
                error: host.error.clone().unwrap_or_default(),
            },
            retry_left: 0,
        }
    }

    /// Runs the hook before all members. False if it failed: then no member runs.
    pub(super) async fn before_all(&self) -> Result<bool, Stopped> {
        let kind = ConditionType::GlobalPreRestoreHookSucceeded;
        let Some(hook) = &self.valid.hooks.pre else { return Ok(true) };
        self.run_global(hook, kind, "before").await
    }

    /// Runs the hook after all members, by its policy.
    pub(super) async fn after_all(&self) -> Result<(), Stopped> {
        let kind = ConditionType::GlobalPostRestoreHookSucceeded;
        let Some((hook, policy)) = &self.valid.hooks.post else { return Ok(()) };
        if self.is_owed(*policy).await {
            self.run_global(hook, kind, "after").await?;
        }
        Ok(())
    }

    async fn is_owed(&self, policy: PostPolicy) -> bool {
        let pre = ConditionType::GlobalPreRestoreHookSucceeded;
        let owed = self.record.read(|state| {
            let pre_failed = pre.is_false(&state.conditions);
            global_post_runs(policy, state, pre_failed, 0)
        });
        owed.await
    }

    /// Runs a hook of the batch, unless it has ended. It is on record before it runs; one that began before a crash is run again.
    async fn run_global(&self, hook: &ValidHook, kind: ConditionType, mark: &str) -> Result<bool, Stopped> {
        match self.record.read(|state| kind.status_in(&state.conditions)).await {
            Some(Truth::True) => return Ok(true),
            Some(Truth::False) => return Ok(false),
            Some(Truth::Unknown) | None => {}
        }
        let (now, started) = (self.record.now(), kind.observed(Truth::Unknown, "the hook runs"));
        written(self.record.change(|state| state.observe(&started, now)).await?)?;
        let summary = self.summary(None, &HostState::default());
        let run = HookRun {
            hook,
            summary: &summary,
            pod: None,
            owner: self.record.owner(),
            task: task_uid(&format!("{}.hook.{mark}", self.record.uid), 1),
            namespace: &self.record.namespace,
        };
        let ran = Box::pin(hooks::run(&self.context, run, &self.cancel)).await;
        let is_ok = ran.is_ok();
        let observed = match ran {
            Ok(()) => kind.yes(""),
            Err(failure) => kind.no(failure.to_string()),
        };
        let now = self.record.now();
        written(self.record.change(|state| state.observe(&observed, now)).await?)?;
        Ok(is_ok)
    }
}
