mod simulated;

use rstest::rstest;

use super::*;

fn at_second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key(name: &str, second: i64) -> SessionKey {
    SessionKey { created: at_second(second), namespace: "demo".into(), name: name.into() }
}

fn target(name: &str) -> TargetKey {
    TargetKey { kind: "Deployment".into(), namespace: "demo".into(), name: name.into() }
}

/// A Deployment with these claims.
fn with_claims(name: &str, claims: &[&str]) -> TargetVolumes {
    TargetVolumes::new("demo", Some(target(name)), claims.iter().map(|&claim| claim.to_owned()).collect())
}

/// A claim as target.
fn claim(name: &str) -> TargetVolumes {
    let key = TargetKey { kind: "PersistentVolumeClaim".into(), namespace: "demo".into(), name: name.into() };
    TargetVolumes::from(key)
}

fn backup(name: &str, second: i64, phase: SessionPhase, members: &[(&str, WorkPhase)]) -> OtherBackup {
    let targets = members.iter().map(|(name, phase)| OtherTarget { on: target(name).into(), phase: *phase });
    OtherBackup { session: key(name, second), phase, targets: targets.collect() }
}

fn restore(second: i64, of: &str, progress: RestoreProgress) -> OtherRestore {
    OtherRestore { session: key("back", second), kind: "RestoreSession", on: target(of).into(), progress }
}

fn failed(ended: i64) -> RestoreProgress {
    RestoreProgress::Failed { ended: at_second(ended), resumed: false }
}

fn succeeded(ended: i64) -> RestoreProgress {
    RestoreProgress::Succeeded { ended: at_second(ended) }
}

fn ready() -> InvokerFacts {
    InvokerFacts { phase: Some(InvokerPhase::Ready), paused: false, message: String::new() }
}

struct Case {
    by_hand: bool,
    invoker: Option<InvokerFacts>,
    order: Order,
    targets: Vec<&'static str>,
    siblings: Vec<OtherBackup>,
    others: Vec<OtherBackup>,
    restores: Vec<OtherRestore>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            by_hand: false,
            invoker: Some(ready()),
            order: Order::Parallel,
            targets: vec!["web"],
            siblings: vec![],
            others: vec![],
            restores: vec![],
        }
    }
}

/// The decision about a session of second 100.
fn decide(case: Case) -> SessionStart {
    let targets: Vec<_> =
        case.targets.iter().map(|name| Some(TargetVolumes::from(target(name)).into())).collect();
    start_backup(&BackupFacts {
        session: &key("app-100", 100),
        by_hand: case.by_hand,
        invoker: case.invoker,
        order: case.order,
        targets: &targets,
        siblings: &case.siblings,
        others: &case.others,
        restores: &case.restores,
    })
}

fn word(start: &SessionStart) -> &'static str {
    match start {
        SessionStart::Start => "start",
        SessionStart::Wait(_) => "wait",
        SessionStart::Skip(_) => "skip",
    }
}

use SessionPhase as S;
use WorkPhase as W;

