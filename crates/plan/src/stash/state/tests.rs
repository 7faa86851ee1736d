use lifeboat_api::common::{Condition, Time};
use lifeboat_api::stash::{
    BackupSessionPhase, BackupSessionStatus, HookPhase, RestorePhase, RestoreSessionStatus,
};
use proptest::prelude::*;
use rstest::rstest;

use super::conditions::{ConditionType, Level, Truth};
use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn host(phase: WorkPhase) -> HostState {
    HostState { name: HostName("app".into()), phase, ..HostState::default() }
}

fn with_hook(phase: WorkPhase, pre: HookPhase, post: Option<HookPhase>) -> HostState {
    let run = HostRun { pre_hook: Some(pre), post_hook: post, ..HostRun::default() };
    HostState { run, ..host(phase) }
}

fn member(total: Option<i32>, hosts: Vec<HostState>, observed: &[Observation]) -> MemberState {
    let mut member = MemberState { total_hosts: total, hosts, ..MemberState::default() };
    for observation in observed {
        member.observe(observation, now());
    }
    member
}

use ConditionType::{
    BackendRepositoryInitialized, BackupDisrupted, BackupExecutorEnsured, BackupHistoryCleaned,
    BackupSkipped, DeadlineExceeded, GlobalPostBackupHookSucceeded, GlobalPreBackupHookSucceeded,
    MetricsPushed, PostBackupHookExecutionSucceeded, PreBackupHookExecutionSucceeded,
    RepositoryIntegrityVerified, RepositoryMetricsPushed, RestoreCompleted, RestoreExecutorEnsured,
    RetentionPolicyApplied, ValidationPassed,
};
use WorkPhase::{Failed, Pending, Running, Succeeded, Unknown};

#[rstest]
#[case::new(member(None, vec![], &[]), Pending, "its hosts are not known")]
#[case::hosts_known(member(Some(2), vec![], &[]), Running, "hosts follow")]
#[case::waiting(member(Some(1), vec![host(Pending)], &[]), Running, "a mover waits for its turn")]
#[case::one_of_two(member(Some(2), vec![host(Succeeded)], &[]), Running, "one host is left")]
#[case::all_well(member(Some(2), vec![host(Succeeded), host(Succeeded)], &[]), Succeeded, "all hosts succeeded")]
#[case::one_failed(member(Some(2), vec![host(Failed), host(Succeeded)], &[]), Failed, "one host failed")]
#[case::failed_and_running(member(Some(2), vec![host(Failed), host(Running)], &[]), Running, "one is at work")]
#[case::unknown(member(Some(2), vec![host(Unknown), host(Succeeded)], &[]), Unknown, "a claim waits for its pod")]
#[case::unknown_and_failed(member(Some(2), vec![host(Unknown), host(Failed)], &[]), Failed, "one failed")]
#[case::no_hosts(member(Some(0), vec![], &[]), Failed, "nothing was stored")]
#[case::no_executor(member(None, vec![], &[BackupExecutorEnsured.no("no Ready pod")]), Failed, "no host can be made")]
#[case::no_restorer(member(None, vec![], &[RestoreExecutorEnsured.no("no rule")]), Failed, "no host can be made")]
#[case::disrupted(member(Some(1), vec![host(Pending)], &[BackupDisrupted.yes("deadline")]), Failed, "it was stopped")]
#[case::disrupted_but_running(member(Some(1), vec![host(Running)], &[BackupDisrupted.yes("x")]), Running, "a pod is left")]
#[case::pre_hook(
    member(Some(2), vec![host(Failed), host(Succeeded)], &[PreBackupHookExecutionSucceeded.no("exit 1")]),
    Failed, "a hook failed"
)]
#[case::pre_hook_of_one(
    member(Some(2), vec![host(Failed), host(Running)], &[PreBackupHookExecutionSucceeded.no("exit 1")]),
    Running, "the other host goes on"
)]
#[case::post_hook(
    member(Some(1), vec![host(Succeeded)], &[PostBackupHookExecutionSucceeded.no("exit 1")]),
    Failed, "as upstream"
)]
#[case::owes_hook(
    member(Some(1), vec![with_hook(Failed, HookPhase::Started, None)], &[]),
    Running, "the hook after the host is owed"
)]
#[case::hooks_done(
    member(Some(1), vec![with_hook(Succeeded, HookPhase::Succeeded, Some(HookPhase::Skipped))], &[]),
    Succeeded, "nothing is owed"
)]
#[case::more_steps(
    member(Some(1), vec![host(Succeeded)], &[RestoreCompleted.no("the workload starts")]),
    Running, "steps after the data are left"
)]
#[case::more_steps_after_a_failure(
    member(Some(1), vec![host(Failed)], &[RestoreCompleted.no("the workload starts")]),
    Running, "the workload has to be started"
)]
fn the_phase_of_a_member_follows_from_its_hosts(
    #[case] member: MemberState,
    #[case] expected: WorkPhase,
    #[case] reason: &str,
) {
    assert_eq!(member.current_phase(), expected, "{reason}");
}

