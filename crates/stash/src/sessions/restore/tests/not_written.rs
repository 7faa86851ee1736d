//! Restores that end before they wrote anything: the workload runs as before, and nothing that was made for them stays.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lifeboat_cluster::testing::failure;
use lifeboat_mover::report::{Cause, Failure, Outcome};
use lifeboat_plan::stash::in_place::STANDSTILL;
use lifeboat_plan::stash::session::{TargetKey, TargetVolumes};
use lifeboat_transfer::attempts::testing::{fails, reported};
use lifeboat_transfer::movers::MoverEnd;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{Advance, Stopped};
use super::cluster::{Cluster, SESSIONS, member};
use crate::sessions::turns::try_take;
use crate::testing::condition;

const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/restored-0";

fn not_stored() -> MoverEnd {
    let message = "the snapshot has no '/data/none', and '/data' has file; nothing was written".to_owned();
    reported(Outcome::Failed(Failure { cause: Cause::NotStored, message }))
}

/// Fails one change of an object.
fn fail_once(cluster: &Cluster, path: String, nth: usize) {
    let seen = AtomicUsize::new(0);
    cluster.world.server.answer(move |_, asked| {
        let is_change = asked.method == "PATCH" && asked.path == path;
        (is_change && seen.fetch_add(1, Ordering::SeqCst) == nth).then(|| failure(500, "killed"))
    });
}

/// The server dies at that change.
async fn interrupted(cluster: &Cluster) {
    let first = cluster.advance(&format!("{SESSIONS}/back"), &CancellationToken::new()).await;
    assert!(matches!(first, Err(Stopped::Api(_))), "{first:?}");
}

fn assert_as_before(cluster: &Cluster, back: &Value) {
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert_eq!(back["status"]["standstill"]["step"], "Started", "{back}");
    assert_eq!(condition(back, "WorkloadStarted").0, "True", "{back}");
    let web = cluster.object("web");
    assert_eq!(
        (&web["spec"]["replicas"], &web["metadata"]["annotations"][STANDSTILL]),
        (&json!(2), &Value::Null),
        "{back}"
    );
    assert_eq!(cluster.record_on("web-data"), Value::Null, "backups are not blocked");
    assert!(back["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{back}");
}

/// The path is below a stored one, so only the mover finds out.
#[tokio::test]
async fn a_path_that_the_snapshot_lacks_leaves_the_workload_as_before_and_says_what_there_is() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    let mut target = member("Deployment", "web", "app");
    target["rules"] = json!([{"paths": ["/data/none"]}]);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    cluster.copies_then(not_stored());
    let back = cluster.ended("back").await;
    assert_as_before(&cluster, &back);
    let message = condition(&back, "WorkloadStarted").1;
    assert!(message.contains("runs as before") && message.contains("'/data' has file"), "{message}");
    assert_eq!(condition(&back, "BackupsBlocked").0, "False", "{back}");
}

#[tokio::test]
async fn a_host_whose_volumes_are_gone_before_the_first_mover_leaves_the_workload_as_before() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    // The record on the claim is written right before the first mover that restores.
    fail_once(&cluster, "/api/v1/namespaces/shop/persistentvolumeclaims/web-data".into(), 0);
    interrupted(&cluster).await;
    let none = json!({"spec": {"template": {"spec": {"volumes": []}}}});
    cluster.world.server.change(&cluster.path_of("web"), &none);
    let sent = cluster.works().len();
    let back = cluster.ended("back").await;
    assert_as_before(&cluster, &back);
    assert!(condition(&back, "WorkloadStarted").1.contains("no volumes of host app any more"), "{back}");
    assert_eq!(cluster.works().len(), sent, "nothing was sent");
}

