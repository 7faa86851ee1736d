//! Blocks backups of the data that a restore writes, from before the first byte until the data is complete again. The
//! record is on the claims ([`unfinished`]), because the restore may be deleted; condition `BackupsBlocked` shows it.

use std::collections::BTreeSet;

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::in_place::Step;
use lifeboat_plan::stash::session::TargetVolumes;
use lifeboat_plan::stash::state::conditions::{ConditionType, Truth};
use lifeboat_plan::stash::state::{MemberState, WorkPhase};
use lifeboat_plan::stash::targets::VolumeAccess;

use super::choice::may_have_written;
use super::found::FoundMember;
use super::work::RestoreWork;
use crate::sessions::engine::is_refusal;
use crate::sessions::unfinished;

impl RestoreWork {
    /// Sets the record on the claims before the first mover starts. False if that is not allowed: then the hosts have
    /// failed.
    pub(super) async fn block_backups(&self, member: usize, found: &FoundMember) -> Result<bool, ApiError> {
        let state = self.member_state(member).await;
        if ConditionType::BackupsBlocked.status_in(&state.conditions).is_some() {
            return Ok(true);
        }
        let written = TargetVolumes::new(&self.record.namespace, None, written(&state, found));
        let (core, name) = (&self.context.core, self.name());
        match unfinished::mark(core, &written, self.target(member), &name).await {
            Err(error) if is_refusal(&error) => {
                let message =
                    format!("the restore cannot be recorded on the data that it writes: {}", error.chain());
                self.fail_open_hosts(member, &message).await?;
                return Ok(false);
            }
            marked => marked?,
        }
        let blocked = ConditionType::BackupsBlocked.yes(format!(
            "backups of what it writes are skipped until a restore succeeds, or until a person allows them: lifeboat stash resume {} -n {}",
            name.argument(),
            name.namespace
        ));
        let now = self.record.now();
        self.change(member, |member| member.observe(&blocked, now)).await.map(|_| true)
    }

    /// Removes the record if the data is complete: all of it was restored, or nothing was written. Called once the
    /// movers have ended.
    pub(super) async fn settle_blocking(&self, member: usize, found: &FoundMember) -> Result<(), ApiError> {
        let state = self.member_state(member).await;
        // A server may have died after it set the record and before it set the condition.
        let shown = ConditionType::BackupsBlocked.status_in(&state.conditions);
        if shown == Some(Truth::False) {
            return Ok(());
        }
        let core = &self.context.core;
        let message = match outcome(&state) {
            Outcome::Whole => {
                let claims = state.claims.iter().chain(&found.claims).cloned().collect();
                unfinished::clear(core, &self.on(member, claims), self.target(member)).await?;
                "all data was restored"
            }
            Outcome::Untouched => {
                unfinished::withdraw(
                    core,
                    &self.on(member, state.claims),
                    self.target(member),
                    &self.record.uid,
                )
                .await?;
                "nothing was written"
            }
            Outcome::Open => return Ok(()),
        };
        if shown.is_none() {
            return Ok(());
        }
        let (now, allowed) = (self.record.now(), ConditionType::BackupsBlocked.no(message));
        self.change(member, |member| member.observe(&allowed, now)).await.map(drop)
    }
}

/// The state of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All of it was restored.
    Whole,
    /// It is unchanged.
    Untouched,
    /// It may be half restored, or movers are running.
    Open,
}

fn outcome(state: &MemberState) -> Outcome {
    // A workload that is held down says nothing about its data: it may be down because it could not be started.
    let says_all = |step: Step| step != Step::HeldDown || state.hosts.is_empty();
    if let Some(record) = state.standstill.as_ref().filter(|record| says_all(record.step)) {
        return match (record.step, &record.failure) {
            (Step::Started, None) => Outcome::Whole,
            (Step::Started | Step::LeftDown, Some(_)) => Outcome::Untouched,
            _ => Outcome::Open,
        };
    }
    if state.hosts.iter().all(|host| matches!(host.phase, WorkPhase::Succeeded | WorkPhase::Unknown)) {
        return Outcome::Whole;
    }
    let is_untouched = state.hosts.iter().all(|host| host.phase.has_ended() && !may_have_written(host));
    if is_untouched { Outcome::Untouched } else { Outcome::Open }
}

