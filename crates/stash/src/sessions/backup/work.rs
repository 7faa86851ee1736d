//! The work of a backup on its members: finds targets and hosts, starts movers, runs hooks. Called by the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifeboat_api::stash::HookPhase;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::hooks::ValidHook;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::invoker::{MemberHooks, ValidBackup, ValidMember};
use lifeboat_plan::stash::session::Order;
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::targets::{
    Host, HostPart, HostSource, MOST_HOSTS, SentFor, SentHosts, TargetPlan, continued_plan, planned,
};
use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::repositories::RepositoryKey;
use tokio_util::sync::CancellationToken;

use super::directories::HostDirectory;
use crate::context::Context;
use crate::invokers::Invoker;
use crate::metrics::HostNumbers;
use crate::sessions::batch_hooks::{self, HookConditions};
use crate::sessions::engine::{HookMoment, NoHosts, SessionWork};
use crate::sessions::finalizer::{self, Hold};
use crate::sessions::hooks::{HookFailure, HookPlace};
use crate::sessions::host_record::{HostRecord, end_host};
use crate::sessions::kind::SessionKind;
use crate::sessions::record::SessionRecord;
use crate::sessions::snapshotter::taking::is_taken;
use crate::sessions::turns::Turn;
use crate::target::{self, TargetName};
use crate::tasks::TaskWork;

/// The members of one backup.
pub(in crate::sessions) struct BackupWork {
    pub(super) context: Context,
    pub(super) record: Arc<SessionRecord>,
    pub(super) invoker: Invoker,
    pub(super) valid: ValidBackup,
    /// None with driver VolumeSnapshotter. That of the Repository, also for a Restic, whose hosts have repositories in its directories.
    pub(super) key: Option<RepositoryKey>,
    pub(super) transfers: WorkContext,
    pub(super) retry_left: i32,
    pub(super) cancel: CancellationToken,
    /// What this server knows about the members and hosts that it works on; empty at first.
    pub(super) at_work: AtWork,
}

/// What the movers of a host have copied.
pub(super) type SharedNumbers = Arc<Mutex<HostNumbers>>;

/// Members and hosts that this server works on.
#[derive(Default)]
pub(super) struct AtWork {
    /// The hosts of members as they were found.
    pub(super) plans: Mutex<BTreeMap<(usize, HostName), Host>>,
    /// The directories of the hosts of a Restic.
    pub(super) directories: Mutex<BTreeMap<(usize, HostName), HostDirectory>>,
    /// The tasks of members that have one.
    pub(super) tasks: Mutex<BTreeMap<usize, TaskWork>>,
    /// The turns of members on their targets.
    pub(super) turns: Mutex<BTreeMap<usize, Turn>>,
    /// The amounts that the movers of each host have copied.
    pub(super) numbers: Mutex<BTreeMap<(usize, HostName), SharedNumbers>>,
}

impl AtWork {
    /// The amounts that the movers of a host have copied; None if another server started them.
    pub(super) fn numbers_of(&self, member: usize, host: &HostName) -> Option<HostNumbers> {
        let numbers = locked(&self.numbers).get(&(member, host.clone())).cloned();
        numbers.map(|numbers| *locked(&numbers))
    }
}

impl BackupWork {
    pub(super) fn member(&self, member: usize) -> Option<&ValidMember> {
        self.valid.members.get(member)
    }

    /// Reads the target of a member and decides about its hosts. Hosts whose movers were started earlier need no Ready pod.
    /// The inner error is for people.
    pub(super) async fn plan(&self, member: usize, sent: &SentHosts) -> Result<TargetPlan, NoHosts> {
        let Some(valid) = self.member(member) else { return Err(failed("the member is gone")) };
        let Some(key) = &self.key else { return self.plan_snapshots(valid).await };
        if let Some(plan) = self.plan_task(key, member, valid).await? {
            return Ok(plan);
        }
        let (Some(target), Some(spec)) = (&valid.target, &valid.spec.target) else {
            return Err(failed("a member without target needs a task: set task.name"));
        };
        let name = TargetName { kind: target.kind, namespace: &target.key.namespace, name: &target.key.name };
        let class = spec.snapshot_class_name.as_deref().filter(|class| !class.is_empty());
        let facts = target::read(&self.context.core, &self.transfers.settings, name, class).await?;
        let plan = match &target.mounts {
            Some(mounts) => planned(&facts, target.alias.as_deref(), mounts, sent),
            None => continued_plan(&facts, spec, sent),
        };
        plan.map_err(|error| NoHosts::Failed(error.to_string()))
    }

