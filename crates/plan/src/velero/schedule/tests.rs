//! Tables of expressions and decisions, and simulations with clocks that are set back and forward.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::velero::{BackupPhase, Schedule};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(text: &str) -> Cron {
    Cron::parse(text).unwrap()
}

fn schedule(spec: &Value, status: &Value) -> Schedule {
    serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
        "metadata": {"name": "nightly", "namespace": "lifeboat", "uid": "u",
            "creationTimestamp": "2026-11-10T12:00:00Z"},
        "spec": spec, "status": status}))
    .unwrap()
}

#[rstest]
#[case::every_five_minutes("*/5 * * * *", "2026-11-16T00:05:00Z")]
#[case::from_a_number_on("7/20 * * * *", "2026-11-16T00:07:00Z")]
#[case::question_mark("0 3 ? * ?", "2026-11-16T03:00:00Z")]
#[case::names("0 3 * DEC sun", "2026-12-06T03:00:00Z")]
#[case::name_ranges("0 3 * * wed-fri", "2026-11-18T03:00:00Z")]
#[case::sunday_as_seven("0 3 * * 7", "2026-11-22T03:00:00Z")]
#[case::day_of_month_or_of_week("0 0 20 * WED", "2026-11-18T00:00:00Z")]
#[case::leap_day("0 0 29 2 *", "2028-02-29T00:00:00Z")]
#[case::yearly("@yearly", "2027-01-01T00:00:00Z")]
#[case::monthly("@monthly", "2026-12-01T00:00:00Z")]
#[case::weekly("@weekly", "2026-11-22T00:00:00Z")]
#[case::daily("@daily", "2026-11-17T00:00:00Z")]
#[case::midnight("@midnight", "2026-11-17T00:00:00Z")]
#[case::hourly("@hourly", "2026-11-16T01:00:00Z")]
#[case::every("@every 1h30m", "2026-11-16T01:30:00Z")]
#[case::parts_of_a_second_are_cut_off("@every 1.9s", "2026-11-16T00:00:01Z")]
#[case::zone("CRON_TZ=Europe/Rome 0 3 * * *", "2026-11-16T02:00:00Z")]
#[case::short_zone("TZ=America/New_York @daily", "2026-11-16T05:00:00Z")]
#[case::utc_zone("TZ=UTC 0 3 * * *", "2026-11-16T03:00:00Z")]
#[case::the_servers_own_zone("CRON_TZ=Local 0 3 * * *", "2026-11-16T03:00:00Z")]
fn the_next_time_of(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(cron(text).next(at("2026-11-16T00:00:00Z")), Some(at(expected)));
}

