//! When a Repository is inspected again, and when it is maintained. An inspection opens the repository and lists its
//! snapshots.
//!
//! A usable repository is inspected rarely outside of sessions, because every session inspects it, and hundreds of
//! idle repositories must not keep the server and the API server busy. After a restart the inspections are spread
//! over time, because opening a repository takes a second of CPU time.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_api::stash::Repository;
use sha2::{Digest, Sha256};

use super::record;
use crate::stash::state::conditions::{ConditionType, NOT_OPENED_BY_MOVER, Truth};
use crate::transfer::repository_notes::{MAINTAIN_SINCE, MAINTENANCE, after};

/// The interval between inspections of a usable repository, if no session inspects it.
const REST: Duration = Duration::from_hours(6);
/// The interval while a repository cannot be used, and the interval after it could not be used for [`LONG`].
const TRY: Duration = Duration::from_mins(1);
const TRY_LATER: Duration = Duration::from_mins(10);
const LONG: Duration = Duration::from_hours(1);
/// These intervals if movers open the repository: each try is a pod in the tenant's namespace.
const TRY_BY_MOVER: Duration = Duration::from_mins(10);
const TRY_BY_MOVER_LATER: Duration = Duration::from_hours(1);
/// The minimum time between two prunes.
const PRUNE_PAUSE: Duration = Duration::from_hours(1);
/// The minimum time between two checks.
const CHECK_PAUSE: Duration = Duration::from_hours(24);
/// How long after the first backup a repository is checked for the first time.
const FIRST_CHECK: Duration = Duration::from_hours(1);
/// The pause after a maintenance that failed.
const AFTER_FAILURE: Duration = Duration::from_hours(1);
/// Rounds a time up to the next second, which is the number of a run.
const ALMOST_A_SECOND: Duration = Duration::from_nanos(999_999_999);

/// When to open the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Now,
    In(Duration),
}

/// When to inspect the repository. `last`: when this server last inspected it.
pub fn look(repository: &Repository, last: Option<Timestamp>, now: Timestamp) -> Look {
    let status = repository.status.clone().unwrap_or_default();
    let is_seen =
        status.observed_generation.is_some() && status.observed_generation == repository.metadata.generation;
    let reachable = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == ConditionType::RepositoryReachable.name());
    let is_reachable = ConditionType::RepositoryReachable.status_in(&status.conditions) != Some(Truth::False);
    let Some(condition) = reachable.filter(|_| is_seen) else { return Look::Now };
    let pause = match (is_reachable, last) {
        (true, None) => return Look::In(share(REST, repository.metadata.uid.as_deref().unwrap_or_default())),
        (true, Some(_)) => REST,
        (false, _) => {
            let is_long = after(condition.last_transition_time.0, LONG) < now;
            match (condition.reason == NOT_OPENED_BY_MOVER, is_long) {
                (false, false) => TRY,
                (false, true) => TRY_LATER,
                (true, false) => TRY_BY_MOVER,
                (true, true) => TRY_BY_MOVER_LATER,
            }
        }
    };
    rest(last.map(|last| after(last, pause)), now)
}

/// A fraction of a duration that is always the same for one object.
fn share(whole: Duration, uid: &str) -> Duration {
    let digest = Sha256::digest(uid.as_bytes());
    let part = u32::from(digest[0]) * 256 + u32::from(digest[1]);
    whole * part / 65_536
}

fn rest(due: Option<Timestamp>, now: Timestamp) -> Look {
    match due.map(|due| Duration::try_from(due.duration_since(now))) {
        Some(Ok(rest)) if !rest.is_zero() => Look::In(rest),
        _ => Look::Now,
    }
}

/// One maintenance, numbered by the second in which it began. Its work is derived from the object and this number, so
/// that a server that continues it does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub number: u64,
    pub prune: bool,
    pub check: bool,
}

/// The next step of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// This run was started and its end is not recorded: it continues.
    GoOn(Run),
    Now(Run),
    /// Nothing is due before this time has passed.
    In(Duration),
    /// Nothing is due until something changes.
    Nothing,
}

