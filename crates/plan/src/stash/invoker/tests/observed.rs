//! The status of invokers and restores.

use jiff::Timestamp;
use lifeboat_api::stash::{InvokerKind, InvokerPhase, TargetRef};

use super::*;
use crate::stash::reservation::{Claim, Record, Standing};
use crate::stash::state::conditions::ConditionType;
use crate::stash::state::{SessionPhase, SessionState};

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn no(text: &str) -> Presence {
    Presence::No(text.into())
}

fn gathered() -> Gathered {
    Gathered {
        repository: Some(Presence::Yes),
        secret: Some(Presence::Yes),
        targets: vec![Some(Presence::Yes)],
        not_found: Vec::new(),
        standing: Some(Standing::Holds),
        refusal: None,
        unenforced: None,
    }
}

fn waits() -> Standing {
    let claim = |uid: &str, second| Claim {
        kind: InvokerKind::BackupBatch,
        namespace: "demo".into(),
        name: uid.into(),
        uid: uid.into(),
        created: Timestamp::from_second(second).unwrap(),
        repository: RepositoryName::default(),
        hosts: Vec::new(),
    };
    Record::default().with(&claim("first", 1)).with(&claim("second", 2)).standing("second")
}

#[rstest]
#[case::ready(gathered(), false, InvokerPhase::Ready, "the schedule is in force")]
#[case::snapshotter(Gathered { repository: None, secret: None, standing: None, ..gathered() }, false, InvokerPhase::Ready, "in force")]
#[case::no_repository(
    Gathered { repository: Some(no("no Repository")), secret: None, standing: None, ..gathered() },
    false, InvokerPhase::NotReady, "no Repository"
)]
#[case::no_secret(Gathered { secret: Some(no("no Secret")), standing: None, ..gathered() }, false, InvokerPhase::NotReady, "no Secret")]
#[case::secret_not_read(
    Gathered { secret: Some(Presence::Unknown("forbidden".into())), standing: None, ..gathered() },
    false, InvokerPhase::NotReady, "forbidden"
)]
#[case::secret_not_asked(Gathered { secret: None, standing: None, ..gathered() }, false, InvokerPhase::NotReady, "not available")]
#[case::invalid(gathered(), true, InvokerPhase::Invalid, "spec.schedule")]
#[case::invalid_and_missing(Gathered { repository: Some(no("x")), ..gathered() }, true, InvokerPhase::NotReady, "spec.schedule")]
#[case::in_use(Gathered { standing: Some(waits()), ..gathered() }, false, InvokerPhase::Invalid, "BackupBatch demo/first")]
#[case::refused(Gathered { refusal: Some("no policy".into()), ..gathered() }, false, InvokerPhase::Invalid, "no policy")]
#[case::not_reserved(Gathered { standing: None, ..gathered() }, false, InvokerPhase::NotReady, "not reserved yet")]
#[case::no_target(Gathered { targets: vec![Some(no("no Deployment"))], ..gathered() }, false, InvokerPhase::NotReady, "no Deployment")]
#[case::without_target(Gathered { targets: vec![None], ..gathered() }, false, InvokerPhase::Ready, "in force")]
fn an_invoker_has_upstreams_phase(
    #[case] gathered: Gathered,
    #[case] invalid: bool,
    #[case] phase: InvokerPhase,
    #[case] says: &str,
) {
    let problems = invalid
        .then(|| backup_configuration("demo", &configuration(&[("/schedule", json!("x"))])).unwrap_err());
    let status =
        InvokerStatus::of(&InvokerStatus::default(), problems.as_ref(), &gathered, &[None], false, now());
    assert_eq!(status.phase, Some(phase.clone()), "{status:?}");
    let messages: Vec<_> = status.conditions.iter().map(|condition| condition.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.contains(says)), "{messages:?}");
    let in_force = ConditionType::CronJobCreated.is_true(&status.conditions);
    assert_eq!(
        in_force && !invalid,
        phase == InvokerPhase::Ready,
        "only a Ready invoker has its schedule in force"
    );
}

#[rstest]
#[case::for_now(Gathered { unenforced: Some("no policy".into()), ..gathered() }, SessionPhase::Pending, "Unknown", "no policy")]
#[case::for_good(Gathered { refusal: Some("too old".into()), ..gathered() }, SessionPhase::Invalid, "False", "too old")]
#[case::never(gathered(), SessionPhase::Pending, "True", "valid")]
fn a_restore_that_nothing_may_have_checked_waits_and_one_that_nothing_has_checked_is_invalid(
    #[case] gathered: Gathered,
    #[case] phase: SessionPhase,
    #[case] status: &str,
    #[case] says: &str,
) {
    let mut state = SessionState::new_restore([None]);
    observe_restore(&mut state, None, &gathered, now());
    assert_eq!(state.phase, phase, "{state:?}");
    let found = state.conditions.iter().find(|condition| condition.type_ == "ValidationPassed").unwrap();
    assert!(found.status == status && found.message.contains(says), "{found:?}");
}

#[test]
fn a_batch_runs_with_the_targets_that_it_has() {
    let reference =
        |name: &str| Some(TargetRef { kind: "Deployment".into(), name: name.into(), ..TargetRef::default() });
    let targets = [reference("web"), reference("db"), None];
    let gathered =
        Gathered { targets: vec![Some(Presence::Yes), Some(no("no such Deployment")), None], ..gathered() };
    let first = InvokerStatus::of(&InvokerStatus::default(), None, &gathered, &targets, true, now());
    assert_eq!(first.phase, Some(InvokerPhase::Ready));
    assert_eq!(first.members.len(), 3);
    assert!(ConditionType::BackupTargetFound.is_false(&first.members[1].conditions));
    assert_eq!(first.members[2].target.kind, "EmptyTarget");
    assert!(
        first.conditions.iter().all(|condition| condition.type_ != "BackupTargetFound"),
        "it is the members'"
    );
    let later = now().checked_add(jiff::SignedDuration::from_secs(60)).unwrap();
    let second = InvokerStatus::of(&first, None, &gathered, &targets, true, later);
    assert_eq!(second, first, "transition times stay");
}

#[test]
fn conditions_of_a_driver_that_is_no_longer_used_go_and_those_of_others_stay() {
    let mut old = InvokerStatus::of(&InvokerStatus::default(), None, &gathered(), &[None], false, now());
    let foreign = lifeboat_api::common::Condition { type_: "Reviewed".into(), ..old.conditions[0].clone() };
    old.conditions.push(foreign);
    let snapshotter = Gathered { repository: None, secret: None, standing: None, ..gathered() };
    let new = InvokerStatus::of(&old, None, &snapshotter, &[None], false, now());
    let types: Vec<_> = new.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["ValidationPassed", "BackupTargetFound", "CronJobCreated", "Reviewed"]);
}

#[test]
fn a_restore_waits_for_what_is_missing_and_is_invalid_for_ever() {
    let mut state = SessionState::new_restore([None]);
    let missing =
        Gathered { repository: Some(no("no Repository")), secret: None, standing: None, ..gathered() };
    observe_restore(&mut state, None, &missing, now());
    assert_eq!(state.phase.as_str(), "Pending");
    assert!(ConditionType::RepositoryFound.is_false(&state.conditions));
    assert!(ConditionType::RestoreTargetFound.is_true(&state.members[0].conditions));
    let problems = restore_session("demo", &restore(&[("/target", Value::Null)])).unwrap_err();
    observe_restore(&mut state, Some(&problems), &gathered(), now());
    assert_eq!(state.phase.as_str(), "Invalid");
}
