//! What a restore did to the data of a member, from its hosts and the record of its standstill. Backups of the target,
//! claims that the restore made and the standstill itself all depend on this answer.

use super::{HostState, MemberState, WorkPhase};
use crate::stash::in_place::Step;

/// The data of a member of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredData {
    /// All of it was restored.
    Whole,
    /// It is unchanged: no mover wrote anything, and none will.
    Untouched,
    /// It may be half restored, or movers are running.
    Open,
}

impl MemberState {
    /// What the restore did to the data of the member.
    pub fn restored_data(&self) -> RestoredData {
        // A workload that is held down says nothing about its data: it may be down because it could not be started.
        let says_all = |step: Step| step != Step::HeldDown || self.hosts.is_empty();
        if let Some(record) = self.standstill.as_ref().filter(|record| says_all(record.step)) {
            return match (record.step, &record.failure) {
                (Step::Started, None) => RestoredData::Whole,
                (Step::Started | Step::LeftDown, Some(_)) => RestoredData::Untouched,
                _ => RestoredData::Open,
            };
        }
        if self.hosts.iter().all(|host| matches!(host.phase, WorkPhase::Succeeded | WorkPhase::Unknown)) {
            return RestoredData::Whole;
        }
        let is_untouched = self.all_hosts_ended() && !self.hosts.iter().any(HostState::may_have_written);
        if is_untouched { RestoredData::Untouched } else { RestoredData::Open }
    }
}

impl HostState {
    /// Whether a mover of a restore may have written data of the host. The attempt is on record before the mover is sent, and is removed
    /// when all paths are restored, or when the mover reported that it wrote nothing.
    pub fn may_have_written(&self) -> bool {
        self.run.attempt.is_some() || self.paths.iter().any(|chosen| chosen.restored)
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::stash::{HostRun, RestoredPath};
    use rstest::rstest;

    use super::*;
    use crate::stash::hosts::TargetKind;
    use crate::stash::in_place::{RestoreName, Standstill, StopPlan};

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
    #[case::started_with_the_data(at_standstill(Step::Started, None), RestoredData::Whole)]
    #[case::started_as_before(at_standstill(Step::Started, Some("late")), RestoredData::Untouched)]
    #[case::left_as_an_earlier_restore_left_it(
        at_standstill(Step::LeftDown, Some("late")),
        RestoredData::Untouched
    )]
    #[case::held_down(at_standstill(Step::HeldDown, Some("disk full")), RestoredData::Open)]
    #[case::half_restored(held_down(&[(WorkPhase::Failed, true)]), RestoredData::Open)]
    #[case::not_started_with_the_data(held_down(&[(WorkPhase::Succeeded, true)]), RestoredData::Whole)]
    #[case::not_started_as_before(held_down(&[(WorkPhase::Failed, false)]), RestoredData::Untouched)]
    #[case::at_work(at_standstill(Step::Restoring, None), RestoredData::Open)]
    #[case::all_hosts(at_once(&[(WorkPhase::Succeeded, true), (WorkPhase::Succeeded, true)]), RestoredData::Whole)]
    #[case::one_failed(at_once(&[(WorkPhase::Succeeded, true), (WorkPhase::Failed, false)]), RestoredData::Open)]
    #[case::no_mover_was_sent(at_once(&[(WorkPhase::Failed, false)]), RestoredData::Untouched)]
    #[case::one_is_left_to_the_next_server(at_once(&[(WorkPhase::Running, true)]), RestoredData::Open)]
    #[case::one_has_not_begun(at_once(&[(WorkPhase::Failed, false), (WorkPhase::Pending, false)]), RestoredData::Open)]
    fn data_is_complete_or_unchanged_only_if_that_is_certain(
        #[case] state: MemberState,
        #[case] expected: RestoredData,
    ) {
        assert_eq!(state.restored_data(), expected);
    }

    #[rstest]
    #[case::a_mover_was_requested(Some(1), false, true)]
    #[case::a_path_is_restored(None, true, true)]
    #[case::neither(None, false, false)]
    fn a_host_may_have_been_written_once_a_mover_was_requested(
        #[case] attempt: Option<i64>,
        #[case] restored: bool,
        #[case] expected: bool,
    ) {
        let path = RestoredPath { restored, ..RestoredPath::default() };
        let run = HostRun { attempt, ..HostRun::default() };
        let host = HostState { paths: vec![path], run, ..HostState::default() };
        assert_eq!(host.may_have_written(), expected);
    }
}
