//! BackupRepositories: their names and objects, and when their maintenance is due. Takes objects and the time, gives
//! objects to create, patches and delays. Called by the controller, and by transfers that need a repository.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lifeboat_api::common::time::seconds;
use lifeboat_api::common::{GoDuration, LocationName, NamespaceName, TaskId};
use lifeboat_api::velero::{DataMovePhase, DataUpload, PodVolumeBackup, names};
use serde_json::{Value, json};

use crate::label;
use crate::transfer::repository_notes::{
    self, GivenUp, MAINTAIN_SINCE, MAINTENANCE, TaskFate, after, running_number,
};
use crate::velero::pod_volumes;

/// How many runs are kept in the status: upstream's number.
const REMEMBERED: usize = 25;
/// The maximum delay before a failed maintenance is retried.
const AGAIN: Duration = Duration::from_hours(1);
/// How often the object is checked again while maintenance is disabled.
const NEVER: Duration = Duration::from_hours(24);
/// Rounds a time up to the next second, which is the number of a run.
const ALMOST_A_SECOND: Duration = Duration::from_nanos(999_999_999);

/// The location and namespace of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryId {
    pub location: LocationName,
    /// The namespace whose volumes it holds.
    pub namespace: NamespaceName,
}

impl RepositoryId {
    /// Selects its objects; long names may share labels, so [`RepositoryId::is_of`] makes the final check.
    pub fn selector(&self) -> String {
        let Self { location, namespace } = self;
        let (location, namespace) = (label::value(location.as_str()), label::value(namespace.as_str()));
        format!("{}={location},{}={namespace}", names::STORAGE_LOCATION, names::VOLUME_NAMESPACE)
    }

    pub fn is_of(&self, object: &Value) -> bool {
        let text = |field: &str| object["spec"][field].as_str().unwrap_or_default();
        self.location == text("backupStorageLocation")
            && self.namespace == text("volumeNamespace")
            && is_restic(object)
    }
}

/// Whether it is in restic's format; old objects do not name a format.
pub fn is_restic(object: &Value) -> bool {
    matches!(object["spec"]["repositoryType"].as_str(), None | Some("" | "restic"))
}

/// The object of a repository.
pub fn object(about: &RepositoryId, identifier: &str, frequency: Duration) -> Value {
    let RepositoryId { location, namespace } = about;
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "BackupRepository",
        "metadata": {
            "name": label::value(&format!("{namespace}-{location}-restic")),
            "labels": {
                names::STORAGE_LOCATION: label::value(location.as_str()),
                names::VOLUME_NAMESPACE: label::value(namespace.as_str()),
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

/// What a PodVolumeBackup or a DataUpload says about the tasks of its movers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOwner {
    uid: String,
    /// The task of the current attempt.
    task: TaskId,
    phase: DataMovePhase,
}

impl TaskOwner {
    fn new(metadata: &ObjectMeta, phase: &DataMovePhase) -> Self {
        let uid = metadata.uid.clone().unwrap_or_default();
        Self { uid, task: pod_volumes::task_of(metadata), phase: phase.clone() }
    }
}

impl From<&PodVolumeBackup> for TaskOwner {
    fn from(copy: &PodVolumeBackup) -> Self {
        Self::new(&copy.metadata, copy.phase())
    }
}

impl From<&DataUpload> for TaskOwner {
    fn from(upload: &DataUpload) -> Self {
        Self::new(&upload.metadata, upload.phase())
    }
}

/// Sorts the tasks that were given up. `owners`: all PodVolumeBackups and DataUploads. A task is recorded before the end of
/// its object, so the object decides; if the object is gone, nothing is deleted.
pub fn given_up(repository: &Value, owners: &[TaskOwner]) -> GivenUp {
    repository_notes::given_up(repository, |task| {
        match owners.iter().find(|owner| !owner.uid.is_empty() && task.starts_with(&owner.uid)) {
            None => TaskFate::Unknown,
            Some(owner) if owner.task != *task => TaskFate::Unwanted,
            Some(owner) => match owner.phase {
                DataMovePhase::Failed | DataMovePhase::Canceled => TaskFate::Unwanted,
                DataMovePhase::Completed => TaskFate::Wanted,
                _ => TaskFate::Unknown,
            },
        }
    })
}

/// The next step of maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// This run was started and its end is not recorded: it continues.
    GoOn(u64),
    /// A new run with this number.
    Now(u64),
    /// Check again after this time.
    In(Duration),
}

/// When maintenance is due. `default`: the frequency, if the object sets none; zero means only on request.
pub fn due(object: &Value, default: Duration, now: Timestamp) -> Due {
    let annotations = &object["metadata"]["annotations"];
    if let Some(number) = running_number(object) {
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
        // The run counts as started after it was requested, whatever this clock shows.
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

/// The patch when a run has ended. `failure`: the error, if it failed.
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
    use crate::transfer::repository_notes::{give_up, looked_for};
    use crate::velero::typed;

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
        assert_eq!(found, GivenUp { unknown: vec![TaskId::new("u-1")], ..GivenUp::default() });
        assert_eq!(looked_for(&object, &found, at("2026-11-16T12:04:59Z")), None);
        let gone = json!({"metadata": {"annotations": {"given-up.lifeboat.io/u-1": null}}});
        assert_eq!(looked_for(&object, &found, at("2026-11-16T12:05:01Z")), Some(gone.clone()));
        let wanted = GivenUp { wanted: vec![TaskId::new("u-1")], ..GivenUp::default() };
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
        let copy: PodVolumeBackup = typed::read(&object).unwrap();
        let found = given_up(&give_up(&TaskId::new("u-1"), at(NOW)), &[TaskOwner::from(&copy)]);
        let upload: DataUpload = typed::read(&object).unwrap();
        assert_eq!(TaskOwner::from(&upload), TaskOwner::from(&copy));
        let named = [("unwanted", &found.unwanted), ("wanted", &found.wanted), ("unknown", &found.unknown)];
        let named: Vec<&str> =
            named.iter().filter(|(_, list)| !list.is_empty()).map(|(name, _)| *name).collect();
        assert_eq!(named, [expected]);
    }

    #[test]
    fn an_object_of_a_repository_is_found_by_what_it_says() {
        let of = |location: &str| RepositoryId {
            location: LocationName::new(location),
            namespace: NamespaceName::new("shop"),
        };
        let about = of("default");
        let made = object(&about, "s3:x/restic/shop", Duration::from_hours(24));
        assert!(about.is_of(&made));
        assert_eq!(made["metadata"]["name"], "shop-default-restic");
        assert!(!of("other").is_of(&made));
        let mut kopia = made.clone();
        kopia["spec"]["repositoryType"] = json!("kopia");
        assert!(!about.is_of(&kopia));
    }
}
