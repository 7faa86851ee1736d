//! The work of a restore on its members: finds targets and snapshots, stops workloads, starts movers, runs hooks.
//! Called by the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::hooks::ValidHook;
use lifeboat_plan::stash::hosts::{HostName, TargetKind};
use lifeboat_plan::stash::in_place::{DELETED, Step};
use lifeboat_plan::stash::invoker::{MemberHooks, ValidRestore, ValidRestoreMember};
use lifeboat_plan::stash::session::{Order, TargetKey};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation};
use lifeboat_plan::stash::state::{HostState, MemberState, WorkPhase};
use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::repositories::RepositoryKey;
use tokio_util::sync::CancellationToken;

use super::found::FoundMember;
use super::member::MemberStandstill;
use super::object::RestoreObject;
use super::{by_snapshot, by_task};
use crate::context::Context;
use crate::patience::{WEBHOOKS, patiently};
use crate::sessions::batch_hooks::{self, HookConditions};
use crate::sessions::engine::{HookMoment, NoHosts, SessionWork};
use crate::sessions::finalizer::{self, Hold};
use crate::sessions::hooks::{HookFailure, HookPlace};
use crate::sessions::host_record::HostRecord;
use crate::sessions::record::SessionRecord;
use crate::sessions::reported::grouped;
use crate::sessions::turns::Turn;
use crate::standstill::{self, Restoring, StandstillEnd};
use crate::tasks::TaskWork;

/// The members of one restore.
pub(super) struct RestoreWork {
    pub(super) context: Context,
    pub(super) record: Arc<SessionRecord>,
    pub(super) object: RestoreObject,
    pub(super) valid: ValidRestore,
    /// None with driver VolumeSnapshotter; see [`Self::key`].
    pub(super) repository: Option<RepositoryKey>,
    pub(super) transfers: WorkContext,
    /// The targets of members as they were found; empty at first.
    pub(super) found: Mutex<BTreeMap<usize, Arc<FoundMember>>>,
    /// The turns of members on their targets.
    pub(super) turns: Mutex<BTreeMap<usize, Turn>>,
    /// The tasks of members that have one.
    pub(super) tasks: Mutex<BTreeMap<usize, TaskWork>>,
    pub(super) cancel: CancellationToken,
}

impl RestoreWork {
    pub(super) fn member(&self, member: usize) -> Option<&ValidRestoreMember> {
        self.valid.members.get(member)
    }

    /// The Repository, for code that only driver Restic runs.
    pub(super) fn key(&self) -> &RepositoryKey {
        self.repository.as_ref().expect("only driver Restic has snapshots in a repository, movers and tasks")
    }

    /// The target of a member; None if claims are created from templates.
    pub(super) fn target(&self, member: usize) -> Option<(TargetKind, &TargetKey)> {
        let target = self.member(member)?.target.as_ref()?;
        target.reference.as_ref().map(|(key, kind)| (*kind, key))
    }

    /// The target of a member as it was found; empty if it no longer exists.
    pub(super) fn found(&self, member: usize) -> Arc<FoundMember> {
        locked(&self.found).get(&member).cloned().unwrap_or_default()
    }

    pub(super) async fn member_state(&self, member: usize) -> MemberState {
        self.record.read(|state| state.members.get(member).cloned().unwrap_or_default()).await
    }

    /// Changes the state of a member. False if the session no longer exists.
    pub(super) async fn change(
        &self,
        member: usize,
        change: impl FnOnce(&mut MemberState),
    ) -> Result<bool, ApiError> {
        let changed = self.record.change(|state| {
            if let Some(member) = state.members.get_mut(member) {
                change(member);
            }
        });
        changed.await
    }

    /// The records of all hosts of a member.
    pub(super) async fn hosts(&self, member: usize) -> Vec<HostRecord> {
        let names: Vec<HostName> =
            self.member_state(member).await.hosts.into_iter().map(|host| host.name).collect();
        let record = |host| HostRecord { session: self.record.clone(), member, host };
        names.into_iter().map(record).collect()
    }

    /// Why the restore has to end early.
    pub(super) async fn end_reason(&self) -> String {
        let reason = self.record.read(|state| {
            let set = |kind: ConditionType| {
                let known = state.conditions.iter().find(|known| known.type_ == kind.name());
                known.filter(|known| known.status == "True").map(|known| known.message.clone())
            };
            let late =
                set(ConditionType::DeadlineExceeded).map(|_| "it did not end within timeOut".to_owned());
            late.or_else(|| set(ConditionType::Interrupted))
        });
        reason.await.unwrap_or_else(|| DELETED.to_owned())
    }

