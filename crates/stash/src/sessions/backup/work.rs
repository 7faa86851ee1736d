//! The work of a backup on its members: finds targets and hosts, starts movers, runs hooks. Called by the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::common::GoDuration;
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
    Host, HostPart, HostSource, MoverParts, MoverSource, TargetPlan, backup_plan,
};
use lifeboat_plan::transfer::movers::MoverJob;
use lifeboat_transfer::attempts::{Transfer, TransferSpec, WorkContext, run_transfer};
use lifeboat_transfer::gateway::Rights;
use lifeboat_transfer::repositories::RepositoryKey;
use tokio_util::sync::CancellationToken;

use super::copying::{CopyOptions, Copying};
use crate::context::Context;
use crate::gateway::{NoPass, pass};
use crate::invokers::Invoker;
use crate::metrics::HostNumbers;
use crate::sessions::batch_hooks::{self, HookConditions};
use crate::sessions::engine::{HookMoment, NoHosts, SessionWork};
use crate::sessions::finalizer::{self, Hold};
use crate::sessions::hooks::{HookFailure, HookPlace};
use crate::sessions::host_record::{HostRecord, end_host};
use crate::sessions::kind::SessionKind;
use crate::sessions::places::{Writable, place};
use crate::sessions::pod::{PodRequest, pod_settings_on};
use crate::sessions::record::SessionRecord;
use crate::sessions::snapshotter::taking::is_taken;
use crate::sessions::tasks::task_base;
use crate::sessions::turns::Turn;
use crate::target::{self, TargetName};
use crate::tasks::TaskWork;

/// How long the mover of one host may take if the invoker sets no `timeOut`.
const LONGEST: Duration = Duration::from_hours(24 * 7);

/// The members of one backup.
pub(in crate::sessions) struct BackupWork {
    pub(super) context: Context,
    pub(super) record: Arc<SessionRecord>,
    pub(super) invoker: Invoker,
    pub(super) valid: ValidBackup,
    /// None with driver VolumeSnapshotter.
    pub(super) key: Option<RepositoryKey>,
    pub(super) transfers: WorkContext,
    pub(super) retry_left: i32,
    pub(super) cancel: CancellationToken,
    /// What this server knows about the members and hosts that it works on; empty at first.
    pub(super) at_work: AtWork,
}

/// What the movers of a host have copied.
type SharedNumbers = Arc<Mutex<HostNumbers>>;

/// Members and hosts that this server works on.
#[derive(Default)]
pub(super) struct AtWork {
    /// The hosts of members as they were found.
    pub(super) plans: Mutex<BTreeMap<(usize, HostName), Host>>,
    /// The tasks of members that have one.
    pub(super) tasks: Mutex<BTreeMap<usize, TaskWork>>,
    /// The turns of members on their targets.
    pub(super) turns: Mutex<BTreeMap<usize, Turn>>,
    /// The amounts that the movers of each host have copied.
    numbers: Mutex<BTreeMap<(usize, HostName), SharedNumbers>>,
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

    /// Reads the target of a member and decides about its hosts. The inner error is for people.
    pub(super) async fn plan(&self, member: usize) -> Result<TargetPlan, NoHosts> {
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
        backup_plan(&facts, spec).map_err(|error| NoHosts::Failed(error.to_string()))
    }

    fn transfer(
        &self,
        key: &RepositoryKey,
        record: &HostRecord,
        state: &HostState,
        mover: usize,
        namespace: &str,
    ) -> Transfer {
        let attempt = state.run.attempt.and_then(|attempt| u64::try_from(attempt).ok());
        let limit = self.valid.time_out.and_then(GoDuration::to_std).unwrap_or(LONGEST);
        let spec = TransferSpec {
            task_base: task_base(&self.record.uid, record.member, &record.host, mover),
            namespace: namespace.to_owned(),
            key: key.clone(),
            repository: format!("Repository {}", key.name()),
            make: true,
            group: format!("{}/{}", self.record.namespace, self.record.name),
            created: Some(self.record.created),
            limit,
            is_new: attempt.is_none(),
            attempt,
            dead_owners: state.run.dead_owners.clone(),
        };
        Transfer::new(&self.transfers, Arc::new(record.clone()), spec)
    }

