//! BackupRepositories: their names and objects, and when their maintenance is due. Takes objects and the time, gives
//! objects to create, patches and pauses. Called by the controller and by whoever needs a repository.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::names;
use serde_json::{Value, json};

use crate::label;
use crate::time::seconds;

/// Set on a BackupRepository: the number of the maintenance that runs, so that whoever leads next finds the same Job.
pub const MAINTENANCE: &str = "lifeboat.io/maintenance";
/// Set by people (`lifeboat repo maintain`): maintenance is due since then.
pub const MAINTAIN_SINCE: &str = "lifeboat.io/maintain-since";
/// Set where Lifeboat itself forgot the last snapshot, and removed when one is to come: only then may maintenance believe
/// that there is none, and free all of the space.
pub const EMPTIED: &str = "lifeboat.io/emptied";
/// Annotations of a BackupRepository, one for each task that was given up while its mover may still have been at work: until when
/// it can write a snapshot, which nobody wants.
const GIVEN_UP: &str = "given-up.lifeboat.io/";
/// How long after its deadline a mover may take to write what it has.
const LAST_WORDS: Duration = Duration::from_mins(10);
/// Runs that are remembered: upstream's number.
const REMEMBERED: usize = 25;
/// How soon a maintenance that failed is tried again, at the latest.
const AGAIN: Duration = Duration::from_hours(1);
/// Where maintenance is off, it is looked again whether it still is.
const NEVER: Duration = Duration::from_hours(24);
/// Rounds a time up to the next second, which is how a run is numbered.
const ALMOST_A_SECOND: Duration = Duration::from_nanos(999_999_999);

/// Which repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About<'a> {
    pub location: &'a str,
    /// Whose volumes it holds.
    pub namespace: &'a str,
}

impl About<'_> {
    /// Finds its objects; long names share labels, so [`About::is_of`] has the last word.
    pub fn selector(&self) -> String {
        let Self { location, namespace } = self;
        let (location, namespace) = (label::value(location), label::value(namespace));
        format!("{}={location},{}={namespace}", names::STORAGE_LOCATION, names::VOLUME_NAMESPACE)
    }

    pub fn is_of(&self, object: &Value) -> bool {
        let text = |field: &str| object["spec"][field].as_str().unwrap_or_default();
        text("backupStorageLocation") == self.location
            && text("volumeNamespace") == self.namespace
            && is_restic(object)
    }
}

/// Whether it is in the format that Lifeboat reads and writes; old objects do not say it.
pub fn is_restic(object: &Value) -> bool {
    matches!(object["spec"]["repositoryType"].as_str(), None | Some("" | "restic"))
}

/// The object of a repository.
pub fn object(about: About<'_>, identifier: &str, frequency: Duration) -> Value {
    let About { location, namespace } = about;
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "BackupRepository",
        "metadata": {
            "name": label::value(&format!("{namespace}-{location}-restic")),
            "labels": {
                names::STORAGE_LOCATION: label::value(location),
                names::VOLUME_NAMESPACE: label::value(namespace),
                names::REPOSITORY_TYPE: "restic",
            },
        },
        "spec": {
            "volumeNamespace": namespace,
            "backupStorageLocation": location,
            "repositoryType": "restic",
            "resticIdentifier": identifier,
            "maintenanceFrequency": GoDuration::from(frequency).to_string(),
        },
    })
}

/// What to merge when a task is given up whose mover may still be at work until `deadline`.
pub fn give_up(task: &str, deadline: Timestamp) -> Value {
    let until = seconds(after(deadline, LAST_WORDS));
    json!({"metadata": {"annotations": {format!("{GIVEN_UP}{task}"): until}}})
}

/// The tasks that were given up like that.
pub fn given_up(object: &Value) -> impl Iterator<Item = &str> {
    notes(object).map(|(task, _)| task)
}

/// What to merge after their snapshots were looked for at `looked`; None where another may still come of each of them.
pub fn looked_for(object: &Value, looked: Timestamp) -> Option<Value> {
    let over = |(_, until): &(&str, &Value)| {
        until.as_str().and_then(|text| text.parse::<Timestamp>().ok()).is_none_or(|until| until < looked)
    };
    let over: serde_json::Map<String, Value> =
        notes(object).filter(over).map(|(task, _)| (format!("{GIVEN_UP}{task}"), Value::Null)).collect();
    (!over.is_empty()).then(|| json!({"metadata": {"annotations": over}}))
}