#[rstest]
#[case::empty("", "is empty")]
#[case::zone_alone("CRON_TZ=Europe/Rome", "is empty")]
#[case::seconds("0 0 3 * * *", "6 fields")]
#[case::too_few("0 3 * *", "4 fields")]
#[case::no_such_minute("61 3 * * *", "\"61 3 * * *\" is not a cron expression")]
#[case::the_field_and_its_range_are_named("61 3 * * *", "\"61\" is not a valid minute; use 0 to 59")]
#[case::last_day("0 0 L * *", "\"L\" is not a valid day of month; use 1 to 31")]
#[case::last_friday("0 0 * * 5L", "\"5L\" is not a valid day of week")]
#[case::nth_day("0 0 * * MON#1", "\"MON#1\" is not a valid day of week")]
#[case::next_working_day("0 0 15W * *", "\"15W\" is not a valid day of month")]
#[case::month("0 0 1 FOO *", "is not a valid month; use 1 to 12 or JAN to DEC")]
#[case::no_step("*/0 * * * *", "the step \"0\"")]
#[case::letters("x 3 * * *", "is not a cron expression")]
#[case::no_such_date("0 0 31 2 *", "matches no date")]
#[case::no_such_date_either("0 0 30 FEB *", "matches no date")]
#[case::no_such_name("@sometimes", "@hourly")]
#[case::no_such_zone("CRON_TZ=Europe/Roma 0 3 * * *", "\"Europe/Roma\"")]
#[case::no_length("@every day", "write it like")]
#[case::too_often("@every 100ms", "one second")]
#[case::backwards("@every -1h", "one second")]
fn what_is_wrong_with(#[case] text: &str, #[case] expected: &str) {
    let error = Cron::parse(text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
// Berlin: 2027-03-28 the clock goes from 02:00 to 03:00, 2026-10-25 from 03:00 to 02:00.
#[case::left_out_hour("30 2 * * *", "2027-03-27T12:00:00Z", &["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"])]
#[case::repeated_hour("30 2 * * *", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"])]
#[case::every_hour_goes_on("0 * * * *", "2026-10-24T23:30:00Z", &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"])]
fn a_change_of_the_clock_neither_loses_nor_doubles_a_run(
    #[case] text: &str,
    #[case] start: &str,
    #[case] expected: &[&str],
) {
    let cron = cron(&format!("CRON_TZ=Europe/Berlin {text}"));
    let mut time = at(start);
    for expected in expected {
        time = cron.next(time).unwrap();
        assert_eq!(time, at(expected));
    }
}

#[rstest]
#[case::not_due(json!({"phase": "Enabled", "lastBackup": "2026-11-15T03:00:00Z"}), Run::Later(Duration::from_mins(1)))]
#[case::due(json!({"phase": "Enabled", "lastBackup": "2026-11-14T03:00:00Z"}), Run::Due(at("2026-11-15T03:00:00Z")))]
#[case::only_the_latest_of_several(json!({"phase": "Enabled", "lastBackup": "2026-11-01T03:00:00Z"}), Run::Due(at("2026-11-15T03:00:00Z")))]
#[case::first_run_counts_from_creation(json!({"phase": "Enabled"}), Run::Due(at("2026-11-15T03:00:00Z")))]
#[case::skipped_later_than_run(json!({"phase": "Enabled", "lastBackup": "2026-11-13T03:00:00Z", "lastSkipped": "2026-11-15T20:00:00Z"}), Run::Later(Duration::from_mins(1)))]
#[case::clock_went_back_a_little(json!({"phase": "Enabled", "lastBackup": "2026-11-16T03:00:00Z"}), Run::Later(Duration::from_mins(1)))]
#[case::clock_was_years_ahead(json!({"phase": "Enabled", "lastBackup": "2030-01-01T03:00:00Z"}), Run::Due(at("2026-11-15T03:00:00Z")))]
fn a_daily_schedule_at_one_in_the_morning(#[case] status: Value, #[case] expected: Run) {
    let schedule = schedule(&json!({"template": {}, "schedule": "0 3 * * *"}), &status);
    let plan = plan(&schedule, at("2026-11-16T01:00:00Z"), false);
    assert_eq!(plan, SchedulePlan { patch: None, run: expected });
}

#[test]
fn a_run_is_due_at_its_very_second_and_waited_for_to_the_second() {
    let status = json!({"phase": "Enabled", "lastBackup": "2026-11-15T03:00:00Z"});
    let schedule = schedule(&json!({"template": {}, "schedule": "0 3 * * *"}), &status);
    let run = |now| plan(&schedule, at(now), false).run;
    assert_eq!(run("2026-11-16T02:59:50.5Z"), Run::Later(Duration::from_millis(9500)));
    assert_eq!(run("2026-11-16T03:00:00Z"), Run::Due(at("2026-11-16T03:00:00Z")));
}

#[rstest]
#[case::new(json!({"template": {}, "schedule": "@daily"}), json!({}), json!({"status": {"phase": "Enabled", "validationErrors": null}}))]
#[case::wrong(json!({"template": {}, "schedule": "0 0 31 2 *"}), json!({"phase": "Enabled"}),
    json!({"status": {"phase": "FailedValidation", "validationErrors": ["spec.schedule: \"0 0 31 2 *\" matches no date, so no backup would ever be created"]}}))]
#[case::mended(json!({"template": {}, "schedule": "@daily"}), json!({"phase": "FailedValidation", "validationErrors": ["x"]}),
    json!({"status": {"phase": "Enabled", "validationErrors": null}}))]
#[case::skip(json!({"template": {}, "schedule": "@daily", "skipImmediately": true}), json!({"phase": "Enabled"}),
    json!({"spec": {"skipImmediately": false}, "status": {"lastSkipped": "2026-11-16T01:00:00Z"}}))]
fn what_is_written(#[case] spec: Value, #[case] status: Value, #[case] expected: Value) {
    let plan = plan(&schedule(&spec, &status), at("2026-11-16T01:00:00Z"), false);
    assert_eq!(plan.patch, Some(expected));
}

#[test]
fn an_invalid_schedule_is_reported_once_and_starts_no_run() {
    let spec = json!({"template": {}, "schedule": "x"});
    let first = plan(&schedule(&spec, &json!({})), at("2026-11-16T01:00:00Z"), false);
    let status = first.patch.unwrap()["status"].clone();
    let second = plan(&schedule(&spec, &status), at("2026-11-16T01:00:00Z"), false);
    assert_eq!(second, SchedulePlan { patch: None, run: Run::Never });
}