/// The next step of maintenance. `failed`: when the last one failed, if this server saw it. A repository that was never opened is
/// not maintained.
pub fn maintenance(repository: &Repository, failed: Option<Timestamp>, now: Timestamp) -> Maintenance {
    let number = |at: Timestamp| at.as_second().unsigned_abs();
    let running = annotation(repository, MAINTENANCE).and_then(|text| text.parse::<u64>().ok());
    if let Some(number) = running {
        let begun =
            i64::try_from(number).ok().and_then(|second| Timestamp::from_second(second).ok()).unwrap_or(now);
        let (prune, check) = due_at(repository);
        return Maintenance::GoOn(Run {
            number,
            prune: prune.is_some_and(|due| due <= begun),
            check: check.is_some_and(|due| due <= begun),
        });
    }
    if annotation(repository, record::ID).is_none() {
        return Maintenance::Nothing;
    }
    let (prune, check) = due_at(repository);
    let Some(mut first) = prune.into_iter().chain(check).min() else { return Maintenance::Nothing };
    if let Some(failed) = failed {
        first = first.max(after(failed, AFTER_FAILURE));
    }
    match rest(Some(first), now) {
        Look::In(rest) => Maintenance::In(rest),
        Look::Now => {
            // A request counts as made before the run, because the clock of the requesting server may differ.
            let asked = asked(repository).map_or(now, |asked| now.max(after(asked, ALMOST_A_SECOND)));
            let begun = Timestamp::from_second(asked.as_second()).unwrap_or(now);
            let is_due = |due: Option<Timestamp>| due.is_some_and(|due| due <= begun);
            Maintenance::Now(Run { number: number(begun), prune: is_due(prune), check: is_due(check) })
        }
    }
}

/// The times from which a prune and a check are due; None if they are not requested.
fn due_at(repository: &Repository) -> (Option<Timestamp>, Option<Timestamp>) {
    let status = repository.status.clone().unwrap_or_default();
    let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    let (pruned, checked) = (time(&status.last_prune_time), time(&status.last_check_time));
    let prune = asked(repository)
        .filter(|asked| pruned.is_none_or(|pruned| pruned < *asked))
        .map(|asked| pruned.map_or(asked, |pruned| asked.max(after(pruned, PRUNE_PAUSE))));
    let check = match (time(&status.last_backup_time), checked) {
        (Some(last), Some(checked)) => (last > checked).then(|| after(checked, CHECK_PAUSE)),
        (Some(last), None) => Some(after(time(&status.first_backup_time).unwrap_or(last), FIRST_CHECK)),
        (None, _) => None,
    };
    (prune, check)
}

/// The time since which a prune is requested.
fn asked(repository: &Repository) -> Option<Timestamp> {
    annotation(repository, MAINTAIN_SINCE)?.parse().ok()
}