    /// The hosts of a member that have an attempt on record, and the pod of each.
    async fn sent(&self, member: usize) -> SentHosts {
        let read = self.record.read(|state| {
            let hosts = state.members.get(member).map(|member| member.hosts.as_slice()).unwrap_or_default();
            let at_work = hosts.iter().filter(|host| host.run.attempt.is_some() && !host.phase.has_ended());
            let sent = at_work.map(|host| {
                let pod = host.run.pod_uid.clone().map_or(SentFor::NoPod, SentFor::Pod);
                (host.name.clone(), pod)
            });
            sent.collect()
        });
        read.await
    }

    /// Records which pod is read.
    pub(super) async fn note_pod(&self, record: &HostRecord, source: &HostSource) -> Result<(), ApiError> {
        let run = record.state().await.run;
        let is_read = |uid: &str| source.pod.as_ref().is_some_and(|pod| pod.uid == uid);
        if run.hook_pod.is_some_and(|pod| !is_read(&pod.uid)) {
            // A mover that was started earlier read the recorded pod.
            return Ok(());
        }
        let quiesced = run.pre_hook == Some(HookPhase::Succeeded);
        let changed = record.change(|host| {
            host.run.pod = source.pod.as_ref().map(|pod| pod.name.clone());
            host.run.pod_uid = source.pod.as_ref().map(|pod| pod.uid.clone());
            host.run.consistency = Some(source.consistency(quiesced).to_owned());
        });
        changed.await.map(drop)
    }
}

pub(super) fn failed(message: &str) -> NoHosts {
    NoHosts::Failed(message.to_owned())
}

#[async_trait]
impl SessionWork for BackupWork {
    fn record(&self) -> &Arc<SessionRecord> {
        &self.record
    }

    fn is_sequential(&self) -> bool {
        self.valid.order == Order::Sequential
    }

    async fn find_hosts(&self, member: usize, cancel: &CancellationToken) -> Result<Vec<HostName>, NoHosts> {
        self.wait_for_turn(member, cancel).await?;
        let sent = self.sent(member).await;
        let mut plan = self.plan(member, &sent).await?;
        self.give_directories(member, &mut plan, &sent).await?;
        let (now, mut is_full) = (self.record.now(), false);
        let changed = self.record.change(|state| {
            let others = state.members.iter().enumerate().filter(|(other, _)| *other != member);
            let others: usize = others.map(|(_, other)| other.hosts.len()).sum();
            is_full = others + plan.hosts.len() > MOST_HOSTS;
            if is_full {
                return;
            }
            let Some(state) = state.members.get_mut(member) else { return };
            state.observe(&ConditionType::BackupTargetFound.yes(""), now);
            state.observe(&ConditionType::BackupExecutorEnsured.yes(""), now);
            for note in &plan.notes {
                if let Some(kind) = ConditionType::named(note.condition()) {
                    state.observe(&kind.yes(note.to_string()), now);
                }
            }
            for host in &plan.hosts {
                if !state.hosts.iter().any(|known| known.name == host.name) {
                    state.hosts.push(new_host(host, now));
                }
            }
            // A host that the target no longer has is ended as well, because its hook may still be due.
            state.total_hosts = i32::try_from(state.hosts.len()).ok();
        });
        changed.await?;
        if is_full {
            return Err(NoHosts::Failed(format!(
                "the members of this session have more than {MOST_HOSTS} hosts; use several BackupBatches"
            )));
        }
        let names = self.record.read(|state| {
            let hosts = state.members.get(member).map(|member| member.hosts.as_slice()).unwrap_or_default();
            hosts.iter().map(|host| host.name.clone()).collect()
        });
        let names = names.await;
        let hosts = plan.hosts.into_iter().map(|host| ((member, host.name.clone()), host));
        locked(&self.at_work.plans).extend(hosts);
        Ok(names)
    }