#[rstest]
#[case::alone(Case::default(), "start", "")]
#[case::no_invoker(Case { invoker: None, ..Case::default() }, "skip", "does not exist")]
#[case::not_ready(
    Case { invoker: Some(InvokerFacts { phase: Some(InvokerPhase::NotReady), message: "no Secret".into(), ..ready() }), ..Case::default() },
    "skip", "NotReady: no Secret"
)]
#[case::not_validated(
    Case { invoker: Some(InvokerFacts { phase: None, ..ready() }), ..Case::default() },
    "skip", "not validated yet"
)]
#[case::paused(
    Case { invoker: Some(InvokerFacts { paused: true, ..ready() }), ..Case::default() },
    "skip", "paused"
)]
#[case::paused_but_by_hand(
    Case { invoker: Some(InvokerFacts { paused: true, ..ready() }), by_hand: true, ..Case::default() },
    "start", ""
)]
#[case::sibling_runs(
    Case { siblings: vec![backup("app-50", 50, S::Running, &[("web", W::Running)])], ..Case::default() },
    "skip", "app-50"
)]
#[case::younger_sibling_runs(
    Case { siblings: vec![backup("app-150", 150, S::Running, &[])], ..Case::default() },
    "skip", "app-150"
)]
#[case::older_sibling_waits(
    Case { siblings: vec![backup("app-50", 50, S::Pending, &[])], ..Case::default() },
    "skip", "app-50"
)]
#[case::younger_sibling_waits(
    Case { siblings: vec![backup("app-150", 150, S::Pending, &[])], ..Case::default() },
    "start", ""
)]
#[case::sibling_is_over(
    Case { siblings: vec![backup("app-50", 50, S::Failed, &[("web", W::Running)])], ..Case::default() },
    "start", ""
)]
#[case::restore_at_work(
    Case { restores: vec![restore(150, "web", RestoreProgress::Running)], ..Case::default() },
    "skip", "RestoreSession demo/back is restoring Deployment demo/web"
)]
#[case::restore_of_another_target(
    Case { restores: vec![restore(50, "db", RestoreProgress::Running)], ..Case::default() },
    "start", ""
)]
#[case::older_restore_is_next(
    Case { restores: vec![restore(50, "web", RestoreProgress::Queued)], ..Case::default() },
    "skip", "restoring"
)]
#[case::younger_restore_is_next(
    Case { restores: vec![restore(150, "web", RestoreProgress::Queued)], ..Case::default() },
    "start", ""
)]
#[case::restore_lacks_something(
    Case { restores: vec![restore(50, "web", RestoreProgress::Waiting)], ..Case::default() },
    "start", ""
)]
#[case::last_restore_failed(
    Case { restores: vec![restore(50, "web", failed(60))], ..Case::default() },
    "skip", "lifeboat stash resume"
)]
#[case::by_hand_after_a_failed_restore(
    Case { restores: vec![restore(50, "web", failed(60))], by_hand: true, ..Case::default() },
    "skip", "half-restored"
)]
#[case::resumed(
    Case { restores: vec![restore(50, "web", RestoreProgress::Failed { ended: at_second(60), resumed: true })], ..Case::default() },
    "start", ""
)]
#[case::a_later_one_succeeded(
    Case { restores: vec![restore(70, "web", succeeded(80)), restore(50, "web", failed(60))], ..Case::default() },
    "start", ""
)]
#[case::an_earlier_one_succeeded(
    Case { restores: vec![restore(50, "web", failed(90)), restore(70, "web", succeeded(80))], ..Case::default() },
    "skip", "failed"
)]
#[case::another_member_of_the_batch_failed(
    Case { restores: vec![restore(50, "db", failed(60))], ..Case::default() },
    "start", ""
)]
#[case::other_invoker_runs(
    Case { others: vec![backup("x-150", 150, S::Running, &[("web", W::Running)])], ..Case::default() },
    "wait", "demo/x-150"
)]
#[case::older_other_invoker_waits(
    Case { others: vec![backup("x-50", 50, S::Pending, &[("web", W::Pending)])], ..Case::default() },
    "wait", "demo/x-50"
)]
#[case::younger_other_invoker_waits(
    Case { others: vec![backup("x-150", 150, S::Pending, &[("web", W::Pending)])], ..Case::default() },
    "start", ""
)]
#[case::other_invoker_is_done_with_it(
    Case { others: vec![backup("x-50", 50, S::Running, &[("web", W::Succeeded), ("db", W::Running)])], ..Case::default() },
    "start", ""
)]
#[case::equal_age_by_name(
    Case { others: vec![backup("app-099", 100, S::Pending, &[("web", W::Pending)])], ..Case::default() },
    "wait", "app-099"
)]
#[case::one_member_is_free(
    Case { targets: vec!["web", "db"], others: vec![backup("x-50", 50, S::Running, &[("web", W::Running)])], ..Case::default() },
    "start", ""
)]
#[case::the_first_in_order_is_not(
    Case { targets: vec!["web", "db"], order: Order::Sequential, others: vec![backup("x-50", 50, S::Running, &[("web", W::Running)])], ..Case::default() },
    "wait", "x-50"
)]
fn a_backup_starts_waits_or_is_skipped(#[case] case: Case, #[case] expected: &str, #[case] says: &str) {
    let start = decide(case);
    assert_eq!(word(&start), expected, "{start:?}");
    let message = match &start {
        SessionStart::Start => String::new(),
        SessionStart::Wait(reason) => reason.to_string(),
        SessionStart::Skip(reason) => reason.to_string(),
    };
    assert!(message.contains(says), "{message}");
}

#[test]
fn a_member_is_not_read_after_a_restore_that_failed_meanwhile() {
    let session = key("app-100", 100);
    let web = BackupTargetFacts::from(TargetVolumes::from(target("web")));
    let member = |restores: &[OtherRestore]| backup_member(&session, Some(&web), &[], restores);
    assert!(matches!(member(&[restore(150, "web", RestoreProgress::Running)]), MemberStart::Wait(_)));
    assert!(matches!(member(&[restore(150, "web", failed(160))]), MemberStart::Refuse(_)));
    assert_eq!(member(&[restore(150, "web", succeeded(160))]), MemberStart::Start);
    assert_eq!(backup_member(&session, None, &[], &[]), MemberStart::Start, "a task without target");
}