fn state(members: &[&[WorkPhase]], observed: &[Observation]) -> SessionState {
    let one = |hosts: &&[WorkPhase]| {
        let total = if hosts.is_empty() { None } else { i32::try_from(hosts.len()).ok() };
        member(total, hosts.iter().map(|phase| host(*phase)).collect(), &[])
    };
    let mut state = SessionState { members: members.iter().map(one).collect(), ..SessionState::default() };
    for observation in observed {
        state.observe(observation, now());
    }
    state
}

#[test]
fn a_session_with_an_unknown_result_has_ended_once_it_is_complete() {
    let mut state = state(&[&[Unknown]], &[MetricsPushed.yes("")]);
    state.settle();
    assert_eq!((state.phase, state.has_ended()), (S::Unknown, true));
    let of_another_version = SessionState { phase: S::Unknown, ..SessionState::default() };
    assert!(!of_another_version.has_ended());
}

use SessionPhase as S;

#[rstest]
#[case::no_members(state(&[], &[]), S::Pending, "not planned")]
#[case::waiting(state(&[&[], &[]], &[]), S::Pending, "no member began")]
#[case::running(state(&[&[Running], &[]], &[]), S::Running, "one member began")]
#[case::hook_ran(state(&[&[]], &[GlobalPreBackupHookSucceeded.yes("")]), S::Running, "the session has begun")]
#[case::repository_made(state(&[&[]], &[BackendRepositoryInitialized.yes("")]), S::Running, "the session has begun")]
#[case::not_complete(state(&[&[Succeeded]], &[]), S::Running, "retention and metrics are left")]
#[case::complete(state(&[&[Succeeded]], &[MetricsPushed.yes("")]), S::Succeeded, "all is done")]
#[case::metrics_failed(state(&[&[Succeeded]], &[MetricsPushed.no("")]), S::Succeeded, "the data is safe")]
#[case::retention_failed(
    state(&[&[Succeeded]], &[MetricsPushed.yes(""), RetentionPolicyApplied.no("locked")]),
    S::Succeeded, "a warning"
)]
#[case::check_failed(
    state(&[&[Succeeded]], &[MetricsPushed.yes(""), RepositoryIntegrityVerified.no("x"), RepositoryMetricsPushed.no("x")]),
    S::Succeeded, "a warning"
)]
#[case::history_failed(
    state(&[&[Succeeded]], &[MetricsPushed.yes(""), BackupHistoryCleaned.no("x")]),
    S::Succeeded, "a warning"
)]
#[case::member_failed(state(&[&[Succeeded], &[Failed]], &[MetricsPushed.yes("")]), S::Failed, "the batch is Failed")]
#[case::unknown(state(&[&[Succeeded], &[Unknown]], &[MetricsPushed.yes("")]), S::Unknown, "one result is not known")]
#[case::member_never_ran(state(&[&[Succeeded], &[]], &[MetricsPushed.yes("")]), S::Failed, "not all data is stored")]
#[case::nothing_ran(state(&[], &[MetricsPushed.yes("")]), S::Failed, "nothing is stored")]
#[case::deadline(state(&[&[Succeeded]], &[MetricsPushed.yes(""), DeadlineExceeded.yes("1h")]), S::Failed, "too late")]
#[case::deadline_is_being_handled(state(&[&[]], &[DeadlineExceeded.yes("1h")]), S::Running, "hooks may be owed")]
#[case::global_pre(
    state(&[&[]], &[MetricsPushed.yes(""), GlobalPreBackupHookSucceeded.no("x")]),
    S::Failed, "no member ran"
)]
#[case::global_post(
    state(&[&[Succeeded]], &[MetricsPushed.yes(""), GlobalPostBackupHookSucceeded.no("x")]),
    S::Failed, "as upstream"
)]
#[case::no_repository(
    state(&[&[]], &[MetricsPushed.yes(""), BackendRepositoryInitialized.no("x")]),
    S::Failed, "nothing could be stored"
)]
#[case::skipped(state(&[&[]], &[BackupSkipped.yes("x")]), S::Skipped, "it does not run")]
#[case::invalid(state(&[&[]], &[ValidationPassed.no("x")]), S::Invalid, "the spec is invalid")]
fn the_phase_of_a_session_follows_from_its_members(
    #[case] mut state: SessionState,
    #[case] expected: SessionPhase,
    #[case] reason: &str,
) {
    state.settle();
    assert_eq!(state.phase, expected, "{reason}");
}

