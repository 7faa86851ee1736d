//! Requests that fail for ever, or are refused, neither keep a restore from ending nor its workload down that nothing was written to. The
//! clock is paused: it jumps over pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::api::DynamicObject;
use lifeboat_cluster::testing::failure;
use lifeboat_plan::stash::in_place::STANDSTILL;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{LastingRestore, Stopped, until_ended};
use super::cluster::{Cluster, SESSIONS, member};
use crate::sessions::kind::SessionKind;
use crate::sessions::record::SessionRecord;
use crate::sessions::restore::object::RestoreObject;
use crate::testing::condition;

/// A Deployment of two replicas and its restore, which makes no safety copy.
async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    let annotations = json!({"lifeboat.io/safety-copy": "false"});
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &annotations);
    cluster
}

/// The restore is worked on as the controller does it, until it has ended.
async fn last(cluster: &Cluster) -> Value {
    let path = format!("{SESSIONS}/back");
    let object: DynamicObject = serde_json::from_value(cluster.world.server.get(&path).unwrap()).unwrap();
    let (context, kind) = (cluster.world.context.clone(), SessionKind::Restore);
    let restore = RestoreObject::of(kind, &object).unwrap();
    let record = SessionRecord::new(&context.core, kind, &kind.resource(), object).unwrap();
    let restore = LastingRestore { context, transfers: cluster.transfers.clone(), restore };
    tokio::time::pause();
    until_ended(&restore, Arc::new(record), &CancellationToken::new()).await;
    cluster.world.server.get(&path).unwrap()
}

fn assert_as_before(cluster: &Cluster, back: &Value) {
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert_eq!(back["status"]["standstill"]["step"], "Started", "{back}");
    let web = cluster.object("web");
    assert_eq!(
        (&web["spec"]["replicas"], &web["metadata"]["annotations"][STANDSTILL]),
        (&json!(2), &Value::Null),
        "{back}"
    );
    assert_eq!(cluster.record_on("web-data"), Value::Null, "backups are not blocked");
    assert_eq!(cluster.works().len(), 0, "nothing was sent");
}

#[tokio::test]
async fn a_restore_that_can_never_see_the_pods_starts_its_workload_again() {
    let cluster = cluster().await;
    let web = cluster.path_of("web");
    cluster.world.server.answer(move |server, asked| {
        let is_stopped = server.get(&web).is_some_and(|web| web["spec"]["replicas"] == 0);
        let is_look = asked.method == "GET" && asked.path == "/api/v1/namespaces/shop/pods";
        (is_look && is_stopped).then(|| failure(500, "etcdserver: request timed out"))
    });
    let back = last(&cluster).await;
    assert_as_before(&cluster, &back);
    let (status, message) = condition(&back, "Interrupted");
    assert!(status == "True" && message.contains("request timed out"), "{back}");
    assert_eq!(condition(&back, "WorkloadStarted").0, "True", "{back}");
}

#[tokio::test]
async fn a_restore_whose_status_is_refused_starts_its_workload_and_ends_when_it_can_be_written() {
    let cluster = cluster().await;
    let (refuses, abandoned) = (AtomicBool::new(false), cluster.world.context.abandoned.clone());
    cluster.world.server.answer(move |_, asked| {
        if asked.method != "PUT" || !asked.path.ends_with("/back/status") {
            return None;
        }
        if asked.body["status"]["standstill"]["step"] == "Restoring" {
            refuses.store(true, Ordering::Relaxed);
        }
        let is_refused = refuses.load(Ordering::Relaxed) && !abandoned.has(Some("uid-back"));
        is_refused.then(|| failure(403, "denied by policy.example"))
    });
    let back = last(&cluster).await;
    assert_as_before(&cluster, &back);
    assert!(condition(&back, "Interrupted").1.contains("policy.example"), "{back}");
    assert!(cluster.world.server.events().contains(&"StatusNotWritten".to_owned()));
}

/// The server that follows may not read the claims of a workload that the one before it stopped.
#[tokio::test]
async fn a_restore_that_cannot_be_looked_up_again_starts_the_workload_that_it_stopped() {
    let cluster = cluster().await;
    let path = format!("{SESSIONS}/back");
    let (web, refuses) = (cluster.path_of("web"), Arc::new(AtomicBool::new(false)));
    let is_refused = refuses.clone();
    cluster.world.server.answer(move |_, asked| {
        if !is_refused.load(Ordering::Relaxed) {
            let is_record = asked.method == "PATCH" && asked.path == web && asked.body["spec"].is_null();
            return is_record.then(|| failure(500, "killed"));
        }
        let is_list = asked.method == "GET" && asked.path.ends_with("/shop/persistentvolumeclaims");
        is_list.then(|| failure(403, "claims are forbidden"))
    });
    let first = cluster.advance(&path, &CancellationToken::new()).await;
    assert!(matches!(first, Err(Stopped::Api(_))), "{first:?}");
    assert_eq!(cluster.replicas("web"), 0);
    refuses.store(true, Ordering::Relaxed);
    let back = last(&cluster).await;
    assert_as_before(&cluster, &back);
    let message = condition(&back, "WorkloadStarted").1;
    assert!(message.contains("claims are forbidden"), "{message}");
}
