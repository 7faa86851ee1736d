//! The order of members, and the times by which a session must have ended or started.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::common::GoDuration;

use crate::stash::state::conditions::ConditionType::{
    DeadlineExceeded, GlobalPreBackupHookSucceeded, GlobalPreRestoreHookSucceeded,
};
use crate::stash::state::{MemberState, SessionState, WorkPhase};

/// The order of a batch's members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All at once.
    #[default]
    Parallel,
    /// One after another, in the order of the spec.
    Sequential,
}

/// The members that have not started and may start, by their index. The caller checks for each of them whether its
/// target is free. A failed member does not stop the others; after the deadline, and if the hook before all members
/// failed, no member starts.
pub fn members_to_start(state: &SessionState, order: Order) -> BTreeSet<usize> {
    let stopped = DeadlineExceeded.is_true(&state.conditions)
        || GlobalPreBackupHookSucceeded.is_false(&state.conditions)
        || GlobalPreRestoreHookSucceeded.is_false(&state.conditions);
    if stopped || state.phase.has_ended() || state.is_complete() {
        return BTreeSet::new();
    }
    let waits = |member: &MemberState| member.current_phase() == WorkPhase::Pending;
    let members = state.members.iter().enumerate();
    match order {
        Order::Parallel => members.filter(|(_, member)| waits(member)).map(|(index, _)| index).collect(),
        Order::Sequential => {
            let next = members.into_iter().find(|(_, member)| !member.has_ended());
            next.filter(|(_, member)| waits(member)).map(|(index, _)| index).into_iter().collect()
        }
    }
}

/// When a session that was created at a time must have ended; None without `timeOut`.
pub fn deadline(created: Timestamp, time_out: Option<GoDuration>) -> Option<Timestamp> {
    let time_out = GoDuration::set(time_out)?;
    Some(created.checked_add(time_out.to_signed()).unwrap_or(Timestamp::MAX))
}

/// Whether the deadline has passed.
pub fn is_over(deadline: Option<Timestamp>, now: Timestamp) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}