#[test]
fn a_skipped_first_run_is_not_due_and_the_servers_setting_holds_where_nothing_is_said() {
    let now = at("2026-11-16T01:00:00Z");
    let said =
        schedule(&json!({"template": {}, "schedule": "0 3 * * *", "skipImmediately": true}), &json!({}));
    assert!(matches!(plan(&said, now, false).run, Run::Later(_)));
    let silent = schedule(&json!({"template": {}, "schedule": "0 3 * * *"}), &json!({}));
    assert!(matches!(plan(&silent, now, true).run, Run::Later(_)));
    let refuses =
        schedule(&json!({"template": {}, "schedule": "0 3 * * *", "skipImmediately": false}), &json!({}));
    assert!(matches!(plan(&refuses, now, true).run, Run::Due(_)));
}

#[test]
fn a_paused_schedule_makes_nothing_and_keeps_its_skip_for_later() {
    let spec = json!({"template": {}, "schedule": "0 3 * * *", "paused": true, "skipImmediately": true});
    let plan = plan(&schedule(&spec, &json!({"phase": "Enabled"})), at("2026-11-16T01:00:00Z"), false);
    assert_eq!(plan, SchedulePlan { patch: None, run: Run::Never });
}

#[test]
fn a_name_that_leaves_no_room_for_the_time_is_refused() {
    let mut long = schedule(&json!({"template": {}, "schedule": "@daily"}), &json!({}));
    long.metadata.name = Some("a".repeat(239));
    assert!(valid(&long).unwrap_err()[0].contains("at most 238"));
    long.metadata.name = Some("a".repeat(238));
    assert!(valid(&long).is_ok());
    assert_eq!(backup_name(&"a".repeat(238), at("2026-11-16T01:00:00Z")).len(), 253);
}

#[rstest]
#[case::none(&[], Submission::Create)]
#[case::ended(&[("nightly-1", BackupPhase::Completed), ("nightly-2", BackupPhase::Deleting)], Submission::Create)]
#[case::its_own(&[("nightly-3", BackupPhase::New)], Submission::IsThere)]
#[case::its_own_beside_a_running_one(&[("nightly-1", BackupPhase::InProgress), ("nightly-3", BackupPhase::Failed)], Submission::IsThere)]
#[case::new(&[("nightly-1", BackupPhase::New)], Submission::Wait("nightly-1".into()))]
#[case::queued(&[("nightly-1", BackupPhase::Queued)], Submission::Wait("nightly-1".into()))]
#[case::about_to_start(&[("nightly-1", BackupPhase::ReadyToStart)], Submission::Wait("nightly-1".into()))]
#[case::running(&[("nightly-1", BackupPhase::InProgress)], Submission::Wait("nightly-1".into()))]
#[case::plugins_at_work(&[("nightly-1", BackupPhase::WaitingForPluginOperations)], Submission::Create)]
fn a_due_run_beside_other_backups(#[case] made: &[(&str, BackupPhase)], #[case] expected: Submission) {
    let made: Vec<_> = made
        .iter()
        .map(|(name, phase)| ScheduledBackup { name: (*name).into(), phase: phase.clone() })
        .collect();
    assert_eq!(submission("nightly-3", &made), expected);
}

#[test]
fn a_backup_takes_the_templates_labels_and_else_the_schedules() {
    let mut schedule = schedule(
        &json!({"template": {"ttl": "24h", "metadata": {"labels": {"from": "template"}}}, "schedule": "@daily"}),
        &json!({}),
    );
    schedule.metadata.labels = Some(BTreeMap::from([("from".into(), "schedule".into())]));
    schedule.metadata.annotations = Some(BTreeMap::from([
        ("team".into(), "shop".into()),
        ("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into()),
    ]));
    let made = backup(&schedule, "nightly-20261116010000");
    insta::assert_json_snapshot!(made, @r#"
    {
      "apiVersion": "velero.io/v1",
      "kind": "Backup",
      "metadata": {
        "annotations": {
          "team": "shop"
        },
        "labels": {
          "from": "template",
          "velero.io/schedule-name": "nightly"
        },
        "name": "nightly-20261116010000",
        "namespace": "lifeboat"
      },
      "spec": {
        "metadata": {
          "labels": {
            "from": "template"
          }
        },
        "ttl": "24h0m0s"
      }
    }
    "#);
    schedule.spec.template.metadata = None;
    schedule.spec.use_owner_references_in_backup = Some(true);
    let made = backup(&schedule, "x");
    assert_eq!(made.metadata.labels.unwrap()["from"], "schedule");
    let owner = &made.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Schedule", "u", Some(true)));
}

/// A cluster with one schedule, and a server that may die between creating a backup and recording it.
struct World {
    cron: Cron,
    past: Past,
    /// The times whose run was started: creating the same name again changes nothing.
    made: BTreeSet<Timestamp>,
}

impl World {
    fn new(cron: Cron, created: Timestamp) -> Self {
        Self { cron, past: Past { created, last: None, skipped: None }, made: BTreeSet::new() }
    }

    fn look(&mut self, now: Timestamp, dies: bool) {
        let Run::Due(due) = run(&self.cron, &self.past, now) else { return };
        assert!(due <= now, "a run of the future: {due} at {now}");
        self.made.insert(due);
        if !dies {
            let status = super::made(&self.past, due);
            let time = |field: &str| status["status"][field].as_str().map(|text| text.parse().unwrap());
            self.past.last = time("lastBackup");
            self.past.skipped = time("lastSkipped").or(self.past.skipped);
            let again = run(&self.cron, &self.past, now);
            assert!(!matches!(again, Run::Due(_)), "{again:?} after {due} was noted");
        }
    }
}

const EXPRESSIONS: [&str; 6] = [
    "*/7 * * * *",
    "30 2 * * *",
    "CRON_TZ=Europe/Berlin 30 2 * * *",
    "CRON_TZ=America/Sao_Paulo 0 0 * * MON,THU",
    "CRON_TZ=Australia/Lord_Howe */45 * * * *",
    "@hourly",
];

fn expression() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&EXPRESSIONS[..])
}

