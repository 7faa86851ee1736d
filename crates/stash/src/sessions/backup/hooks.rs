//! Hooks of a backup: they run in the pod that is read, before and after its host.

use lifeboat_control::locked;
use lifeboat_plan::stash::hooks::{InvokerSummary, StatusSummary, Summary, TargetSummary, ValidHook};
use lifeboat_plan::stash::state::HostState;
use tokio_util::sync::CancellationToken;

use super::work::BackupWork;
use crate::sessions::engine::HookMoment;
use crate::sessions::hooks::{self, HookFailure, HookRun};
use crate::sessions::host_record::HostRecord;
use crate::sessions::tasks::{HookMark, hook_task};

impl BackupWork {
    pub(super) async fn run_hook_of(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
        when: HookMoment,
    ) -> Result<(), HookFailure> {
        let plan = locked(&self.at_work.plans).get(&(record.member, record.host.clone())).cloned();
        let source = plan.and_then(|plan| plan.source.ok());
        let pod = source.as_ref().and_then(|source| source.pod.as_ref()).map(|pod| &pod.object);
        // The hook after a host ends what the one before it began, so no deadline cancels it; its own limit does.
        let (mark, cancel) = match when {
            HookMoment::Before => (HookMark::Pre, self.cancel.clone()),
            HookMoment::After => (HookMark::Post, CancellationToken::new()),
        };
        let summary = self.summary(record.member, &record.state().await);
        let run = HookRun {
            hook,
            summary: &summary,
            pod,
            owner: self.record.owner(),
            task: hook_task(&self.record.uid, record.member, &record.host, mark),
            namespace: &self.record.namespace,
        };
        hooks::run(&self.context, run, &cancel).await
    }

    /// The invoker, as the texts of hooks name it.
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
