//! Finds the target of a member, the snapshots for its hosts, and how to write them. The restore waits for missing
//! objects and names them; a restore that cannot work fails the member before anything is stopped or written.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::stash::{RestoreRule, RestoreTarget};
use lifeboat_control::locked;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::in_place::{InPlace, RestoreName, Standstill, StopPlan};
use lifeboat_plan::stash::invoker::ValidRestoreMember;
use lifeboat_plan::stash::rules::{RestoreInto, RestoreRequest, Selection, SnapshotFact, rollback, select};
use lifeboat_plan::stash::session::{TargetVolumes, wait_until};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation};
use lifeboat_plan::stash::state::{HostState, MemberState};
use lifeboat_plan::stash::targets::{ClaimRemark, RestoreFacts, RestorePlan, device_errors, restore_plan};
use lifeboat_repository::Retry;
use tokio_util::sync::CancellationToken;

use super::choice::on_record;
use super::copies::{Copies, Left};
use super::found::FoundMember;
use super::work::RestoreWork;
use super::{by_snapshot, by_task};
use crate::repository;
use crate::sessions::engine::NoHosts;

/// The result of one check of a member.
pub(super) enum Tried {
    Found(Box<Ready>),
    /// An object is missing.
    Waits(Observation),
    /// Nothing is missing, but another session uses the data.
    Queued {
        reason: String,
        on: TargetVolumes,
    },
    /// All is there, and pods that go by themselves still use the data.
    Leaving {
        reason: String,
        on: TargetVolumes,
    },
}

/// A member that can be restored.
pub(super) struct Ready {
    pub(super) found: FoundMember,
    /// The target and its claims.
    pub(super) on: TargetVolumes,
    pub(super) selection: Selection,
    /// The safety copies of the repository.
    pub(super) copies: Copies,
    pub(super) way: InPlace,
    /// UID of the workload.
    pub(super) uid: String,
}