fn annotation<'a>(repository: &'a Repository, key: &str) -> Option<&'a str> {
    repository.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-16T12:00:00Z";
    const SECOND: u64 = 1_794_830_400;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[allow(clippy::needless_pass_by_value, reason = "callers pass json! literals")]
    fn repository(annotations: Value, status: Value) -> Repository {
        let object = json!({
            "metadata": {"name": "r", "uid": "u", "generation": 1, "annotations": annotations},
            "spec": {"backend": {"storageSecretName": "s"}},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn seen(truth: &str, since: &str) -> Value {
        json!({"observedGeneration": 1, "conditions": [
            {"type": "RepositoryReachable", "status": truth, "reason": "R", "message": "", "lastTransitionTime": since}]})
    }

    fn by_mover(since: &str) -> Value {
        let mut status = seen("False", since);
        status["conditions"][0]["reason"] = json!(NOT_OPENED_BY_MOVER);
        status
    }

    #[rstest]
    #[case::never_seen(json!({}), None, Look::Now)]
    #[case::changed(json!({"observedGeneration": 0, "conditions": seen("True", NOW)["conditions"]}), Some(NOW), Look::Now)]
    #[case::just_seen(seen("True", NOW), Some(NOW), Look::In(REST))]
    #[case::seen_long_ago(seen("True", NOW), Some("2026-11-16T05:59:00Z"), Look::Now)]
    #[case::not_reachable(
        seen("False", NOW),
        Some("2026-11-16T11:59:30Z"),
        Look::In(Duration::from_secs(30))
    )]
    #[case::not_reachable_after_a_restart(seen("False", NOW), None, Look::Now)]
    #[case::not_reachable_for_long(
        seen("False", "2026-11-15T12:00:00Z"),
        Some("2026-11-16T11:59:00Z"),
        Look::In(Duration::from_mins(9))
    )]
    #[case::left_to_movers(seen("Unknown", NOW), Some(NOW), Look::In(REST))]
    #[case::not_opened_by_a_mover(by_mover(NOW), Some(NOW), Look::In(TRY_BY_MOVER))]
    #[case::not_opened_by_movers_for_long(
        by_mover("2026-11-15T12:00:00Z"),
        Some(NOW),
        Look::In(TRY_BY_MOVER_LATER)
    )]
    fn a_repository_is_looked_at(#[case] status: Value, #[case] last: Option<&str>, #[case] expected: Look) {
        assert_eq!(look(&repository(json!({}), status), last.map(at), at(NOW)), expected);
    }

    #[test]
    fn looks_are_spread_after_a_restart() {
        let delay = |uid: &str| {
            let mut repository = repository(json!({}), seen("True", NOW));
            repository.metadata.uid = Some(uid.to_owned());
            match look(&repository, None, at(NOW)) {
                Look::In(delay) => delay,
                Look::Now => panic!("{uid} is opened at once"),
            }
        };
        let delays: Vec<Duration> = (0..100).map(|number| delay(&number.to_string())).collect();
        assert_eq!(delays, (0..100).map(|number| delay(&number.to_string())).collect::<Vec<_>>());
        let early = delays.iter().filter(|delay| **delay < REST / 2).count();
        assert!((30..70).contains(&early) && delays.iter().all(|delay| *delay < REST), "{delays:?}");
    }

    fn asked_at(time: &str) -> Value {
        json!({"lifeboat.io/repository-id": "a", "lifeboat.io/maintain-since": time})
    }

    fn only_id() -> Value {
        json!({"lifeboat.io/repository-id": "a"})
    }

    const fn run(number: u64, prune: bool, check: bool) -> Run {
        Run { number, prune, check }
    }

    #[rstest]
    #[case::nothing(only_id(), json!({}), Maintenance::Nothing)]
    #[case::asked(asked_at("2026-11-16T11:00:00Z"), json!({}), Maintenance::Now(run(SECOND, true, false)))]
    #[case::asked_by_a_clock_that_is_ahead(asked_at("2026-11-16T12:00:00.5Z"), json!({}), Maintenance::In(Duration::from_millis(500)))]
    #[case::asked_and_done(asked_at("2026-11-16T11:00:00Z"), json!({"lastPruneTime": "2026-11-16T11:30:00Z"}), Maintenance::Nothing)]
    #[case::asked_again_too_soon(asked_at("2026-11-16T11:50:00Z"), json!({"lastPruneTime": "2026-11-16T11:30:00Z"}),
        Maintenance::In(Duration::from_mins(30)))]
    #[case::never_opened(json!({"lifeboat.io/maintain-since": "2026-11-16T11:00:00Z"}), json!({}), Maintenance::Nothing)]
    #[case::first_check(only_id(), json!({"firstBackupTime": "2026-11-16T10:00:00Z", "lastBackupTime": "2026-11-16T11:55:00Z"}),
        Maintenance::Now(run(SECOND, false, true)))]
    #[case::first_check_soon(only_id(), json!({"firstBackupTime": "2026-11-16T11:30:00Z", "lastBackupTime": "2026-11-16T11:55:00Z"}),
        Maintenance::In(Duration::from_mins(30)))]
    #[case::checked_today(only_id(), json!({"lastBackupTime": "2026-11-16T11:55:00Z", "lastCheckTime": "2026-11-16T11:00:00Z"}),
        Maintenance::In(Duration::from_hours(23)))]
    #[case::nothing_new_to_check(only_id(), json!({"lastBackupTime": "2026-11-10T11:55:00Z", "lastCheckTime": "2026-11-11T11:00:00Z"}),
        Maintenance::Nothing)]
    #[case::both(asked_at("2026-11-16T11:00:00Z"), json!({"lastBackupTime": "2026-11-16T11:55:00Z", "lastCheckTime": "2026-11-14T11:00:00Z"}),
        Maintenance::Now(run(SECOND, true, true)))]
    fn maintenance_is_due(#[case] annotations: Value, #[case] status: Value, #[case] expected: Maintenance) {
        assert_eq!(maintenance(&repository(annotations, status), None, at(NOW)), expected);
    }

    #[test]
    fn a_run_continues_with_what_it_began_even_if_more_was_asked_for_since() {
        let mut annotations = asked_at("2026-11-16T12:30:00Z");
        annotations["lifeboat.io/maintenance"] = json!(SECOND.to_string());
        let status =
            json!({"lastBackupTime": "2026-11-16T11:55:00Z", "lastCheckTime": "2026-11-14T11:00:00Z"});
        let repository = repository(annotations, status);
        let later = at("2026-11-16T12:45:00Z");
        assert_eq!(maintenance(&repository, None, later), Maintenance::GoOn(run(SECOND, false, true)));
    }

    #[test]
    fn a_failed_maintenance_is_tried_again_after_an_hour() {
        let repository = repository(asked_at("2026-11-16T11:00:00Z"), json!({}));
        let failed = Some(at("2026-11-16T11:40:00Z"));
        assert_eq!(maintenance(&repository, failed, at(NOW)), Maintenance::In(Duration::from_mins(40)));
    }
}