fn notes(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
    annotations.filter_map(|(key, until)| Some((key.strip_prefix(GIVEN_UP)?, until)))
}

/// What is to be done about maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// This run was begun and not recorded: it is gone on with.
    GoOn(u64),
    /// A new run, of this number.
    Now(u64),
    /// Look again after this time.
    In(Duration),
}

/// When a repository is to be maintained. `default`: how often, where the object does not say it; zero means only when asked.
pub fn due(object: &Value, default: Duration, now: Timestamp) -> Due {
    let annotations = &object["metadata"]["annotations"];
    if let Some(number) = annotations[MAINTENANCE].as_str().and_then(|text| text.parse().ok()) {
        return Due::GoOn(number);
    }
    let number = |at: Timestamp| at.as_second().unsigned_abs();
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let runs = object["status"]["recentMaintenance"].as_array();
    let last_run = runs.and_then(|runs| runs.last());
    let last_end = last_run.and_then(|run| time(&run["completeTimestamp"]));
    if let Some(asked) = time(&annotations[MAINTAIN_SINCE])
        && last_run.and_then(|run| time(&run["startTimestamp"])).is_none_or(|begun| begun < asked)
    {
        // The run counts as one that began after it was asked for, whatever this clock says.
        return Due::Now(number(now.max(after(asked, ALMOST_A_SECOND))));
    }
    let own =
        object["spec"]["maintenanceFrequency"].as_str().and_then(|text| text.parse::<GoDuration>().ok());
    let frequency = GoDuration::set(own).and_then(GoDuration::to_std).unwrap_or(default);
    if frequency.is_zero() {
        return Due::In(NEVER);
    }
    let since = time(&object["status"]["lastMaintenanceTime"])
        .or_else(|| time(&object["metadata"]["creationTimestamp"]))
        .unwrap_or(now);
    let mut next = after(since, frequency);
    if let Some(end) = last_end.filter(|_| last_run.is_some_and(|run| run["result"] == "Failed")) {
        next = next.max(after(end, frequency.min(AGAIN)));
    }
    match Duration::try_from(next.duration_since(now)) {
        Ok(rest) if !rest.is_zero() => Due::In(rest),
        _ => Due::Now(number(now)),
    }
}

