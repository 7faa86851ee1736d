//! Hooks of a restore. The hook before a host runs in its pod before the workload is stopped. The hook after a host
//! runs in the pod that runs with the restored data or, if the workload was not stopped, in the pod of the hook
//! before the host.

use std::time::Duration;

use lifeboat_api::stash::{GROUP, HookPodRef};
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::hooks::{InvokerSummary, StatusSummary, Summary, TargetSummary, ValidHook};
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::in_place::Step;
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::targets::{RestoreFacts, restore_plan};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::by_task;
use super::work::RestoreWork;
use crate::sessions::engine::HookMoment;
use crate::sessions::hooks::{self, HookFailure, HookPlace, HookRun, pod_ref, recorded_pod};
use crate::sessions::host_record::HostRecord;
use crate::sessions::tasks::{HookMark, hook_task};
use crate::target::{self, TargetName};
use crate::tasks::endpoint_pod;

/// How long a pod may take to become Ready after the workload was started, for the hook that runs in it.
const READY: Duration = Duration::from_mins(5);

impl RestoreWork {
    /// The pod of the hook before a host, if one of its hooks needs it. A workload that is already stopped has no
    /// pod, and need not be quiesced.
    pub(super) async fn hook_place_of(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
    ) -> Result<HookPlace, ApiError> {
        let post = self.member(record.member).and_then(|member| member.hooks.post.as_ref());
        if !hook.needs_pod() && !post.is_some_and(|(post, _)| post.needs_pod()) {
            return Ok(HookPlace::At(None));
        }
        let pod = self.ready_pod(record.member, &record.host).await?;
        if let (None, Some(stopped)) = (&pod, self.member_state(record.member).await.standstill)
            && (stopped.replicas == 0 || stopped.held_by.is_some())
            && hook.needs_pod()
        {
            let why = format!("{} {} is stopped and has no pod", stopped.kind, stopped.name);
            return Ok(HookPlace::Skip(why));
        }
        Ok(HookPlace::At(pod.as_ref().map(pod_ref)))
    }

    pub(super) async fn run_hook_of(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
        when: HookMoment,
    ) -> Result<(), HookFailure> {
        let state = record.state().await;
        let pod = match when {
            _ if !hook.needs_pod() => None,
            HookMoment::Before => match &state.run.hook_pod {
                Some(pod) => Some(recorded_pod(&self.context.core, pod).await?),
                None => None,
            },
            HookMoment::After => self.pod_after(record, &state).await?,
        };
        // The hook after a host reverts what the hook before it did, so only its own time limit cancels it, not the
        // restore's deadline.
        let (mark, cancel) = match when {
            HookMoment::Before => (HookMark::Pre, self.cancel.clone()),
            HookMoment::After => (HookMark::Post, CancellationToken::new()),
        };
        let summary = self.summary(record.member, &state);
        let run = HookRun {
            hook,
            summary: &summary,
            pod: pod.as_ref(),
            owner: self.record.owner(),
            task: hook_task(&self.record.uid, record.member, &record.host, mark),
            namespace: &self.record.namespace,
            annotations: self.object.annotations(),
        };
        hooks::run(&self.context, run, &cancel).await
    }

    /// The pod of the hook after a host: the pod of the hook before it or, if the workload was stopped and started, a
    /// pod that runs with the restored data.
    async fn pod_after(&self, record: &HostRecord, host: &HostState) -> Result<Option<Value>, HookFailure> {
        let written = host.run.pod.clone().zip(host.run.pod_uid.clone());
        let namespace = self.target(record.member).map(|(_, key)| key.namespace.clone());
        let written =
            written.zip(namespace).map(|((name, uid), namespace)| HookPodRef { namespace, name, uid });
        let known = match host.run.hook_pod.clone().or(written) {
            Some(pod) => Some(recorded_pod(&self.context.core, &pod).await),
            None => None,
        };
        let standstill = self.member_state(record.member).await.standstill;
        let is_started = standstill.is_some_and(|record| record.step == Step::Started && record.replicas > 0);
        let (member, host) = (record.member, &record.host);
        match known {
            Some(Ok(pod)) if !is_started || pod["metadata"]["deletionTimestamp"].is_null() => Ok(Some(pod)),
            _ if is_started => self.started_pod(member, host).await.map_err(HookFailure::Api),
            Some(Err(failure)) => Err(failure),
            _ => self.ready_pod(member, host).await.map_err(HookFailure::Api),
        }
    }

    /// Waits for a Ready pod of a workload that was started, even if the deadline of the restore has passed.
    async fn started_pod(&self, member: usize, host: &HostName) -> Result<Option<Value>, ApiError> {
        let until = tokio::time::Instant::now() + READY;
        loop {
            let found = self.ready_pod(member, host).await?;
            if found.is_some() || tokio::time::Instant::now() >= until {
                return Ok(found);
            }
            tokio::time::sleep(self.transfers.pace).await;
        }
    }

    /// The Ready pod of a host; None if there is none.
    async fn ready_pod(&self, member: usize, host: &HostName) -> Result<Option<Value>, ApiError> {
        let Some(valid) = self.member(member) else { return Ok(None) };
        if by_task::is_for(valid) {
            let task = locked(&self.tasks).get(&member).cloned();
            let Some(task) = task else { return Ok(None) };
            return Ok(endpoint_pod(&self.context.core, &task).await?.map(|pod| pod.object));
        }
        let reference = valid.target.as_ref().and_then(|target| target.reference.as_ref());
        let (Some((key, kind)), Some(spec)) = (reference, &valid.spec.target) else { return Ok(None) };
        let name = TargetName { kind: *kind, namespace: &key.namespace, name: &key.name };
        let target = target::read(&self.context.core, &self.transfers.settings, name, None).await?;
        let facts = RestoreFacts { target, replicas: None, into_running: true };
        let Ok(plan) = restore_plan(&facts, spec, &valid.rules.rules) else { return Ok(None) };
        let found = plan.hosts.into_iter().find(|known| known.name == *host);
        Ok(found.and_then(|host| host.destination.ok()?.pod).map(|pod| pod.object))
    }

    /// The restore, for the templates of hooks: it is its own invoker.
    pub(super) fn invoker_summary(&self) -> InvokerSummary {
        InvokerSummary {
            api_group: GROUP.to_owned(),
            kind: self.object.kind.as_str().to_owned(),
            name: self.record.name.clone(),
        }
    }

    /// The values for the templates of a hook.
    fn summary(&self, member: usize, host: &HostState) -> Summary {
        let valid = self.member(member).and_then(|member| member.target.as_ref());
        let target = valid.and_then(|target| target.reference.as_ref());
        Summary {
            name: self.record.name.clone(),
            namespace: self.record.namespace.clone(),
            invoker: self.invoker_summary(),
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
}
