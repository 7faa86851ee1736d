//! Hooks of the hosts of a backup: in the pod that is read. The hook after a host runs in the pod of the hook before
//! it, which is recorded.

use lifeboat_api::stash::HookPodRef;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::hooks::{InvokerSummary, StatusSummary, Summary, TargetSummary, ValidHook};
use lifeboat_plan::stash::invoker::MemberHooks;
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::targets::HostPod;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::work::BackupWork;
use crate::sessions::engine::HookMoment;
use crate::sessions::hooks::{self, HookFailure, HookPlace, HookRun, pod_ref, recorded_pod};
use crate::sessions::host_record::HostRecord;
use crate::sessions::tasks::{HookMark, hook_task};

impl BackupWork {
    /// The pod that is read, if one of the hooks needs it.
    pub(super) fn hook_place_of(&self, record: &HostRecord, hook: &ValidHook) -> HookPlace {
        let post = self.post_hook(record.member);
        if !hook.needs_pod() && !post.is_some_and(ValidHook::needs_pod) {
            return HookPlace::At(None);
        }
        HookPlace::At(self.planned_pod(record).map(|pod| pod_ref(&pod.object)))
    }

    fn member_hooks(&self, member: usize) -> Option<&MemberHooks> {
        self.member(member).map(|member| &member.hooks)
    }

    fn post_hook(&self, member: usize) -> Option<&ValidHook> {
        self.member_hooks(member)?.post.as_ref().map(|(hook, _)| hook)
    }

    /// The pod in which the hook before a host ran, if it is no longer the pod of the host: the pod that would be
    /// read now was not quiesced.
    pub(super) async fn lost_hook_pod(&self, record: &HostRecord) -> Result<Option<String>, ApiError> {
        let hook = self.member_hooks(record.member).and_then(|hooks| hooks.pre.as_ref());
        let pod = record.state().await.run.hook_pod;
        let Some(pod) = pod.filter(|_| hook.is_some_and(ValidHook::needs_pod)) else { return Ok(None) };
        // A database is read through its Service, whichever of its pods is Ready first.
        let read = self.planned_pod(record).filter(|_| self.task(record.member).is_none());
        if read.is_some_and(|read| read.uid != pod.uid) {
            return Ok(Some(pod.name));
        }
        match recorded_pod(&self.context.core, &pod).await {
            Err(HookFailure::Api(error)) => Err(error),
            Err(_) => Ok(Some(pod.name)),
            Ok(_) => Ok(None),
        }
    }

    /// The pod of a host as it was found now.
    fn planned_pod(&self, record: &HostRecord) -> Option<HostPod> {
        let plan = locked(&self.at_work.plans).get(&(record.member, record.host.clone())).cloned();
        plan?.source.ok()?.pod
    }

    pub(super) async fn run_hook_of(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
        when: HookMoment,
    ) -> Result<(), HookFailure> {
        let state = record.state().await;
        let pod = if hook.needs_pod() { self.hook_pod(record.member, &state).await? } else { None };
        // The hook after a host reverts what the hook before it did, so only its own time limit cancels it, not the
        // session's deadline.
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
            annotations: &self.invoker.annotations,
        };
        hooks::run(&self.context, run, &cancel).await
    }

    /// The pod of the hook before the host; without such a hook the pod that was read.
    async fn hook_pod(&self, member: usize, host: &HostState) -> Result<Option<Value>, HookFailure> {
        let run = &host.run;
        let namespace = self.member(member).and_then(|member| member.target.as_ref());
        let namespace = namespace.map(|target| target.key.namespace.clone());
        let read = run.pod.clone().zip(run.pod_uid.clone()).zip(namespace);
        let read = read.map(|((name, uid), namespace)| HookPodRef { namespace, name, uid });
        match run.hook_pod.clone().or(read) {
            Some(pod) => recorded_pod(&self.context.core, &pod).await.map(Some),
            None => Ok(None),
        }
    }

    /// The invoker, for the templates of hooks.
    pub(super) fn invoker_summary(&self) -> InvokerSummary {
        InvokerSummary {
            api_group: lifeboat_api::stash::GROUP.to_owned(),
            kind: self.invoker.id.kind.to_string(),
            name: self.invoker.id.name.clone(),
        }
    }

    fn summary(&self, member: usize, host: &HostState) -> Summary {
        let target = self.member(member).and_then(|member| member.target.as_ref());
        Summary {
            name: self.record.name.clone(),
            namespace: self.record.namespace.clone(),
            invoker: self.invoker_summary(),
            target: target.map_or_else(TargetSummary::default, |target| TargetSummary {
                api_version: target.kind.api_version().to_owned(),
                kind: target.kind.to_string(),
                name: target.key.name.clone(),
                namespace: target.key.namespace.clone(),
            }),
            status: StatusSummary {
                phase: host.phase.to_string(),
                duration: host.duration.map(|duration| duration.to_string()).unwrap_or_default(),
                error: host.error.clone().unwrap_or_default(),
            },
            retry_left: self.retry_left,
        }
    }
}

/// Why a host is not read: its pod was quiesced and no longer exists.
pub(super) fn replaced(pod: &str) -> String {
    format!(
        "pod {pod}, in which the hook before the host ran, was replaced before the host was read; the next session reads the new pod"
    )
}