#[rstest]
#[case::nothing(&[], &[], true, "")]
#[case::backup_runs(&[backup("x", 150, S::Running, &[("web", W::Running)])], &[], false, "a restore waits for a running backup")]
#[case::backup_is_older_and_waits(&[backup("x", 50, S::Pending, &[("web", W::Pending)])], &[], true, "it has not begun")]
#[case::backup_of_another(&[backup("x", 50, S::Running, &[("db", W::Running)])], &[], true, "another target")]
#[case::restore_runs(&[], &[restore(150, "web", RestoreProgress::Running)], false, "one at a time")]
#[case::older_restore(&[], &[restore(50, "web", RestoreProgress::Queued)], false, "older first")]
#[case::younger_restore(&[], &[restore(150, "web", RestoreProgress::Queued)], true, "older first")]
#[case::restore_lacks_something(&[], &[restore(50, "web", RestoreProgress::Waiting)], true, "it may wait for a day")]
#[case::last_failed(&[], &[restore(50, "web", failed(60))], true, "a restore repairs what a failed one left")]
fn a_restore_has_its_target_alone(
    #[case] backups: &[OtherBackup],
    #[case] restores: &[OtherRestore],
    #[case] starts: bool,
    #[case] reason: &str,
) {
    let start = restore_member(&key("r", 100), &target("web").into(), backups, restores);
    assert_eq!(start == MemberStart::Start, starts, "{reason}: {start:?}");
}

/// A claim and the workload that mounts it are one set of data.
#[rstest]
#[case::backup_of_the_workload_runs(&[(with_claims("web", &["data", "logs"]), W::Running)], &[], "wait")]
#[case::older_backup_of_the_workload_waits(&[(with_claims("web", &["data"]), W::Pending)], &[], "wait")]
#[case::backup_of_another_workload_that_mounts_it(&[(with_claims("api", &["data"]), W::Running)], &[], "wait")]
#[case::backup_of_a_workload_without_it(&[(with_claims("web", &["logs"]), W::Running)], &[], "start")]
#[case::restore_of_the_workload_runs(&[], &[(with_claims("web", &["data"]), RestoreProgress::Running)], "wait")]
#[case::restore_of_the_workload_failed(&[], &[(with_claims("web", &["data", "logs"]), failed(60))], "refuse")]
#[case::then_the_claim_was_restored(&[], &[(with_claims("web", &["data", "logs"]), failed(60)), (claim("data"), succeeded(80))], "start")]
#[case::then_another_claim_was_restored(&[], &[(with_claims("web", &["data", "logs"]), failed(60)), (claim("logs"), succeeded(80))], "refuse")]
#[case::the_claim_was_restored_before(&[], &[(with_claims("web", &["data"]), failed(90)), (claim("data"), succeeded(80))], "refuse")]
fn a_backup_of_a_claim_regards_the_workloads_that_mount_it(
    #[case] backups: &[(TargetVolumes, WorkPhase)],
    #[case] restores: &[(TargetVolumes, RestoreProgress)],
    #[case] expected: &str,
) {
    let others: Vec<OtherBackup> = backups
        .iter()
        .map(|(on, phase)| OtherBackup {
            targets: vec![OtherTarget { on: on.clone(), phase: *phase }],
            ..backup("x-50", 50, S::Running, &[])
        })
        .collect();
    let restores: Vec<OtherRestore> = restores
        .iter()
        .map(|(on, progress)| OtherRestore { on: on.clone(), ..restore(50, "x", *progress) })
        .collect();
    let start = backup_member(&key("app-100", 100), Some(&claim("data").into()), &others, &restores);
    let word = match &start {
        MemberStart::Start => "start",
        MemberStart::Wait(_) => "wait",
        MemberStart::Refuse(_) => "refuse",
    };
    assert_eq!(word, expected, "{start:?}");
    let shown = format!("{start:?}");
    assert!(word == "start" || shown.contains("\"data\""), "what is shared is named: {shown}");
    // A restore of the claim waits for the same sessions, except for backups that have not begun.
    let restoring = restore_member(&key("r", 100), &claim("data"), &others, &restores);
    let at_work = backups.iter().any(|(on, phase)| *phase == W::Running && on.claims.contains("data"))
        || restores.iter().any(|restore| restore.progress == RestoreProgress::Running);
    assert_eq!(matches!(restoring, MemberStart::Wait(_)), at_work, "{restoring:?}");
}

/// The record on the data outlives the restore that failed, and a restore of a claim leaves that of others alone.
#[test]
fn data_that_carries_the_record_of_a_restore_is_not_backed_up() {
    let by = RestoreName {
        kind: "RestoreSession".into(),
        namespace: "demo".into(),
        name: "gone".into(),
        uid: "u".into(),
    };
    let web = BackupTargetFacts { on: with_claims("web", &["data"]), unfinished: Some(by) };
    let later = [OtherRestore { on: with_claims("web", &["data"]), ..restore(50, "web", succeeded(90)) }];
    for restores in [&[][..], &later] {
        let MemberStart::Refuse(reason) = backup_member(&key("a", 100), Some(&web), &[], restores) else {
            panic!("it is half restored")
        };
        let text = reason.to_string();
        assert!(text.contains("lifeboat stash resume restoresession/gone -n demo"), "{text}");
    }
    let at_work = [restore(50, "web", RestoreProgress::Running)];
    assert!(matches!(backup_member(&key("a", 100), Some(&web), &[], &at_work), MemberStart::Wait(_)));
}
