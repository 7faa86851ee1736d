//! Hooks of a restore. The hook before a host runs in its pod before the workload is stopped, the one after it in the pod that runs with
//! the restored data.

use std::time::Duration;

use lifeboat_api::stash::GROUP;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hooks::{InvokerSummary, StatusSummary, Summary, TargetSummary, ValidHook};
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::in_place::Step;
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::targets::{RestoreFacts, restore_plan};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::work::RestoreWork;
use crate::sessions::engine::HookMoment;
use crate::sessions::hooks::{self, HookFailure, HookRun};
use crate::sessions::host_record::HostRecord;
use crate::sessions::tasks::{HookMark, hook_task};
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
        // The hook after a host ends what the one before it began, so no deadline cancels it; its own limit does.
        let (mark, cancel) = match when {
            HookMoment::Before => (HookMark::Pre, self.cancel.clone()),
            HookMoment::After => (HookMark::Post, CancellationToken::new()),
        };
        let summary = self.summary(record.member, &record.state().await);
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

    /// The restore, as the texts of hooks name it: it is its own invoker.
    pub(super) fn invoker_summary(&self) -> InvokerSummary {
        InvokerSummary {
            api_group: GROUP.to_owned(),
            kind: self.object.kind.as_str().to_owned(),
            name: self.record.name.clone(),
        }
    }

    /// What the texts of a hook may name.
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