/// The claims of the hosts that are restored.
fn written(state: &MemberState, found: &FoundMember) -> BTreeSet<String> {
    let destinations = state.hosts.iter().filter_map(|host| found.destinations.get(&host.name));
    let volumes = destinations.flat_map(|destination| &destination.volumes);
    let claims = volumes.filter_map(|volume| match &volume.access {
        VolumeAccess::Claim { claim, .. } => Some(claim.clone()),
        _ => None,
    });
    claims.collect()
}

#[cfg(test)]
mod tests {
    use lifeboat_api::stash::HostRun;
    use lifeboat_plan::stash::hosts::TargetKind;
    use lifeboat_plan::stash::in_place::{RestoreName, Standstill, StopPlan};
    use lifeboat_plan::stash::state::HostState;
    use rstest::rstest;

    use super::*;

    fn at_standstill(step: Step, failure: Option<&str>) -> MemberState {
        let plan =
            StopPlan { replicas: 1, safety_copy: true, safety_of: None, held_by: None, forced: Vec::new() };
        let record = Standstill::new(TargetKind::Deployment, ("web", "uid"), &plan, RestoreName::default());
        let record = Standstill { step, failure: failure.map(str::to_owned), ..record };
        MemberState { standstill: Some(record), ..MemberState::default() }
    }

    /// Held down, with these hosts.
    fn held_down(hosts: &[(WorkPhase, bool)]) -> MemberState {
        MemberState { hosts: at_once(hosts).hosts, ..at_standstill(Step::HeldDown, Some("refused")) }
    }

    fn at_once(hosts: &[(WorkPhase, bool)]) -> MemberState {
        let host = |(phase, began): &(WorkPhase, bool)| {
            let run = HostRun { attempt: began.then_some(1), ..HostRun::default() };
            HostState { phase: *phase, run, ..HostState::default() }
        };
        MemberState { hosts: hosts.iter().map(host).collect(), ..MemberState::default() }
    }

    #[rstest]
    #[case::started_with_the_data(at_standstill(Step::Started, None), Outcome::Whole)]
    #[case::started_as_before(at_standstill(Step::Started, Some("late")), Outcome::Untouched)]
    #[case::left_as_an_earlier_restore_left_it(
        at_standstill(Step::LeftDown, Some("late")),
        Outcome::Untouched
    )]
    #[case::held_down(at_standstill(Step::HeldDown, Some("disk full")), Outcome::Open)]
    #[case::half_restored(held_down(&[(WorkPhase::Failed, true)]), Outcome::Open)]
    #[case::not_started_with_the_data(held_down(&[(WorkPhase::Succeeded, true)]), Outcome::Whole)]
    #[case::not_started_as_before(held_down(&[(WorkPhase::Failed, false)]), Outcome::Untouched)]
    #[case::at_work(at_standstill(Step::Restoring, None), Outcome::Open)]
    #[case::all_hosts(at_once(&[(WorkPhase::Succeeded, true), (WorkPhase::Succeeded, true)]), Outcome::Whole)]
    #[case::one_failed(at_once(&[(WorkPhase::Succeeded, true), (WorkPhase::Failed, false)]), Outcome::Open)]
    #[case::no_mover_was_sent(at_once(&[(WorkPhase::Failed, false)]), Outcome::Untouched)]
    #[case::one_is_left_to_the_next_server(at_once(&[(WorkPhase::Running, true)]), Outcome::Open)]
    fn the_record_stays_while_data_may_be_half_restored(
        #[case] state: MemberState,
        #[case] expected: Outcome,
    ) {
        assert_eq!(outcome(&state), expected);
    }
}