#[test]
fn a_session_that_has_ended_or_begun_stays_so() {
    for phase in [S::Succeeded, S::Failed, S::Skipped, S::Invalid] {
        let mut over = SessionState { phase, ..state(&[&[Running]], &[]) };
        over.settle();
        assert_eq!(over.phase, phase);
    }
    let mut begun = SessionState { phase: S::Running, ..state(&[&[]], &[]) };
    begun.settle();
    assert_eq!(begun.phase, S::Running, "the phase is written before the first step");
}

#[test]
fn upstreams_actions_are_at_the_first_and_the_last_member() {
    let state = SessionState::new_backup([None, None]);
    assert_eq!(state.members[0].pre_actions, ["InitializeBackendRepository"]);
    assert!(state.members[0].post_actions.is_empty() && state.members[1].pre_actions.is_empty());
    assert_eq!(state.members[1].post_actions.len(), 3);
}

#[test]
fn upstreams_statuses_are_read() {
    let status: BackupSessionStatus = serde_json::from_value(serde_json::json!({
        "phase": "Succeeded",
        "targets": [
            {"ref": {"apiVersion": "na", "kind": "EmptyTarget", "name": "na"}, "phase": "Succeeded"},
            {"ref": {"kind": "Deployment", "name": "web"}, "stats": [{"hostname": "host-0", "phase": "Succeeded"}]},
        ],
    }))
    .unwrap();
    let state = SessionState::of_backup_session(&status);
    assert_eq!(state.members[0].reference, None, "upstream's mark for no target");
    assert_eq!(state.members[1].hosts[0].name, HostName("host-0".into()));
    assert_eq!(state.members[1].phase, Pending, "no phase was written");
    assert_eq!(SessionState::of_backup_session(&BackupSessionStatus::default()), SessionState::default());
}

#[test]
fn phases_that_a_kind_does_not_have_are_written_as_the_nearest() {
    let phase = |phase| SessionState { phase, ..SessionState::default() };
    assert_eq!(phase(S::Invalid).to_backup_session().phase, Some(BackupSessionPhase::Failed));
    assert_eq!(phase(S::Skipped).to_restore_session().phase, Some(RestorePhase::Failed));
    let unknown = RestorePhase::Other("Paused".into());
    let status = RestoreSessionStatus { phase: Some(unknown), ..RestoreSessionStatus::default() };
    assert_eq!(SessionState::of_restore_session(&status, None).phase, S::Unknown);
}

fn a_time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000i64).prop_map(|second| Timestamp::from_second(second).unwrap())
}

fn a_reference() -> impl Strategy<Value = Option<TargetRef>> {
    let text = || prop::option::of("[a-z]{1,5}");
    prop::option::of(
        (text(), "[A-Z][a-z]{1,5}", "[a-z]{1,5}", text()).prop_map(|(api_version, kind, name, namespace)| {
            TargetRef { api_version, kind, name, namespace }
        }),
    )
}

/// Conditions of one level, each type once.
fn some_conditions(level: Level) -> impl Strategy<Value = Vec<Condition>> {
    let kinds: Vec<_> = ConditionType::ALL.iter().copied().filter(|kind| kind.level() == level).collect();
    let truth = prop::sample::select(vec![Truth::True, Truth::False, Truth::Unknown]);
    proptest::collection::vec((prop::sample::select(kinds), truth, a_time()), 0..5).prop_map(|list| {
        let mut conditions = Vec::new();
        for (kind, truth, time) in list {
            kind.observed(truth, "text").set_in(&mut conditions, time);
        }
        conditions
    })
}

fn a_host(is_backup: bool) -> impl Strategy<Value = HostState> {
    let phases = if is_backup {
        vec![Pending, Running, Succeeded, Failed]
    } else {
        vec![Pending, Running, Succeeded, Failed, Unknown]
    };
    let snapshots = proptest::collection::vec("[0-9a-f]{8}", 0..3).prop_map(move |ids| {
        let ids = if is_backup { ids } else { Vec::new() };
        ids.into_iter().map(|id| SnapshotStats { name: Some(id), ..SnapshotStats::default() }).collect()
    });
    let hook = || prop::option::of(prop::sample::select(HookPhase::KNOWN));
    let run = (
        prop::option::of("[a-z]{1,5}"),
        prop::option::of(0..5i64),
        prop::option::of(a_time()),
        hook(),
        hook(),
    );
    let run = run.prop_map(|(pod, attempt, time, pre_hook, post_hook)| HostRun {
        pod,
        attempt,
        start_time: time.map(Time),
        pre_hook,
        post_hook,
        ..HostRun::default()
    });
    let error = prop::option::of("[a-z ]{0,9}");
    let duration = prop::option::of((0..1_000i64).prop_map(GoDuration::from_secs));
    ("[a-z0-9-]{1,9}", prop::sample::select(phases), duration, error, snapshots, run).prop_map(
        |(name, phase, duration, error, snapshots, run)| HostState {
            name: HostName(name),
            phase,
            duration,
            error,
            snapshots,
            run,
            ..HostState::default()
        },
    )
}