/// Until when a restore waits for what is missing: its deadline, or the server's limit, whichever is first.
pub fn wait_until(
    created: Timestamp,
    time_out: Option<GoDuration>,
    restore_wait: SignedDuration,
) -> Timestamp {
    let limit = created.checked_add(restore_wait).unwrap_or(Timestamp::MAX);
    deadline(created, time_out).map_or(limit, |deadline| deadline.min(limit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::stash::state::HostState;
    use crate::stash::state::conditions::ConditionType;
    use lifeboat_api::stash::{HookPhase, HostRun};

    fn host(phase: WorkPhase) -> HostState {
        HostState { phase, ..HostState::default() }
    }

    fn member(hosts: &[WorkPhase]) -> MemberState {
        let total = if hosts.is_empty() { None } else { i32::try_from(hosts.len()).ok() };
        let hosts = hosts.iter().map(|phase| host(*phase)).collect();
        MemberState { total_hosts: total, hosts, ..MemberState::default() }
    }

    fn state(members: Vec<MemberState>) -> SessionState {
        SessionState { members, ..SessionState::default() }
    }

    fn failed_before_hosts() -> MemberState {
        let mut member = MemberState::default();
        member.observe(&ConditionType::BackupExecutorEnsured.no("no Ready pod"), Timestamp::UNIX_EPOCH);
        member
    }

    fn owes_hook() -> MemberState {
        let mut member = member(&[WorkPhase::Failed]);
        member.hosts[0].run = HostRun { pre_hook: Some(HookPhase::Succeeded), ..HostRun::default() };
        member
    }

    use WorkPhase::{Failed, Running, Succeeded};

    #[rstest]
    #[case::none_began(vec![member(&[]), member(&[])], &[0, 1], &[0], "nothing runs")]
    #[case::first_runs(vec![member(&[Running]), member(&[])], &[1], &[], "the first is at work")]
    #[case::first_succeeded(vec![member(&[Succeeded]), member(&[]), member(&[])], &[1, 2], &[1], "the next one only")]
    #[case::first_failed(vec![member(&[Failed]), member(&[])], &[1], &[1], "a failed member stops no other")]
    #[case::one_host_runs(vec![member(&[Failed, Running]), member(&[])], &[1], &[], "all hosts must have ended")]
    #[case::hook_is_owed(vec![owes_hook(), member(&[])], &[1], &[], "hooks must have ended, too")]
    #[case::never_had_hosts(vec![failed_before_hosts(), member(&[])], &[1], &[1], "it failed without hosts")]
    #[case::all_ended(vec![member(&[Succeeded]), member(&[Failed])], &[], &[], "nothing is left")]
    fn members_start_by_their_order(
        #[case] members: Vec<MemberState>,
        #[case] parallel: &[usize],
        #[case] sequential: &[usize],
        #[case] reason: &str,
    ) {
        let state = state(members);
        let list = |order| members_to_start(&state, order).into_iter().collect::<Vec<_>>();
        assert_eq!(list(Order::Parallel), parallel, "{reason}");
        assert_eq!(list(Order::Sequential), sequential, "{reason}");
    }

    #[rstest]
    #[case::deadline(ConditionType::DeadlineExceeded.yes("after 1h"))]
    #[case::backup_hook(ConditionType::GlobalPreBackupHookSucceeded.no("status 500"))]
    #[case::restore_hook(ConditionType::GlobalPreRestoreHookSucceeded.no("status 500"))]
    #[case::complete(ConditionType::MetricsPushed.yes("done"))]
    fn nothing_starts_any_more(#[case] observation: crate::stash::state::conditions::Observation) {
        let mut state = state(vec![member(&[]), member(&[])]);
        state.observe(&observation, Timestamp::UNIX_EPOCH);
        assert!(members_to_start(&state, Order::Parallel).is_empty());
        assert!(members_to_start(&state, Order::Sequential).is_empty());
    }

    #[rstest]
    #[case::none(None, None)]
    #[case::zero_is_unset(Some("0s"), None)]
    #[case::an_hour(Some("1h"), Some(3_600))]
    fn the_deadline_is_the_creation_and_the_time_out(
        #[case] time_out: Option<&str>,
        #[case] expected: Option<i64>,
    ) {
        let time_out = time_out.map(|text| text.parse().unwrap());
        let expected = expected.map(|second| Timestamp::from_second(second).unwrap());
        assert_eq!(deadline(Timestamp::UNIX_EPOCH, time_out), expected);
        assert!(!is_over(expected, Timestamp::from_second(3_599).unwrap()));
        assert_eq!(is_over(expected, Timestamp::from_second(3_600).unwrap()), expected.is_some());
    }

    #[rstest]
    #[case::no_time_out(None, 86_400)]
    #[case::shorter("1h".into(), 3_600)]
    #[case::longer("48h".into(), 86_400)]
    fn what_is_missing_is_waited_for_until_the_first_limit(
        #[case] time_out: Option<&str>,
        #[case] expected: i64,
    ) {
        let time_out = time_out.map(|text| text.parse().unwrap());
        let until = wait_until(Timestamp::UNIX_EPOCH, time_out, SignedDuration::from_hours(24));
        assert_eq!(until.as_second(), expected);
    }

    fn a_member() -> impl Strategy<Value = MemberState> {
        let phase = prop_oneof![Just(WorkPhase::Pending), Just(Running), Just(Succeeded), Just(Failed)];
        proptest::collection::vec(phase, 0..3).prop_map(|hosts| member(&hosts))
    }

    proptest! {
        #[test]
        fn in_order_no_member_starts_beside_another(members in proptest::collection::vec(a_member(), 0..6)) {
            let state = state(members);
            let started = members_to_start(&state, Order::Sequential);
            prop_assert!(started.len() <= 1);
            prop_assert!(started.is_subset(&members_to_start(&state, Order::Parallel)));
            if let Some(index) = started.first() {
                prop_assert!(state.members[..*index].iter().all(MemberState::has_ended));
            }
        }

        /// In any order, a session ends if all started members end.
        #[test]
        fn every_member_has_its_turn(members in proptest::collection::vec(a_member(), 0..6), sequential: bool) {
            let order = if sequential { Order::Sequential } else { Order::Parallel };
            let mut state = state(members);
            for _ in 0..=state.members.len() {
                for index in members_to_start(&state, order) {
                    state.members[index] = member(&[Running]);
                }
                for host in state.members.iter_mut().flat_map(|member| &mut member.hosts) {
                    host.phase = if host.phase.has_ended() { host.phase } else { Failed };
                }
            }
            prop_assert!(state.members.iter().all(MemberState::has_ended));
        }
    }
}