/// A time in seconds, in the years around several clock changes.
fn moment() -> impl Strategy<Value = Timestamp> {
    (1_740_000_000_i64..1_800_000_000).prop_map(|second| Timestamp::from_second(second).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn next_times_are_later_ordered_and_the_same_from_wherever_they_are_looked_for(
        text in expression(), start in moment(), offset in 0_i64..200_000,
    ) {
        let cron = cron(text);
        let next = cron.next(start).unwrap();
        prop_assert!(next > start);
        let later = start + SignedDuration::from_secs(offset);
        let after = cron.next(later).unwrap();
        prop_assert!(after >= next, "{after} < {next}");
        if later < next {
            prop_assert_eq!(after, next);
        }
        prop_assert_eq!(cron.latest(start, next), Some(next));
        let latest = cron.latest(start, later);
        prop_assert_eq!(latest.is_some(), next <= later);
        if let Some(latest) = latest {
            prop_assert!(latest <= later && cron.next(latest).unwrap() > later);
        }
    }

    /// A running clock, with servers that stop for hours and die at the worst moment.
    #[test]
    fn without_steps_every_look_leaves_the_latest_run_made_once(
        text in expression(), start in moment(),
        looks in prop::collection::vec((1_i64..300_000, any::<bool>()), 1..20),
    ) {
        let mut world = World::new(cron(text), start);
        let mut now = start;
        for (pause, dies) in looks {
            now += SignedDuration::from_secs(pause);
            world.look(now, dies);
            let latest = world.cron.latest(start, now);
            prop_assert_eq!(world.made.last().copied(), latest);
        }
    }

    /// A clock that is set back and forth. No run is started twice for the same time, and after two periods of a
    /// correct clock there is a run of its time, however wrong the clock was before.
    #[test]
    fn with_steps_back_and_forward_runs_go_on(
        text in expression(), start in moment(),
        looks in prop::collection::vec((-40_000_000_i64..40_000_000, any::<bool>()), 1..12),
    ) {
        let mut world = World::new(cron(text), start);
        for (step, dies) in looks {
            let now = start + SignedDuration::from_secs(step);
            world.look(now, dies);
        }
        // The clock is correct from here on. Stepping by minutes would be slow: each due time is checked.
        let first = world.cron.next(start).unwrap();
        let mut now = start;
        for _ in 0..3 {
            now = world.cron.next(now).unwrap() + SignedDuration::from_secs(301);
            world.look(now, false);
        }
        let runs = world.made.range(first..=now).count();
        prop_assert!(runs >= 1, "none of {:?} is in {first}..{now}", world.made);
    }

    #[test]
    fn every_has_no_drift(seconds in 1_i64..100_000, start in moment(), later in 0_i64..10_000_000) {
        let cron = cron(&format!("@every {seconds}s"));
        let now = start + SignedDuration::from_secs(later);
        let latest = cron.latest(start, now);
        prop_assert_eq!(latest.is_some(), later >= seconds);
        if let Some(latest) = latest {
            prop_assert_eq!(latest.duration_since(start).as_secs() % seconds, 0);
            prop_assert!(now.duration_since(latest).as_secs() < seconds);
        }
    }
}