    fn hooks(&self, member: usize) -> Option<&MemberHooks> {
        self.member(member).map(|member| &member.hooks)
    }

    fn retry_left(&self) -> i32 {
        self.retry_left
    }

    fn hook_conditions(&self) -> HookConditions {
        batch_hooks::OF_BACKUP_HOSTS
    }

    async fn hook_place(&self, record: &HostRecord, hook: &ValidHook) -> Result<HookPlace, ApiError> {
        Ok(self.hook_place_of(record, hook))
    }

    async fn hold(&self) -> Result<(), ApiError> {
        finalizer::hold(&self.context.core, SessionKind::Backup, &self.record, Hold::Hooks).await
    }

    async fn run_hook(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
        when: HookMoment,
    ) -> Result<(), HookFailure> {
        Box::pin(self.run_hook_of(record, hook, when)).await
    }

    async fn run_host(&self, record: HostRecord, cancel: &CancellationToken) -> Result<(), ApiError> {
        let plan = locked(&self.at_work.plans).get(&(record.member, record.host.clone())).cloned();
        let Some(plan) = plan else {
            return record.failed("the target has no such host any more".to_owned()).await.map(drop);
        };
        let source = match plan.source {
            Ok(source) => source,
            Err(error) => return record.failed(error.to_string()).await.map(drop),
        };
        // A mover that was started earlier reads the recorded pod, even if another pod stands for the host by now.
        if record.state().await.run.attempt.is_none() {
            self.note_pod(&record, &source).await?;
        }
        if self.key.is_none() {
            return self.take_snapshot(&record, &source, cancel).await;
        }
        let Some(key) = self.key_of_host(record.member, &record.host) else {
            return record.failed("the host has no directory in the Repository".to_owned()).await.map(drop);
        };
        for (mover, parts) in self.movers(record.member, &source).into_iter().enumerate() {
            let state = record.state().await;
            if state.phase.has_ended() {
                return Ok(());
            }
            if are_stored(&state, &parts.parts) {
                continue;
            }
            let wanted = parts.parts.clone();
            self.send(&key, &record, &source, mover, parts, cancel).await?;
            if !are_stored(&record.state().await, &wanted) {
                // The host failed, or its mover was left to the next leader, which continues the host.
                return Ok(());
            }
        }
        if record.state().await.phase.has_ended() { Ok(()) } else { record.succeeded().await.map(drop) }
    }

    fn is_taken(&self, host: &HostState) -> bool {
        self.key.is_none() && is_taken(host)
    }

    async fn settle_host(&self, record: &HostRecord, cancel: &CancellationToken) -> Result<(), ApiError> {
        self.settle_snapshot(record, cancel).await
    }

    async fn fail_member(&self, member: usize, message: &str) -> Result<bool, ApiError> {
        let (now, failed) = (self.record.now(), ConditionType::BackupExecutorEnsured.no(message));
        locked(&self.at_work.turns).remove(&member);
        let changed = self.record.change(|state| {
            let Some(state) = state.members.get_mut(member) else { return };
            state.observe(&failed, now);
            for host in state.hosts.iter_mut().filter(|host| !host.phase.has_ended()) {
                end_host(host, Some(message.to_owned()), now);
            }
        });
        changed.await
    }

    async fn member_ended(&self, member: usize) -> Result<(), ApiError> {
        locked(&self.at_work.turns).remove(&member);
        Ok(())
    }
}

/// A host that has not started. A host whose volumes cannot be read has already ended, and no hook runs for it.
fn new_host(host: &Host, now: jiff::Timestamp) -> HostState {
    let mut state = HostState { name: host.name.clone(), ..HostState::default() };
    if let Err(error) = &host.source {
        end_host(&mut state, Some(error.to_string()), now);
    }
    state
}

/// Whether the host has a snapshot of each of these parts.
fn are_stored(host: &HostState, parts: &[HostPart]) -> bool {
    let is_stored = |part: &HostPart| {
        let is_of = |volume: &String| *volume == part.volume;
        host.snapshots.iter().any(|stored| {
            stored.path.as_deref() == Some(part.path.as_str()) && stored.volume.as_ref().is_none_or(is_of)
        })
    };
    parts.iter().all(is_stored)
}
