//! A workload that a failed restore left down: only a restore that succeeds starts it.

use lifeboat_plan::stash::in_place::{STANDSTILL, UNFINISHED};
use lifeboat_transfer::attempts::testing::fails;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::Advance;
use super::super::others::needed_copies;
use super::cluster::{Cluster, SESSIONS, member};
use crate::testing::condition;

/// The record that the workload carries.
fn carried(cluster: &Cluster) -> Value {
    let text = cluster.object("web")["metadata"]["annotations"][STANDSTILL].clone();
    text.as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// Deployment `web`, which restore `back` left down.
async fn left_down(annotations: &Value) -> Cluster {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), annotations);
    if annotations.as_object().is_some_and(serde_json::Map::is_empty) {
        cluster.copies_then(fails("no space left on device"));
    } else {
        cluster.effects.will(fails("no space left on device"));
    }
    assert_eq!(cluster.ended("back").await["status"]["standstill"]["step"], "HeldDown");
    assert_eq!((cluster.replicas("web"), carried(&cluster)["restore"]["name"].clone()), (0, json!("back")));
    if annotations.as_object().is_some_and(serde_json::Map::is_empty) {
        cluster.copied("app", "back").await;
    }
    cluster
}

/// Works on restore `again`, which is deleted when it has reached a step.
async fn deleted_at(cluster: &Cluster, step: &'static str) -> Value {
    let cancel = CancellationToken::new();
    let deleted = cancel.clone();
    let path = format!("{SESSIONS}/again");
    let watched = path.clone();
    cluster.world.server.on_write(move |server, write| {
        let is_there =
            server.get(&watched).is_some_and(|again| again["status"]["standstill"]["step"] == step);
        if write.path == watched && is_there {
            deleted.cancel();
        }
    });
    assert_eq!(cluster.advance(&path, &cancel).await.unwrap(), Advance::Ended);
    cluster.world.server.get(&path).unwrap()
}

/// The rule that a second restore used to break: it gave the workload its scale back, on half-restored data.
#[rstest]
#[case::before_it_is_stopped("Stopping")]
#[case::stopped("Stopped")]
#[case::before_its_first_mover("Restoring")]
#[tokio::test]
async fn a_restore_that_ends_before_it_writes_leaves_the_workload_as_it_found_it(#[case] step: &'static str) {
    let cluster = left_down(&json!({})).await;
    let before = carried(&cluster);
    cluster.restore_session("again", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let again = deleted_at(&cluster, step).await;
    assert_eq!(again["status"]["phase"], "Failed", "{again}");
    assert_eq!(again["status"]["standstill"]["step"], "LeftDown", "{again}");
    assert_eq!(cluster.replicas("web"), 0, "it stays down");
    assert_eq!(carried(&cluster), before, "the first one's record is intact");
    let (status, message) = condition(&again, "WorkloadStarted");
    assert_eq!(status, "False");
    assert!(message.contains("stays as RestoreSession shop/back left it"), "{message}");
    assert!(message.contains("resume-workload deployment/web"), "{message}");
    assert!(again["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{again}");
    // One that succeeds starts it.
    cluster.restore_session("third", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    assert_eq!(cluster.ended("third").await["status"]["phase"], "Succeeded");
    assert_eq!((cluster.replicas("web"), carried(&cluster)), (2, Value::Null));
}

#[tokio::test]
async fn a_second_restore_that_wrote_and_failed_has_the_record_of_its_own_and_the_first_copy() {
    let cluster = left_down(&json!({})).await;
    cluster.restore_session("again", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    cluster.effects.will(fails("no space left on device"));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["standstill"]["step"], "HeldDown");
    let record = carried(&cluster);
    assert_eq!((&record["restore"]["name"], &record["safetyOf"]["name"]), (&json!("again"), &json!("back")));
    assert_eq!((cluster.replicas("web"), &record["replicas"]), (0, &json!(2)));
}

/// Without a safety copy of the first restore, the second one makes one: a copy that fails starts nothing either.
#[tokio::test]
async fn a_safety_copy_that_fails_leaves_the_workload_down() {
    let cluster = left_down(&json!({"lifeboat.io/safety-copy": "false"})).await;
    cluster.restore_session("again", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    cluster.effects.will(fails("the storage is full"));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["standstill"]["step"], "LeftDown", "{again}");
    assert_eq!((cluster.replicas("web"), carried(&cluster)["restore"]["name"].clone()), (0, json!("back")));
}

/// `whenScaled: Delete`: with the scale its claims would go, and with them all data.
#[tokio::test]
async fn a_stateful_set_whose_claims_go_with_its_pods_is_not_stopped() {
    let cluster = Cluster::new().await;
    cluster.stateful_set("db", 2, 2);
    let policy = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}});
    cluster.world.server.change(&cluster.path_of("db"), &policy);
    for ordinal in 0..2 {
        cluster.snapshot(&format!("app-{ordinal}"), "/data").await;
    }
    let spec = json!({"target": member("StatefulSet", "db", "app")});
    cluster.restore_session("back", &spec, &json!({"lifeboat.io/force-scale": "true"}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    let field = "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Delete";
    assert!(message.contains(field) && message.contains("set whenScaled: Retain"), "{message}");
    assert_eq!((cluster.replicas("db"), cluster.works().len()), (2, 0));
    let writes = cluster.world.server.writes();
    assert!(!writes.iter().any(|write| write.contains("/statefulsets/")), "nothing was scaled: {writes:?}");
}

/// The message of the second restore offers a rollback to the copy that the first one made, which was deleted to try again.
#[tokio::test]
async fn the_copy_of_a_restore_that_was_deleted_is_needed_while_its_workload_is_down() {
    let cluster = left_down(&json!({})).await;
    cluster.remove("back");
    assert!(needed_copies(&cluster.world.context, "shop").await.unwrap().is_empty());
    cluster.restore_session("again", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    cluster.effects.will(fails("no space left on device"));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["stats"][0]["safetyCopies"], Value::Null, "it made none: {again}");
    let needed = needed_copies(&cluster.world.context, "shop").await.unwrap();
    assert_eq!(needed.into_iter().collect::<Vec<_>>(), ["uid-back"]);
}

/// A person started the workload with `kubectl scale`, which leaves the record on it, and allowed backups: its data is not that of the first
/// restore's safety copy any more.
#[tokio::test]
async fn data_that_a_person_accepted_is_copied_before_the_next_restore() {
    let cluster = left_down(&json!({})).await;
    let claim = "/api/v1/namespaces/shop/persistentvolumeclaims/web-data";
    cluster.world.server.change(claim, &json!({"metadata": {"annotations": {UNFINISHED: null}}}));
    cluster.restore_session("again", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["phase"], "Succeeded", "{again}");
    assert_eq!(again["status"]["stats"][0]["safetyCopies"].as_array().map(Vec::len), Some(1), "{again}");
    assert_eq!((cluster.replicas("web"), carried(&cluster)), (2, Value::Null));
}