    /// The namespace of a mover: that of the target, except for directories of nodes.
    fn movers_namespace(&self, member: usize, source: &MoverSource) -> String {
        let target = self.member(member).and_then(|member| member.target.as_ref());
        match (source, target) {
            (MoverSource::Volumes { .. }, Some(target)) => target.key.namespace.clone(),
            (MoverSource::Volumes { .. }, None) => self.record.namespace.clone(),
            (MoverSource::NodeDirectory { .. }, _) => self.transfers.settings.namespace.clone(),
        }
    }

    fn options(&self, member: usize, task: Option<&TaskWork>) -> CopyOptions {
        let member = self.member(member);
        let target = member.and_then(|member| member.spec.target.as_ref());
        CopyOptions {
            session: self.record.uid.clone(),
            exclude: target.map(|target| target.exclude.clone()).unwrap_or_default(),
            args: member
                .and_then(|member| member.target.as_ref())
                .map(|target| target.args.clone())
                .unwrap_or_default(),
            source: task.map(TaskWork::source),
        }
    }

    /// Starts one mover of a host and waits for its end.
    async fn send(
        &self,
        key: &RepositoryKey,
        record: &HostRecord,
        source: &HostSource,
        mover: usize,
        parts: MoverParts<HostPart>,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let namespace = self.movers_namespace(record.member, &parts.source);
        let pass = match pass(&self.context, key, &namespace, Rights::Backup).await {
            Ok(pass) => pass,
            Err(NoPass::Api(error)) => return Err(error),
            Err(problem) => return record.failed(problem.to_string()).await.map(drop),
        };
        let transfer = self.transfer(key, record, &record.state().await, mover, &namespace).through(pass);
        let member = self.member(record.member);
        let job = MoverJob {
            task: transfer.task(),
            owner: self.record.owner(),
            place: place(&parts.source, Writable::No),
            repository: key.to_string(),
            group: transfer.group.clone(),
            deadline_seconds: 1,
            namespace,
            pod: self.transfers.settings.pod(&self.context.core.namespace),
        };
        let request = PodRequest {
            job: &job,
            runtime: member.and_then(|member| member.spec.runtime_settings.as_ref()),
            target: source.pod_of_data(),
        };
        let task = self.task(record.member);
        let base = job.pod.clone();
        let base = if let Some(task) = &task { task.base(base) } else { base };
        let pod = match pod_settings_on(&self.context.core, base, &request).await? {
            Ok(pod) => pod,
            Err(message) => return record.failed(message.to_string()).await.map(drop),
        };
        let options = self.options(record.member, task.as_ref());
        let base = task_base(&self.record.uid, record.member, &record.host, mover);
        let host = (record.member, record.host.clone());
        let numbers = locked(&self.at_work.numbers).entry(host).or_default().clone();
        let copying = Copying {
            work: Some(self),
            transfer,
            base,
            record: record.clone(),
            parts,
            pod,
            options,
            numbers,
        };
        run_transfer(&copying, cancel).await
    }

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
        let plan = self.plan(member).await?;
        let now = self.record.now();
        let changed = self.record.change(|state| {
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
        self.note_pod(&record, &source).await?;
        let Some(key) = &self.key else { return self.take_snapshot(&record, &source, cancel).await };
        for (mover, parts) in self.movers(record.member, &source).into_iter().enumerate() {
            let state = record.state().await;
            if state.phase.has_ended() {
                return Ok(());
            }
            if are_stored(&state, &parts.parts) {
                continue;
            }
            let wanted = parts.parts.clone();
            self.send(key, &record, &source, mover, parts, cancel).await?;
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
        host.snapshots.iter().any(|stored| stored.path.as_deref() == Some(part.path.as_str()))
    };
    parts.iter().all(is_stored)
}
