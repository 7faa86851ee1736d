//! The work of a backup on its members: finds targets and hosts, sends movers, runs hooks. The engine calls it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifeboat_api::stash::{BackupMember, HookPhase};
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::hosts::{HostName, TargetKind};
use lifeboat_plan::stash::session::{Order, TargetKey, backup_args};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::state::{HostState, WorkPhase};
use lifeboat_plan::stash::targets::{Host, HostSource, MoverSource, TargetPlan, backup_plan};
use lifeboat_transfer::attempts::{Transfer, TransferSpec, WorkContext, carry};
use lifeboat_transfer::repositories::RepositoryKey;
use tokio_util::sync::CancellationToken;

use super::copying::{CopyOptions, Copying};
use crate::context::Context;
use crate::invokers::Invoker;
use crate::sessions::engine::{NoHosts, SessionWork};
use crate::sessions::hooks::HookRunner;
use crate::sessions::host_record::HostRecord;
use crate::sessions::record::SessionRecord;
use crate::sessions::target::{self, TargetName};
use crate::sessions::tasks::task_base;
use crate::sessions::tenant_pod;

/// The members of one backup.
pub(super) struct BackupSessionWork {
    pub(super) context: Context,
    pub(super) record: Arc<SessionRecord>,
    pub(super) invoker: Invoker,
    pub(super) key: RepositoryKey,
    pub(super) transfers: WorkContext,
    pub(super) hooks: HookRunner,
    /// How many retries are left, for hooks that run after the last.
    pub(super) retry_left: i32,
    /// The hosts of members, as they were found; not on record.
    pub(super) plans: Mutex<BTreeMap<(usize, HostName), Host>>,
}

#[async_trait]
impl SessionWork for BackupSessionWork {
    fn record(&self) -> &Arc<SessionRecord> {
        &self.record
    }

    fn is_sequential(&self) -> bool {
        self.invoker.order == Order::Sequential
    }

    async fn find_hosts(&self, member: usize, _cancel: &CancellationToken) -> Result<Vec<HostName>, NoHosts> {
        let plan = self.plan(member).await?;
        let now = self.record.now();
        let names: Vec<HostName> = plan.hosts.iter().map(|host| host.name.clone()).collect();
        self.record
            .change(|state| {
                let Some(state) = state.members.get_mut(member) else { return };
                state.total_hosts = i32::try_from(plan.hosts.len()).ok();
                for note in &plan.notes {
                    note.observe(&mut state.conditions, now);
                }
                state.observe(&ConditionType::BackupTargetFound.yes(""), now);
                state.observe(&ConditionType::BackupExecutorEnsured.yes(""), now);
                for host in &plan.hosts {
                    if !state.hosts.iter().any(|known| known.name == host.name) {
                        state.hosts.push(HostState { name: host.name.clone(), ..HostState::default() });
                    }
                }
            })
            .await?;
        let mut plans = locked(&self.plans);
        plans.extend(plan.hosts.into_iter().map(|host| ((member, host.name.clone()), host)));
        Ok(names)
    }

    fn hosts_in_turn(&self, member: usize) -> bool {
        self.member(member).is_some_and(|member| member.hooks.is_some())
    }

    fn has_pre_hook(&self, member: usize) -> bool {
        self.member(member).and_then(|member| member.hooks.as_ref()).is_some_and(|hooks| hooks.pre_backup.is_some())
    }

    async fn pre_hook(&self, member: usize, host: &HostState) -> Result<(), String> {
        let hook = self.member(member).and_then(|member| member.hooks.as_ref()?.pre_backup.as_ref());
        let Some(hook) = hook else { return Ok(()) };
        self.hooks.run(hook, &self.hook_target(member, host)).await
    }

    fn wants_post_hook(&self, member: usize, host: &HostState) -> bool {
        let hook = self.member(member).and_then(|member| member.hooks.as_ref()?.post_backup.as_ref());
        hook.is_some_and(|hook| {
            let failed = host.phase == WorkPhase::Failed;
            lifeboat_plan::stash::hooks::post_backup_runs(&hook.execution_policy, !failed, self.retry_left)
        })
    }

    async fn post_hook(&self, member: usize, host: &HostState) -> Result<(), String> {
        let hook = self.member(member).and_then(|member| member.hooks.as_ref()?.post_backup.as_ref());
        let Some(hook) = hook else { return Ok(()) };
        self.hooks.run(&hook.handler, &self.hook_target(member, host)).await
    }

    async fn run_host(&self, record: HostRecord, cancel: &CancellationToken) -> Result<(), ApiError> {
        let plan = locked(&self.plans).get(&(record.member, record.host.clone())).cloned();
        let source = match plan.map(|plan| plan.source) {
            Some(Ok(source)) => source,
            Some(Err(error)) => return record.ended(Err(error.to_string())).await.map(drop),
            None => return record.ended(Err("the host is gone".to_owned())).await.map(drop),
        };
        self.note_pod(&record, &source).await?;
        for (number, parts) in source.movers().into_iter().enumerate() {
            let state = record.state().await;
            if state.phase.has_ended() {
                return Ok(());
            }
            let stored = |path: &str| state.snapshots.iter().any(|stored| stored.path.as_deref() == Some(path));
            if parts.parts.iter().all(|part| stored(&part.path.to_string())) {
                continue;
            }
            let namespace = match &parts.source {
                MoverSource::NodeDirectory { .. } => self.transfers.settings.namespace.clone(),
                MoverSource::Volumes { .. } => self.target_namespace(record.member),
            };
            let pod = match tenant_pod::settings(self, &record, &source, &parts.source).await? {
                Ok(pod) => pod,
                Err(message) => return record.ended(Err(message)).await.map(drop),
            };
            let transfer = self.transfer(&record, &state, number, namespace);
            let options = self.options(record.member);
            let copying = Copying { transfer, record: record.clone(), parts, pod, options };
            carry(&copying, cancel).await?;
        }
        if record.state().await.phase.has_ended() { Ok(()) } else { record.ended(Ok(())).await.map(drop) }
    }

    async fn fail_member(&self, member: usize, message: &str) -> Result<bool, ApiError> {
        let now = self.record.now();
        let failed = ConditionType::BackupExecutorEnsured.no(message);
        self.record
            .change(|state| {
                if let Some(state) = state.members.get_mut(member) {
                    state.observe(&failed, now);
                }
            })
            .await
    }
}
