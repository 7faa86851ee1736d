//! Restores into block volumes, and limits of the network.

use lifeboat_mover::task::{Source, Target, TaskWork};
use lifeboat_plan::stash::rules::DEVICE_TAG;
use serde_json::{Value, json};

use super::cluster::{Cluster, member};
use crate::testing::condition;

const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/web-data";

/// A Deployment whose claim is a block volume, and a snapshot of host `app` at `/data`.
async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.world.server.change(CLAIM, &json!({"spec": {"volumeMode": "Block"}}));
    cluster
}

fn spec(more: &Value) -> Value {
    let mut target = member("Deployment", "web", "app");
    lifeboat_cluster::testing::merge(&mut target, more);
    json!({"target": target})
}

#[tokio::test]
async fn a_device_gets_the_content_at_its_path_and_is_copied_before() {
    let cluster = cluster().await;
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &spec(&json!({})), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let works = cluster.works();
    let [TaskWork::Backup(copy), TaskWork::Restore(restore)] = works.as_slice() else { panic!("{works:?}") };
    assert!(matches!(&copy.source, Source::BlockDevice { name, .. } if name == "data"), "{copy:?}");
    assert!(copy.tags.contains(&DEVICE_TAG.to_owned()));
    assert_eq!(restore.target, Target::BlockDevice { path: "/mover/device/0".into() });
    assert_eq!((&restore.paths, restore.folder.as_deref()), (&vec!["/data".to_owned()], None));
}

/// The workload goes on: what would fail in the mover is seen before.
#[tokio::test]
async fn a_part_of_a_device_fails_the_restore_before_anything_is_stopped() {
    let cluster = cluster().await;
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &spec(&json!({"rules": [{"paths": ["/data/db"]}]})), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("/data/db is inside of volume \"data\""), "{message}");
    assert_eq!(cluster.object("web")["spec"]["replicas"], 1);
    assert!(cluster.works().is_empty());
}

/// The volume is mounted below the path at which the device was stored.
#[tokio::test]
async fn a_path_below_a_stored_device_fails_the_restore_before_anything_is_stopped() {
    let cluster = cluster().await;
    cluster.tagged("app", "/data", &[DEVICE_TAG]).await;
    let mut target = member("Deployment", "web", "app");
    target["volumeMounts"][0]["mountPath"] = json!("/data/db");
    target["rules"] = json!([{"paths": ["/data/db"]}]);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("path /data/db is inside of /data"), "{message}");
    assert_eq!(cluster.object("web")["spec"]["replicas"], 1);
    assert!(cluster.works().is_empty());
}

#[tokio::test]
async fn limits_of_the_target_hold_for_the_restore_and_its_copy() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    let args = json!(["--limit-upload=1", "--limit-download=2"]);
    cluster.restore_session("back", &spec(&json!({"args": args})), &json!({}));
    assert_eq!(cluster.ended("back").await["status"]["phase"], "Succeeded");
    let requests = cluster.effects.requests.lock().unwrap();
    let limits: Vec<_> =
        requests.iter().map(|sent| (sent.task.limits.upload, sent.task.limits.download)).collect();
    assert_eq!(limits, [(Some(1024), Some(2048)); 2]);
}