    /// Stops the workload of a member, restores, and starts it.
    async fn write_at_standstill(&self, member: usize, cancel: &CancellationToken) -> Result<(), ApiError> {
        let found = self.found(member);
        let Some(target) = self.member(member).and_then(|member| member.target.as_ref()) else {
            return Ok(());
        };
        let Some((key, kind)) = &target.reference else { return Ok(()) };
        if !self.may_stop(member).await? {
            return Ok(());
        }
        let core = &self.context.core;
        finalizer::hold(core, self.object.kind, &self.record, Hold::Standstill).await?;
        if !cancel.is_cancelled() && !self.make_claims(member, &found).await? {
            self.change(member, |member| member.standstill = None).await?;
            return self.release_standstill().await;
        }
        let workload = standstill::Workload {
            core,
            target: crate::target::TargetName { kind: *kind, namespace: &key.namespace, name: &key.name },
            claims: found.claims.clone(),
            session: &self.record.uid,
            grace: found.grace,
            webhooks: WEBHOOKS,
        };
        let restore = MemberStandstill { work: self, member, found: found.clone(), cancel };
        let ended = Box::pin(standstill::carry_out(&workload, &restore, self.transfers.pace)).await?;
        if let StandstillEnd::Over { failure } = ended {
            let uid = restore.record().await.map(|record| record.uid).unwrap_or_default();
            let is_there = workload.is_there(&uid).await?;
            self.over(member, failure, is_there).await?;
            self.settle_blocking(member, &found).await?;
            self.release_standstill().await?;
        }
        Ok(())
    }

    /// Removes the finalizer of a standstill that is over. If that is refused, it is removed when the restore has ended.
    async fn release_standstill(&self) -> Result<(), ApiError> {
        let release = || finalizer::release_standstill(&self.context.core, self.object.kind, &self.record);
        if let Err(why) = patiently(&self.cancel, release).await? {
            tracing::warn!(restore = self.record.name, %why, "the finalizer of a restore was not removed");
        }
        Ok(())
    }

