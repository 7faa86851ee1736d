//! BackupRepositories: their names and objects, and when their maintenance is due. Takes objects and the time, gives
//! objects to create, patches and pauses. Called by the controller and by whoever needs a repository.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::common::time::seconds;
use lifeboat_api::common::{GoDuration, TaskId};
use lifeboat_api::velero::names;
use serde_json::{Value, json};

use crate::label;
use crate::velero::pod_volumes;

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
/// Annotations of a BackupRepository, one for each mover whose end was reported and whose locks could not be removed: their owner.
const DEAD_OWNER: &str = "dead-owner.lifeboat.io/";
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
pub fn give_up(task: &TaskId, deadline: Timestamp) -> Value {
    let until = seconds(after(deadline, LAST_WORDS));
    json!({"metadata": {"annotations": {format!("{GIVEN_UP}{task}"): until}}})
}

/// What becomes of tasks that were given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Whose snapshots nobody wants.
    pub unwanted: Vec<TaskId>,
    /// Of which nobody can tell, or not yet.
    pub unknown: Vec<TaskId>,
    /// Whose snapshot is the copy after all.
    pub wanted: Vec<TaskId>,
}

impl GivenUp {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of the tasks that were given up. `objects`: all PodVolumeBackups and DataUploads. A task is noted before the
/// end of its object is, so the object has the last word; where it is gone, nothing is deleted.
pub fn given_up(repository: &Value, objects: &[Value]) -> GivenUp {
    let mut found = GivenUp::default();
    for (task, _) in notes(repository) {
        let object = objects.iter().find(|object| {
            object["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty() && task.starts_with(uid))
        });
        let list = match object {
            None => &mut found.unknown,
            Some(object) if pod_volumes::task_of(object) != task => &mut found.unwanted,
            Some(object) => match object["status"]["phase"].as_str() {
                Some("Failed" | "Canceled") => &mut found.unwanted,
                Some("Completed") => &mut found.wanted,
                _ => &mut found.unknown,
            },
        };
        list.push(TaskId::new(task));
    }
    found
}

/// What to merge after the snapshots of the unwanted ones were looked for at `looked`; None where all stay noted.
pub fn looked_for(repository: &Value, found: &GivenUp, looked: Timestamp) -> Option<Value> {
    let over = |(task, until): &(&str, &Value)| {
        let until = until.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        found.wanted.iter().any(|wanted| wanted == task) || until.is_none_or(|until| until < looked)
    };
    let over: serde_json::Map<String, Value> =
        notes(repository).filter(over).map(|(task, _)| (format!("{GIVEN_UP}{task}"), Value::Null)).collect();
    (!over.is_empty()).then(|| json!({"metadata": {"annotations": over}}))
}

fn notes(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    of_prefix(object, GIVEN_UP)
}

/// The annotations whose names begin so, without that.
fn of_prefix<'a>(object: &'a Value, prefix: &'static str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
    annotations.filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
}

/// What to merge where the locks of a dead owner, `<cluster>/<pod>`, could not be removed.
pub fn note_dead(owner: &str) -> Value {
    json!({"metadata": {"annotations": {dead_note(owner): owner}}})
}

fn dead_note(owner: &str) -> String {
    format!("{DEAD_OWNER}{}", owner.rsplit('/').next().unwrap_or_default())
}

/// The owners that were noted.
pub fn dead_owners(repository: &Value) -> Vec<String> {
    of_prefix(repository, DEAD_OWNER).filter_map(|(_, owner)| owner.as_str().map(str::to_owned)).collect()
}

/// What to merge when their locks are gone.
pub fn unlocked(owners: &[String]) -> Value {
    let gone: serde_json::Map<String, Value> =
        owners.iter().map(|owner| (dead_note(owner), Value::Null)).collect();
    json!({"metadata": {"annotations": gone}})
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

/// The task of a run.
pub fn task(repository_uid: &str, number: u64) -> String {
    format!("{repository_uid}-m{number}")
}

/// Whether a task is the run that is under way.
pub fn is_under_way(object: &Value, run: &str) -> bool {
    let number = object["metadata"]["annotations"][MAINTENANCE].as_str().and_then(|text| text.parse().ok());
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    number.is_some_and(|number| task(uid, number) == run)
}

/// What to merge into an object when a run has ended. `failure`: why it failed, where it did.
pub fn ended(object: &Value, begun: Timestamp, failure: Option<&str>, now: Timestamp) -> Value {
    let mut runs = object["status"]["recentMaintenance"].as_array().cloned().unwrap_or_default();
    let mut run = json!({
        "result": if failure.is_none() { "Succeeded" } else { "Failed" },
        "startTimestamp": seconds(begun),
        "completeTimestamp": seconds(now),
    });
    if let Some(message) = failure {
        run["message"] = json!(message);
    }
    runs.push(run);
    let surplus = runs.len().saturating_sub(REMEMBERED);
    runs.drain(..surplus);
    let mut status = json!({"recentMaintenance": runs});
    if failure.is_none() {
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
        let patch = ended(&object, at("2026-11-16T11:59:00Z"), Some("locked"), at(NOW));
        let runs = patch["status"]["recentMaintenance"].as_array().unwrap();
        assert_eq!(
            (runs.len(), &runs[0]["message"], &runs[24]["message"]),
            (25, &json!("1"), &json!("locked"))
        );
        assert_eq!(patch["status"].get("lastMaintenanceTime"), None);
        let patch = ended(&object, at("2026-11-16T11:59:00Z"), None, at(NOW));
        assert_eq!(patch["status"]["lastMaintenanceTime"], NOW);
    }

    #[test]
    fn a_task_that_was_given_up_is_looked_for_until_its_mover_cannot_write_any_more() {
        let mut object = give_up(&TaskId::new("u-1"), at("2026-11-16T11:55:00Z"));
        object["metadata"]["annotations"]["other"] = json!("x");
        let found = given_up(&object, &[]);
        assert_eq!(found, GivenUp { unknown: vec!["u-1".into()], ..GivenUp::default() });
        assert_eq!(looked_for(&object, &found, at("2026-11-16T12:04:59Z")), None);
        let gone = json!({"metadata": {"annotations": {"given-up.lifeboat.io/u-1": null}}});
        assert_eq!(looked_for(&object, &found, at("2026-11-16T12:05:01Z")), Some(gone.clone()));
        let wanted = GivenUp { wanted: vec!["u-1".into()], ..GivenUp::default() };
        assert_eq!(looked_for(&object, &wanted, at(NOW)), Some(gone));
    }

    #[rstest]
    #[case::failed("1", "Failed", "unwanted")]
    #[case::cancelled("1", "Canceled", "unwanted")]
    #[case::followed_by_another("2", "InProgress", "unwanted")]
    #[case::followed_by_another_that_did_it("2", "Completed", "unwanted")]
    #[case::the_copy_after_all("1", "Completed", "wanted")]
    #[case::not_recorded_yet("1", "InProgress", "unknown")]
    fn an_object_has_the_last_word_on_its_tasks(
        #[case] attempt: &str,
        #[case] phase: &str,
        #[case] expected: &str,
    ) {
        let object = json!({"metadata": {"uid": "u", "annotations": {pod_volumes::ATTEMPT: attempt}},
            "status": {"phase": phase}});
        let found = given_up(&give_up(&TaskId::new("u-1"), at(NOW)), &[object]);
        let named = [("unwanted", &found.unwanted), ("wanted", &found.wanted), ("unknown", &found.unknown)];
        let named: Vec<&str> =
            named.iter().filter(|(_, list)| !list.is_empty()).map(|(name, _)| *name).collect();
        assert_eq!(named, [expected]);
    }

    #[test]
    fn dead_owners_are_noted_until_their_locks_are_gone() {
        let object = note_dead("cluster/pod-1");
        assert_eq!(object["metadata"]["annotations"]["dead-owner.lifeboat.io/pod-1"], "cluster/pod-1");
        let owners = dead_owners(&object);
        assert_eq!(owners, ["cluster/pod-1"]);
        let gone = json!({"metadata": {"annotations": {"dead-owner.lifeboat.io/pod-1": null}}});
        assert_eq!(unlocked(&owners), gone);
    }

    #[test]
    fn a_maintenance_is_under_way_until_its_end_is_recorded() {
        let mut object = json!({"metadata": {"uid": "u", "annotations": {MAINTENANCE: "7"}}});
        assert!(is_under_way(&object, &task("u", 7)) && !is_under_way(&object, &task("u", 6)));
        object["metadata"]["annotations"] = json!({});
        assert!(!is_under_way(&object, &task("u", 7)));
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