fn after(time: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// What to merge into an object when a run has ended. The error says why it failed.
pub fn ended(object: &Value, begun: Timestamp, outcome: Result<(), &str>, now: Timestamp) -> Value {
    let mut runs = object["status"]["recentMaintenance"].as_array().cloned().unwrap_or_default();
    let mut run = json!({
        "result": if outcome.is_ok() { "Succeeded" } else { "Failed" },
        "startTimestamp": seconds(begun),
        "completeTimestamp": seconds(now),
    });
    if let Err(words) = outcome {
        run["message"] = json!(words);
    }
    runs.push(run);
    let surplus = runs.len().saturating_sub(REMEMBERED);
    runs.drain(..surplus);
    let mut status = json!({"recentMaintenance": runs});
    if outcome.is_ok() {
        status["lastMaintenanceTime"] = json!(seconds(now));
    }
    json!({"metadata": {"annotations": {MAINTENANCE: null}}, "status": status})
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    const NOW: &str = "2026-11-16T12:00:00Z";

    #[rstest]
    #[case::new(json!({"metadata": {"creationTimestamp": "2026-11-16T11:00:00Z"}}), Due::In(Duration::from_hours(23)))]
    #[case::old(json!({"metadata": {"creationTimestamp": "2026-11-15T11:00:00Z"}}), Due::Now(1_794_830_400))]
    #[case::maintained(
        json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "status": {"lastMaintenanceTime": "2026-11-16T11:30:00Z"}}),
        Due::In(Duration::from_mins(23 * 60 + 30)))]
    #[case::own_frequency(
        json!({"spec": {"maintenanceFrequency": "1h0m0s"}, "status": {"lastMaintenanceTime": "2026-11-16T11:30:00Z"}}),
        Due::In(Duration::from_mins(30)))]
    #[case::zero_means_unset(
        json!({"spec": {"maintenanceFrequency": "0s"}, "status": {"lastMaintenanceTime": "2026-11-16T11:30:00Z"}}),
        Due::In(Duration::from_mins(23 * 60 + 30)))]
    #[case::begun(json!({"metadata": {"annotations": {MAINTENANCE: "7"}}}), Due::GoOn(7))]
    #[case::asked_for(
        json!({"metadata": {"annotations": {MAINTAIN_SINCE: "2026-11-16T11:59:00Z"}}, "status": {"lastMaintenanceTime": "2026-11-16T11:30:00Z"}}),
        Due::Now(1_794_830_400))]
    #[case::asked_for_by_a_clock_that_is_ahead(
        json!({"metadata": {"annotations": {MAINTAIN_SINCE: "2026-11-16T12:00:07.5Z"}}}), Due::Now(1_794_830_408))]
    #[case::asked_for_by_a_clock_that_is_ahead_and_done(
        json!({"metadata": {"annotations": {MAINTAIN_SINCE: "2026-11-16T12:00:07.5Z"}},
               "status": {"lastMaintenanceTime": "2026-11-16T12:00:00Z",
                          "recentMaintenance": [{"result": "Succeeded", "startTimestamp": "2026-11-16T12:00:08Z", "completeTimestamp": "2026-11-16T12:00:00Z"}]}}),
        Due::In(Duration::from_hours(24)))]
    #[case::asked_for_and_done(
        json!({"metadata": {"annotations": {MAINTAIN_SINCE: "2026-11-16T11:00:00Z"}},
               "status": {"lastMaintenanceTime": "2026-11-16T11:02:00Z",
                          "recentMaintenance": [{"result": "Succeeded", "startTimestamp": "2026-11-16T11:01:00Z", "completeTimestamp": "2026-11-16T11:02:00Z"}]}}),
        Due::In(Duration::from_mins(23 * 60 + 2)))]
    #[case::failed_is_tried_again_within_the_hour(
        json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"},
               "status": {"recentMaintenance": [{"result": "Failed", "startTimestamp": "2026-11-16T11:40:00Z", "completeTimestamp": "2026-11-16T11:45:00Z"}]}}),
        Due::In(Duration::from_mins(45)))]
    fn maintenance_is_due(#[case] object: Value, #[case] expected: Due) {
        assert_eq!(due(&object, Duration::from_hours(24), at(NOW)), expected);
    }

    #[test]
    fn a_frequency_of_zero_means_only_when_asked() {
        let mut object = json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "spec": {"maintenanceFrequency": "0s"}});
        assert_eq!(due(&object, Duration::ZERO, at(NOW)), Due::In(NEVER));
        object["metadata"]["annotations"] = json!({MAINTAIN_SINCE: "2026-11-16T11:59:00Z"});
        assert_eq!(due(&object, Duration::ZERO, at(NOW)), Due::Now(1_794_830_400));
    }

    #[test]
    fn the_latest_runs_are_remembered_and_a_failed_one_moves_no_date() {
        let runs: Vec<Value> = (0..25).map(|n| json!({"message": n.to_string()})).collect();
        let object = json!({"status": {"recentMaintenance": runs}});
        let patch = ended(&object, at("2026-11-16T11:59:00Z"), Err("locked"), at(NOW));
        let runs = patch["status"]["recentMaintenance"].as_array().unwrap();
        assert_eq!(
            (runs.len(), &runs[0]["message"], &runs[24]["message"]),
            (25, &json!("1"), &json!("locked"))
        );
        assert_eq!(patch["status"].get("lastMaintenanceTime"), None);
        let patch = ended(&object, at("2026-11-16T11:59:00Z"), Ok(()), at(NOW));
        assert_eq!(patch["status"]["lastMaintenanceTime"], NOW);
    }

    #[test]
    fn a_task_that_was_given_up_is_looked_for_until_its_mover_cannot_write_any_more() {
        let mut object = give_up("t-1", at("2026-11-16T11:55:00Z"));
        object["metadata"]["annotations"]["other"] = json!("x");
        assert_eq!(given_up(&object).collect::<Vec<_>>(), ["t-1"]);
        assert_eq!(looked_for(&object, at("2026-11-16T12:04:59Z")), None);
        let gone = json!({"metadata": {"annotations": {"given-up.lifeboat.io/t-1": null}}});
        assert_eq!(looked_for(&object, at("2026-11-16T12:05:01Z")), Some(gone));
    }

    #[test]
    fn an_object_of_a_repository_is_found_by_what_it_says() {
        let about = About { location: "default", namespace: "shop" };
        let made = object(about, "s3:x/restic/shop", Duration::from_hours(24));
        assert!(about.is_of(&made));
        assert_eq!(made["metadata"]["name"], "shop-default-restic");
        assert!(!About { location: "other", namespace: "shop" }.is_of(&made));
        let mut kopia = made.clone();
        kopia["spec"]["repositoryType"] = json!("kopia");
        assert!(!about.is_of(&kopia));
    }
}