impl RestoreWork {
    /// The hosts of a member. Recorded hosts keep their snapshots.
    pub(super) async fn find(
        &self,
        member: usize,
        cancel: &CancellationToken,
    ) -> Result<Vec<HostName>, NoHosts> {
        let Some(valid) = self.member(member) else { return Err(failed("the member is gone")) };
        let state = self.member_state(member).await;
        if !state.hosts.is_empty() {
            let on = self.on(member, state.claims.clone());
            // One that is given up only ends what it began: its movers, and the standstill of its workload.
            while !cancel.is_cancelled()
                && let Some(message) = self.take_turn(member, &on)
            {
                tracing::debug!(restore = self.record.name, message, "a restore waits for its turn");
                tokio::select! {
                    () = tokio::time::sleep(self.transfers.pace) => {}
                    () = cancel.cancelled() => {}
                }
            }
            self.find_again(member, valid, &state).await?;
            return Ok(state.hosts.into_iter().map(|host| host.name).collect());
        }
        let wait =
            SignedDuration::try_from(self.context.settings.restore_wait).unwrap_or(SignedDuration::MAX);
        let until = wait_until(self.record.created, self.valid.time_out, wait);
        loop {
            if cancel.is_cancelled() {
                return Err(failed(&self.end_reason().await));
            }
            let tried = if self.repository.is_none() {
                Box::pin(by_snapshot::try_find(self, member, valid)).await?
            } else if by_task::is_for(valid) {
                Box::pin(by_task::try_find(self, member, valid)).await?
            } else {
                Box::pin(self.try_find(member, valid)).await?
            };
            match tried {
                Tried::Found(ready) => return self.put_on_record(member, valid, *ready).await,
                Tried::Waits(observed) => self.wait(member, &observed, until).await?,
                Tried::Queued { reason, on } => self.queue(member, reason, on).await?,
                Tried::Leaving { reason, on } => self.queue_until(member, reason, on, until).await?,
            }
            tokio::select! {
                () = tokio::time::sleep(self.transfers.pace) => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    /// Records what the member waits for, or that the wait has ended.
    async fn wait(&self, member: usize, observed: &Observation, until: Timestamp) -> Result<(), NoHosts> {
        let now = self.record.now();
        if now >= until {
            return Err(failed(&format!(
                "{}; it did not come within the time for waiting",
                observed.message
            )));
        }
        let changed = self.change(member, |member| member.observe(observed, now));
        if changed.await? { Ok(()) } else { Err(failed("the restore is gone")) }
    }

    /// Records for which session the member waits, and the data on which others must not start before it.
    async fn queue(&self, member: usize, reason: String, on: TargetVolumes) -> Result<(), NoHosts> {
        let now = self.record.now();
        let changed = self.change(member, |member| {
            member.claims = on.claims;
            member.observe(&ConditionType::RestoreTargetFound.yes("the target is available"), now);
            member.observe(&ConditionType::TargetInUse.yes(reason), now);
        });
        if changed.await? { Ok(()) } else { Err(failed("the restore is gone")) }
    }

    /// Waits for pods that end by themselves. The pod of a lost node stays until a person deletes it, so the wait is bounded.
    async fn queue_until(
        &self,
        member: usize,
        reason: String,
        on: TargetVolumes,
        until: Timestamp,
    ) -> Result<(), NoHosts> {
        if self.record.now() >= until {
            return Err(failed(&format!("{reason}; the time for waiting is over: delete what is left")));
        }
        self.queue(member, reason, on).await
    }

    async fn try_find(&self, member: usize, valid: &ValidRestoreMember) -> Result<Tried, NoHosts> {
        let Some(spec) = &valid.spec.target else { return Err(failed("the member has no target")) };
        let rules = &valid.rules.rules;
        let mut facts = self.facts(valid, spec, None).await?;
        let mut plan = planned(&facts, spec, rules)?;
        if let Some(message) = plan.waits_for() {
            return Ok(Tried::Waits(ConditionType::RestoreTargetFound.no(message)));
        }
        let snapshots = match Box::pin(self.snapshots()).await? {
            Ok(snapshots) => snapshots,
            Err(observed) => return Ok(Tried::Waits(observed)),
        };
        let copies = Copies::among(&snapshots);
        let selection = self.selection(rules, &plan, snapshots);
        if let Some(problem) = selection.problem() {
            return Err(NoHosts::Failed(problem));
        }
        let of_target = facts.target.claims.keys().cloned().chain(plan.claims());
        let on = self.on(member, of_target.collect());
        let busy = self.busy(member, &on).await?;
        let left = Left { copies: &copies, selection: &selection, is_at_work: busy.is_some() };
        let way = self.way(&facts, &plan, &left).await?;
        if let InPlace::Later { message } = way {
            return Ok(Tried::Leaving { reason: message, on });
        }
        if way == InPlace::IntoRunning {
            facts.into_running = true;
            plan = planned(&facts, spec, rules)?;
            if let Some(message) = plan.waits_for() {
                return Ok(Tried::Waits(ConditionType::RestoreTargetFound.no(message)));
            }
        }
        unreachable(&plan, &selection)?;
        if let Some(reason) = busy.or_else(|| self.take_turn(member, &on)) {
            return Ok(Tried::Queued { reason, on });
        }
        let object = facts.target.object.as_ref();
        let uid = object.and_then(|object| object["metadata"]["uid"].as_str()).unwrap_or_default().to_owned();
        let found = FoundMember::of(&facts.target, plan);
        Ok(Tried::Found(Box::new(Ready { found, on, selection, copies, way, uid })))
    }

    /// The snapshots of the repository. The inner error is what the restore waits for.
    pub(super) async fn snapshots(&self) -> Result<Result<Vec<SnapshotFact>, Observation>, NoHosts> {
        match Box::pin(repository::snapshots(&self.context, self.key())).await {
            Ok(snapshots) => Ok(Ok(snapshots.into_iter().map(fact).collect())),
            Err(problem) if problem.is_missing() => Ok(Ok(Vec::new())),
            Err(problem) if problem.retry() != Retry::Never => {
                let message = format!("waits for the repository: {}", problem.chain());
                Ok(Err(ConditionType::RestoreJobCreated.no(message)))
            }
            Err(problem) => Err(failed(&problem.chain())),
        }
    }

    fn selection(
        &self,
        rules: &[RestoreRule],
        plan: &RestorePlan,
        snapshots: Vec<SnapshotFact>,
    ) -> Selection {
        let request = RestoreRequest {
            rules: rules.to_vec(),
            hosts: plan.hosts.iter().map(|host| host.name.clone()).collect(),
            into: RestoreInto::Mounts(plan.mounts.clone()),
            snapshots,
        };
        match self.object.rollback_of() {
            Some(session) => rollback(&request, session),
            None => select(&request),
        }
    }

    /// Finds the volumes of recorded hosts. A target that no longer exists has none.
    async fn find_again(
        &self,
        member: usize,
        valid: &ValidRestoreMember,
        state: &MemberState,
    ) -> Result<(), NoHosts> {
        if self.repository.is_none() {
            return by_snapshot::find_again(self, member, valid);
        }
        if by_task::is_for(valid) {
            return by_task::find_again(self, member, valid).await;
        }
        let Some(spec) = &valid.spec.target else { return Ok(()) };
        let mut facts = match self.facts(valid, spec, state.standstill.as_ref()).await {
            Err(NoHosts::Failed(_)) => return Ok(()),
            facts => facts?,
        };
        facts.into_running = state.standstill.is_none() && facts.target.kind.is_workload();
        if let Ok(plan) = planned(&facts, spec, &valid.rules.rules) {
            let found = FoundMember::of(&facts.target, plan);
            locked(&self.found).insert(member, Arc::new(found));
        }
        Ok(())
    }

    /// Records hosts, their snapshots and the standstill, in one write.
    async fn put_on_record(
        &self,
        member: usize,
        valid: &ValidRestoreMember,
        ready: Ready,
    ) -> Result<Vec<HostName>, NoHosts> {
        let Ready { found, on, selection, copies, way, uid } = ready;
        let standstill = match &way {
            InPlace::Stop(plan) => self.standstill(valid, plan, &uid),
            InPlace::AtOnce | InPlace::IntoRunning | InPlace::Later { .. } => None,
        };
        let hosts = selection.hosts.iter().map(|host| HostState {
            name: host.name.clone(),
            paths: host.parts.as_deref().map(on_record).unwrap_or_default(),
            snapshots: copies.known(&host.name, &way),
            ..HostState::default()
        });
        let hosts: Vec<HostState> = hosts.collect();
        let names: Vec<HostName> = hosts.iter().map(|host| host.name.clone()).collect();
        let (now, observed) = (self.record.now(), observations(valid, &selection, &found.remarks));
        let changed = self.change(member, |member| {
            member.total_hosts = i32::try_from(hosts.len()).ok();
            member.claims = on.claims;
            member.hosts = hosts;
            member.standstill = standstill;
            if ConditionType::TargetInUse.is_true(&member.conditions) {
                member.observe(&ConditionType::TargetInUse.no(""), now);
            }
            for observed in &observed {
                member.observe(observed, now);
            }
        });
        if !changed.await? {
            return Err(failed("the restore is gone"));
        }
        if let InPlace::Stop(StopPlan { forced, .. }) = &way
            && !forced.is_empty()
        {
            let owners: Vec<String> = forced.iter().map(ToString::to_string).collect();
            let message = format!("the workload is stopped although {} may start it", owners.join(", "));
            self.record.warn("ScaleForced", &message).await;
        }
        locked(&self.found).insert(member, Arc::new(found));
        Ok(names)
    }

    /// The restore, as records name it.
    pub(super) fn name(&self) -> RestoreName {
        RestoreName {
            kind: self.object.kind.as_str().to_owned(),
            namespace: self.record.namespace.clone(),
            name: self.record.name.clone(),
            uid: self.record.uid.clone(),
        }
    }

    fn standstill(&self, valid: &ValidRestoreMember, plan: &StopPlan, uid: &str) -> Option<Standstill> {
        let (key, kind) = valid.target.as_ref()?.reference.as_ref()?;
        Some(Standstill::new(*kind, (&key.name, uid), plan, self.name()))
    }
}

/// The conditions of a member whose hosts are known.
fn observations(
    valid: &ValidRestoreMember,
    selection: &Selection,
    claims: &[ClaimRemark],
) -> Vec<Observation> {
    let mut observed = vec![
        ConditionType::RestoreTargetFound.yes("the target is available"),
        ConditionType::RestoreExecutorEnsured.yes(""),
        ConditionType::RestoreJobCreated.yes(""),
        ConditionType::RestoreCompleted.no("data is being restored"),
    ];
    if valid.rules.moved {
        let message = "rules beside the target are read as target.rules; write them there";
        observed.push(ConditionType::RulesMoved.yes(message));
    }
    if !selection.left_alone.is_empty() {
        let names: BTreeSet<String> = selection.left_alone.iter().map(ToString::to_string).collect();
        let message = format!("no rule is for {}; nothing is restored to them", joined(&names));
        observed.push(ConditionType::HostsWithoutRule.yes(message));
    }
    let of_hosts = selection.hosts.iter().flat_map(|host| {
        host.notes.iter().map(|note| format!("host {}: {note}", host.name)).collect::<Vec<_>>()
    });
    let remarks: Vec<String> = of_hosts.chain(claims.iter().map(ToString::to_string)).collect();
    if !remarks.is_empty() {
        observed.push(ConditionType::RestoreRemarks.yes(remarks.join("; ")));
    }
    observed
}

pub(super) fn planned(
    facts: &RestoreFacts,
    spec: &RestoreTarget,
    rules: &[RestoreRule],
) -> Result<RestorePlan, NoHosts> {
    restore_plan(facts, spec, rules).map_err(|error| failed(&error.to_string()))
}

/// Fails if the volumes of a host that has a rule cannot be written, or not with the data that was chosen for it.
fn unreachable(plan: &RestorePlan, selection: &Selection) -> Result<(), NoHosts> {
    let is_chosen = |name: &HostName| selection.hosts.iter().any(|host| host.name == *name);
    let chosen = plan.hosts.iter().filter(|host| is_chosen(&host.name));
    let problems = chosen.filter_map(|host| {
        host.destination.as_ref().err().map(|error| format!("host {}: {error}", host.name))
    });
    let devices = device_errors(plan, selection).into_iter().map(|error| error.to_string());
    let problems: Vec<String> = problems.chain(devices).collect();
    if problems.is_empty() { Ok(()) } else { Err(NoHosts::Failed(problems.join("; "))) }
}

fn fact(snapshot: lifeboat_plan::stash::repository::SnapshotFacts) -> SnapshotFact {
    SnapshotFact {
        id: snapshot.id,
        host: HostName(snapshot.hostname),
        paths: snapshot.paths,
        tags: snapshot.tags,
        time: snapshot.time,
    }
}

pub(super) fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

pub(super) fn failed(message: &str) -> NoHosts {
    NoHosts::Failed(message.to_owned())
}