fn a_member(is_backup: bool) -> impl Strategy<Value = MemberState> {
    let hosts = proptest::collection::vec(a_host(is_backup), 0..3);
    let actions = proptest::collection::vec("[A-Za-z]{1,9}", 0..2);
    (a_reference(), prop::option::of(0..4i32), hosts, some_conditions(Level::Member), actions).prop_map(
        move |(reference, total_hosts, hosts, conditions, actions)| {
            let actions = if is_backup { actions } else { Vec::new() };
            let mut member = MemberState {
                claims: total_hosts.iter().map(|number| format!("data-{number}")).collect(),
                reference,
                total_hosts,
                hosts,
                conditions,
                pre_actions: actions.clone(),
                post_actions: actions,
                phase: Pending,
                standstill: None,
            };
            member.phase = member.current_phase();
            if is_backup && member.phase == Unknown {
                member.phase = Running;
            }
            member
        },
    )
}

fn a_state(is_backup: bool) -> impl Strategy<Value = SessionState> {
    let last = if is_backup { S::Skipped } else { S::Invalid };
    let phases = vec![S::Pending, S::Running, S::Succeeded, S::Failed, S::Unknown, last];
    let members = proptest::collection::vec(a_member(is_backup), 1..4);
    let duration = prop::option::of((0..1_000i64).prop_map(GoDuration::from_secs));
    let retry = (prop::option::of(any::<bool>()), prop::option::of(a_time()));
    let conditions = some_conditions(Level::Session);
    (prop::sample::select(phases), prop::option::of(a_time()), duration, conditions, members, retry).prop_map(
        move |(phase, deadline, duration, conditions, members, (retried, next_retry))| SessionState {
            phase,
            deadline,
            duration,
            conditions,
            succeeded_members: retried.filter(|_| is_backup).map(|_| 7),
            members,
            retried: retried.filter(|_| is_backup),
            next_retry: next_retry.filter(|_| is_backup),
            message: deadline.map(|_| "it waits".to_owned()),
        },
    )
}

#[test]
fn long_texts_of_hosts_are_cut_so_that_a_status_with_many_hosts_can_be_stored() {
    let mut long = host(Failed);
    long.error = Some("ä".repeat(4096));
    long.run.message = Some("x".repeat(4096));
    let mut state =
        SessionState { members: vec![member(Some(1), vec![long], &[])], ..SessionState::default() };
    state.settle();
    let host = &state.members[0].hosts[0];
    for text in [&host.error, &host.run.message].into_iter().flatten() {
        assert!(text.len() < 1100 && text.ends_with('…'), "{text}");
    }
    let first = state.clone();
    state.settle();
    assert_eq!(state, first);
}

/// A status after it was stored by the API server.
fn stored<T: serde::Serialize + serde::de::DeserializeOwned>(status: &T) -> T {
    serde_json::from_value(serde_json::to_value(status).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn a_backup_session_keeps_the_whole_state(state in a_state(true)) {
        prop_assert_eq!(SessionState::of_backup_session(&stored(&state.to_backup_session())), state);
    }

    #[test]
    fn a_restore_batch_keeps_the_whole_state(state in a_state(false)) {
        prop_assert_eq!(SessionState::of_restore_batch(&stored(&state.to_restore_batch())), state);
    }

    #[test]
    fn a_restore_session_keeps_the_whole_state(mut state in a_state(false)) {
        state.members.truncate(1);
        let target = state.members[0].reference.clone();
        let status = stored(&state.to_restore_session());
        prop_assert_eq!(SessionState::of_restore_session(&status, target), state);
    }

    /// A session is Succeeded only if every member stored or restored something and none failed, and its end stays.
    #[test]
    fn success_means_that_every_host_succeeded(mut state in a_state(true)) {
        state.phase = S::Pending;
        state.settle();
        if state.phase == S::Succeeded {
            for member in &state.members {
                prop_assert!(!member.hosts.is_empty());
                prop_assert!(member.hosts.iter().all(|host| host.phase == Succeeded && !host.is_at_work()));
            }
        }
        let first = state.clone();
        state.settle();
        prop_assert_eq!(state, first, "settling again changes nothing");
    }
}