    /// Whether the workload may be stopped. If the hook of one host failed, no host is restored, because a workload
    /// with data from two points in time is worse than one that was not restored.
    async fn may_stop(&self, member: usize) -> Result<bool, ApiError> {
        let state = self.member_state(member).await;
        if state.standstill.as_ref().is_none_or(|record| record.step != Step::Recorded) {
            return Ok(true);
        }
        if let Some(failed) = state.hosts.iter().find(|host| host.phase == WorkPhase::Failed) {
            let message = format!("it was not restored, because the hook before host {} failed", failed.name);
            for record in self.hosts(member).await {
                if !record.state().await.phase.has_ended() {
                    record.failed(message.clone()).await?;
                }
            }
            self.change(member, |member| member.standstill = None).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Records how the standstill of a member ended. `is_there`: whether its workload still exists.
    async fn over(&self, member: usize, failure: Option<String>, is_there: bool) -> Result<(), ApiError> {
        let state = self.member_state(member).await;
        let is_down = state.standstill.as_ref().is_some_and(|record| record.step.is_down());
        if let Some(failure) = &failure {
            self.fail_open_hosts(member, failure).await?;
            self.record.warn("RestoreFailed", failure).await;
        }
        // If all data was restored, this records that the restore failed nevertheless.
        let has_failed = state.hosts.iter().any(|host| host.phase != WorkPhase::Succeeded);
        let executor = failure.clone().filter(|_| is_down && !has_failed);
        let observed = started(failure, is_down, is_there);
        let now = self.record.now();
        let changed = self.change(member, |member| {
            member.observe(&observed, now);
            if let Some(failure) = executor {
                member.observe(&ConditionType::RestoreExecutorEnsured.no(failure), now);
            }
        });
        changed.await.map(drop)
    }
}

#[async_trait]
impl SessionWork for RestoreWork {
    fn record(&self) -> &Arc<SessionRecord> {
        &self.record
    }

    fn is_sequential(&self) -> bool {
        self.valid.order == Order::Sequential
    }

    async fn find_hosts(&self, member: usize, cancel: &CancellationToken) -> Result<Vec<HostName>, NoHosts> {
        match self.member(member) {
            Some(_) => Box::pin(self.find(member, cancel)).await,
            None => Err(NoHosts::Failed("the member is gone".to_owned())),
        }
    }

    fn hooks(&self, member: usize) -> Option<&MemberHooks> {
        self.member(member).map(|member| &member.hooks)
    }

    fn retry_left(&self) -> i32 {
        0
    }

    fn hook_conditions(&self) -> HookConditions {
        batch_hooks::OF_RESTORE_HOSTS
    }

    async fn hook_place(&self, record: &HostRecord, hook: &ValidHook) -> Result<HookPlace, ApiError> {
        Box::pin(self.hook_place_of(record, hook)).await
    }

    async fn hold(&self) -> Result<(), ApiError> {
        finalizer::hold(&self.context.core, self.object.kind, &self.record, Hold::Hooks).await
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
        let found = self.found(record.member);
        self.restore(&record, &found, cancel).await
    }

    fn is_together(&self, _member: usize) -> bool {
        true
    }

    async fn run_together(&self, member: usize, cancel: &CancellationToken) -> Result<(), ApiError> {
        if self.repository.is_none() {
            return Box::pin(by_snapshot::run(self, member, cancel)).await;
        }
        if self.member(member).is_some_and(by_task::is_for) {
            return Box::pin(by_task::run(self, member, cancel)).await;
        }
        if self.member_state(member).await.standstill.is_some() {
            Box::pin(self.write_at_standstill(member, cancel)).await?;
        } else {
            Box::pin(self.write_at_once(member, cancel)).await?;
        }
        Box::pin(self.discard_claims(member)).await;
        Ok(())
    }

    async fn fail_member(&self, member: usize, message: &str) -> Result<bool, ApiError> {
        locked(&self.turns).remove(&member);
        self.fail_open_hosts(member, message).await?;
        let (now, failed) = (self.record.now(), ConditionType::RestoreExecutorEnsured.no(message));
        self.change(member, |member| member.observe(&failed, now)).await
    }

    async fn member_ended(&self, member: usize) -> Result<(), ApiError> {
        locked(&self.turns).remove(&member);
        let now = self.record.now();
        self.change(member, |member| member.complete_restore(now)).await.map(drop)
    }
}

/// Whether the workload was started. `is_down`: the restore left it down.
pub(super) fn started(failure: Option<String>, is_down: bool, is_there: bool) -> Observation {
    let started = ConditionType::WorkloadStarted;
    let gone = |message: String| Observation { reason: "WorkloadDeleted", ..started.no(message) };
    match failure {
        Some(failure) if is_down => started.no(failure),
        Some(failure) if is_there => {
            started.yes(format!("nothing was written, and it runs as before: {failure}"))
        }
        Some(failure) => {
            gone(format!("nothing was written, and the workload does not exist any more: {failure}"))
        }
        None if is_there => started.yes("it has its replicas again"),
        None => gone(
            "all data was restored, and the workload was deleted meanwhile: nothing is started".to_owned(),
        ),
    }
}

/// The first failure among hosts, for messages.
pub(super) fn failures(hosts: &[HostState]) -> Option<String> {
    let failed: Vec<(String, String)> = hosts
        .iter()
        .filter(|host| host.phase == WorkPhase::Failed)
        .map(|host| (format!("host {}", host.name), host.error.as_deref().unwrap_or("it failed").to_owned()))
        .collect();
    (!failed.is_empty()).then(|| grouped(&failed))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::restored(None, false, true, "True", "it has its replicas again")]
    #[case::restored_and_deleted(None, false, false, "False", "was deleted meanwhile")]
    #[case::as_before(Some("late"), false, true, "True", "runs as before: late")]
    #[case::deleted_before_anything_was_written(
        Some("late"),
        false,
        false,
        "False",
        "does not exist any more: late"
    )]
    #[case::held_down(Some("disk full"), true, true, "False", "disk full")]
    #[case::held_down_and_deleted(Some("disk full"), true, false, "False", "disk full")]
    fn the_condition_says_what_became_of_the_workload(
        #[case] failure: Option<&str>,
        #[case] is_down: bool,
        #[case] is_there: bool,
        #[case] truth: &str,
        #[case] message: &str,
    ) {
        let observed = started(failure.map(str::to_owned), is_down, is_there);
        assert_eq!(observed.truth.as_str(), truth);
        assert!(observed.message.contains(message), "{observed:?}");
    }
}
