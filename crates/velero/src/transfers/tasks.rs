//! Which tasks Velero's objects have recorded: the proof that a mover's Job belongs to one of them.

use async_trait::async_trait;
use lifeboat_api::common::TaskId;
use lifeboat_api::velero;
use lifeboat_cluster::objects::{namespaced, resource, to_json};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::Core;
use lifeboat_plan::transfer::attempts::task_uid;
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_plan::transfer::repository_notes::is_under_way;
use lifeboat_plan::velero::pod_volumes::{ATTEMPT, attempt};
use lifeboat_transfer::movers::{TaskRecords, TaskState};
use serde_json::Value;

/// Phases in which an object does not need its mover any more.
const OVER: [&str; 3] = ["Completed", "Failed", "Canceled"];

/// PodVolumeBackup, PodVolumeRestore, DataUpload and DataDownload with their attempts, and BackupRepository with its
/// maintenance.
pub(crate) struct VeleroTasks(pub(crate) Core);

#[async_trait]
impl TaskRecords for VeleroTasks {
    /// All objects are in the server's namespace, wherever the Job is.
    async fn state(&self, _: &str, owner: &Owner, task: &TaskId) -> Result<TaskState, ApiError> {
        let known = velero::crds();
        let Some(crd) = known.iter().find(|crd| crd.kind() == owner.kind) else {
            return Ok(TaskState::Unknown);
        };
        let Some(version) = crd.versions().iter().find(|version| version.storage) else {
            return Ok(TaskState::Unknown);
        };
        let resource = resource(crd.group(), &version.name, crd.kind(), crd.plural());
        let api = namespaced(&self.0.client, &self.0.namespace, &resource);
        let found = api.get_opt(&owner.name).await.attempt(format!("read {} {}", owner.kind, owner.name))?;
        Ok(found.map_or(TaskState::Over, |object| state(&to_json(&object), owner, task)))
    }
}

fn state(object: &Value, owner: &Owner, task: &TaskId) -> TaskState {
    let has_ended = object["status"]["phase"].as_str().is_some_and(|phase| OVER.contains(&phase));
    if has_ended || object["metadata"]["uid"] != *owner.uid {
        return TaskState::Over;
    }
    if owner.kind == "BackupRepository" {
        // A repository has no end; at most one of its maintenances is running.
        return if is_under_way(object, task) { TaskState::Open } else { TaskState::Over };
    }
    // The attempt is recorded before its Job is created; without one no mover was started.
    let Some(last) = object["metadata"]["annotations"][ATTEMPT].as_str() else {
        return TaskState::Unrecorded;
    };
    let is_recorded = (1..=attempt(Some(last))).any(|number| task_uid(&owner.uid, number) == *task);
    if is_recorded { TaskState::Open } else { TaskState::Unrecorded }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::common::NamespaceName;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn owner(kind: &str) -> Owner {
        Owner {
            kind: kind.into(),
            namespace: NamespaceName::new("lifeboat"),
            name: "o".into(),
            uid: "u".into(),
        }
    }

    #[rstest]
    #[case::of_this_attempt("InProgress", "u", Some("2"), "u-2", TaskState::Open)]
    #[case::of_an_earlier_attempt("InProgress", "u", Some("2"), "u-1", TaskState::Open)]
    #[case::of_a_later_attempt("InProgress", "u", Some("1"), "u-2", TaskState::Unrecorded)]
    #[case::of_nothing_that_was_sent("New", "u", None, "u-1", TaskState::Unrecorded)]
    #[case::ended("Completed", "u", Some("1"), "u-1", TaskState::Over)]
    #[case::another_object_of_that_name("InProgress", "other", Some("1"), "u-1", TaskState::Over)]
    fn a_task_belongs_to_an_object_that_has_it_on_record(
        #[case] phase: &str,
        #[case] uid: &str,
        #[case] attempt: Option<&str>,
        #[case] task: &str,
        #[case] expected: TaskState,
    ) {
        let object = json!({
            "metadata": {"name": "o", "uid": uid, "annotations": {ATTEMPT: attempt}},
            "status": {"phase": phase},
        });
        assert_eq!(state(&object, &owner("PodVolumeBackup"), &TaskId::new(task)), expected);
    }

    #[tokio::test]
    async fn the_task_of_an_object_that_is_gone_is_over_and_that_of_another_kind_is_unknown() {
        let cluster = crate::testing::Cluster::new().await;
        let tasks = VeleroTasks(Core::clone(&cluster.context));
        let task = TaskId::new("u-1");
        for (kind, expected) in [("PodVolumeBackup", TaskState::Over), ("Deployment", TaskState::Unknown)] {
            let state = tasks.state("lifeboat-movers", &owner(kind), &task).await.unwrap();
            assert_eq!(state, expected, "{kind}");
        }
    }
}