#[rstest]
#[case::nothing_was_written(not_stored(), false)]
#[case::something_may_have_been_written(fails("no space left on device"), true)]
#[tokio::test]
async fn claims_that_a_restore_made_go_with_it_unless_it_may_have_written(
    #[case] end: MoverEnd,
    #[case] stays: bool,
) {
    let cluster = Cluster::new().await;
    cluster.snapshot("app-0", "/data").await;
    let template = json!({
        "metadata": {"name": "restored-${POD_ORDINAL}"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let target = json!({
        "alias": "app", "replicas": 1, "volumeMounts": [{"name": "restored", "mountPath": "/data"}],
        "volumeClaimTemplates": [template],
    });
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    cluster.effects.will(end);
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let claim = cluster.world.server.get(CLAIM);
    assert_eq!(claim.is_some(), stays, "{back}");
    if let Some(claim) = claim {
        assert_eq!(claim["metadata"]["labels"]["lifeboat.io/restore-session"], back["metadata"]["uid"]);
    }
}

#[tokio::test]
async fn a_claim_that_is_refused_fails_the_restore() {
    let cluster = Cluster::new().await;
    cluster.stateful_set("db", 0, 0);
    cluster.snapshot("app-0", "/data").await;
    let mut target = member("StatefulSet", "db", "app");
    target["replicas"] = json!(1);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    cluster.world.server.answer(|_, asked| {
        let is_claim = asked.method == "POST" && asked.path.ends_with("/persistentvolumeclaims");
        is_claim.then(|| failure(403, "exceeded quota: storage"))
    });
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert!(back["status"]["stats"][0]["error"].to_string().contains("exceeded quota"), "{back}");
    assert_eq!(cluster.works().len(), 0);
}

#[tokio::test]
async fn a_restore_that_is_given_up_while_it_waits_for_its_turn_again_ends() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    fail_once(&cluster, cluster.path_of("web"), 0);
    interrupted(&cluster).await;
    let target = TargetKey { kind: "Deployment".into(), namespace: "shop".into(), name: "web".into() };
    let on = TargetVolumes::new("shop", Some(target), ["web-data".to_owned()].into());
    let turn = try_take(&cluster.world.context.targets, &on);
    assert!(turn.is_some(), "the work of the first server has ended");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let path = format!("{SESSIONS}/back");
    let advancing = cluster.advance(&path, &cancel);
    let advanced = tokio::time::timeout(Duration::from_secs(20), advancing).await;
    assert_eq!(advanced.expect("it waits for the turn").unwrap(), Advance::Ended);
    assert_as_before(&cluster, &cluster.world.server.get(&path).unwrap());
    drop(turn);
}

const AWAY: &str = "Internal error occurred: failed calling webhook \"policy.example\": connection refused";

/// No mover can be sent, and the wait for the webhook ends with the restore.
#[tokio::test]
async fn a_restore_whose_movers_a_webhook_keeps_away_leaves_the_workload_as_before() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let cancel = CancellationToken::new();
    let late = cancel.clone();
    cluster.world.server.answer(move |_, asked| {
        asked.query.contains("dryRun").then(|| {
            late.cancel();
            failure(500, AWAY)
        })
    });
    let path = format!("{SESSIONS}/back");
    assert_eq!(cluster.advance(&path, &cancel).await.unwrap(), Advance::Ended);
    let back = cluster.world.server.get(&path).unwrap();
    assert_as_before(&cluster, &back);
    assert_eq!(cluster.works().len(), 0);
}

/// A policy forbids the record of the restore on the workload, and nothing is written without it.
#[tokio::test]
async fn a_workload_that_may_not_carry_the_record_ends_the_restore() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let web = cluster.path_of("web");
    cluster.world.server.answer(move |_, asked| {
        let is_record = asked.method == "PATCH" && asked.path == web && asked.body["spec"].is_null();
        is_record.then(|| failure(403, "admission webhook denied the request: no annotations"))
    });
    let back = cluster.ended("back").await;
    assert_as_before(&cluster, &back);
    let message = condition(&back, "WorkloadStarted").1;
    assert!(message.contains("no annotations") && message.contains("kubectl replace --force"), "{message}");
}

/// Claims that cannot be made end a restore as well that has nothing to stop.
#[tokio::test]
async fn claims_that_a_webhook_keeps_away_end_the_restore() {
    let cluster = Cluster::new().await;
    cluster.stateful_set("db", 0, 0);
    cluster.snapshot("app-0", "/data").await;
    let mut target = member("StatefulSet", "db", "app");
    target["replicas"] = json!(1);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let cancel = CancellationToken::new();
    let late = cancel.clone();
    cluster.world.server.answer(move |_, asked| {
        let is_claim = asked.method == "POST" && asked.path.ends_with("/persistentvolumeclaims");
        is_claim.then(|| {
            late.cancel();
            failure(500, AWAY)
        })
    });
    let path = format!("{SESSIONS}/back");
    assert_eq!(cluster.advance(&path, &cancel).await.unwrap(), Advance::Ended);
    let back = cluster.world.server.get(&path).unwrap();
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert!(back["status"]["stats"][0]["error"].to_string().contains("policy.example"), "{back}");
}

#[tokio::test]
async fn a_workload_that_is_deleted_after_its_data_was_restored_is_not_said_to_be_started() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let web = cluster.path_of("web");
    cluster.world.server.answer(move |server, asked| {
        let is_start = asked.method == "PATCH" && asked.path == web && asked.body["spec"]["replicas"] == 2;
        is_start.then(|| {
            server.remove(&web);
            failure(404, "it was deleted")
        })
    });
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let (status, message) = condition(&back, "WorkloadStarted");
    assert_eq!(status, "False", "{back}");
    assert!(message.contains("all data was restored") && message.contains("was deleted"), "{message}");
}
