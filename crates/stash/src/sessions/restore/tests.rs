//! Restores on the API server in memory, with movers that end as the tests ask.

mod blocking;
mod by_mover;
mod checked;
mod cluster;
mod databases;
mod devices;
mod faults;
mod held;
mod hooks;
mod interrupted;
mod kills;
mod not_written;
mod scope;
mod snapshots;
mod targets;

use lifeboat_mover::task::TaskWork;
use lifeboat_plan::stash::in_place::STANDSTILL;
use lifeboat_transfer::attempts::testing::fails;
use serde_json::json;

use super::*;
use crate::testing::condition;
use cluster::{Cluster, member};

#[tokio::test]
async fn a_deployment_is_restored_in_place_and_started_again() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    let snapshot = cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let (web, server) = (cluster.path_of("web"), cluster.world.server.clone());
    cluster.effects.meanwhile(move || assert_eq!(server.get(&web).unwrap()["spec"]["replicas"], 0));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(back["status"]["standstill"]["step"], "Started");
    let host = &back["status"]["stats"][0];
    assert_eq!((&host["hostname"], &host["phase"]), (&json!("app"), &json!("Succeeded")));
    assert_eq!(host["paths"], json!([{"snapshot": snapshot, "path": "/data", "restored": true}]));
    assert_eq!(host["safetyCopies"].as_array().map(Vec::len), Some(1), "{host}");
    assert_eq!(condition(&back, "WorkloadStarted").0, "True");
    let web = cluster.object("web");
    assert_eq!(
        (&web["spec"]["replicas"], &web["metadata"]["annotations"][STANDSTILL]),
        (&json!(2), &json!(null))
    );
    assert!(back["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{back}");

    let works = cluster.works();
    let [TaskWork::Backup(copy), TaskWork::Restore(restore)] = works.as_slice() else { panic!("{works:?}") };
    assert!(copy.tags.contains(&"lifeboat-safety".to_owned()), "{copy:?}");
    assert_eq!((copy.at.as_deref(), copy.host.as_str()), (Some("/data"), "app"));
    assert_eq!((restore.folder.as_deref(), &restore.snapshot), (Some("/data"), &snapshot));
}

/// Also by the server that leads next.
#[tokio::test]
async fn a_restore_that_has_ended_is_shown_in_the_metrics_whenever_its_object_is_looked_at() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let back: DynamicObject = serde_json::from_value(cluster.ended("back").await).unwrap();
    let kind = SessionKind::Restore;
    let restores = LongWork::new(&cluster.world.context.core.metrics, "restoresession");
    let state = State { kind, resource: kind.resource(), restores };
    reconcile(Arc::new(back), cluster.world.context.clone(), Arc::new(state)).await.unwrap();
    let metrics = cluster.world.context.core.metrics.render();
    let labels = "invoker_kind=\"RestoreSession\",invoker_name=\"back\",namespace=\"shop\",driver=\"Restic\",repository=\"r\"";
    assert!(metrics.contains(&format!("stash_restore_session_success{{{labels}}} 1")), "{metrics}");
}

#[tokio::test]
async fn a_failed_restore_keeps_the_workload_down_and_the_next_one_gives_it_its_scale_back() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    let spec = json!({"target": member("Deployment", "web", "app")});
    cluster.restore_session("back", &spec, &json!({}));
    cluster.copies_then(fails("no space left on device"));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let (status, message) = condition(&back, "WorkloadStarted");
    assert_eq!(status, "False");
    assert_eq!(condition(&back, "RestoreCompleted").0, "False", "{back}");
    let host = &back["status"]["stats"][0];
    assert!(host["bytesDone"].is_null() && host["bytesTotal"].is_null(), "those of the safety copy: {back}");
    assert!(back["status"]["message"].to_string().contains("no space left"), "{back}");
    assert!(cluster.world.server.events().contains(&"HostFailed".to_owned()));
    for part in ["no space left on device", "rollback restoresession/back", "resume-workload"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert_eq!(cluster.object("web")["spec"]["replicas"], 0);

    cluster.copied("app", "back").await;
    // The restore that failed is deleted, as `kubectl replace --force` does.
    cluster.remove("back");
    cluster.restore_session("again", &spec, &json!({}));
    let before = cluster.works().len();
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["phase"], "Succeeded", "{again}");
    assert_eq!(cluster.object("web")["spec"]["replicas"], 2);
    let works = cluster.works();
    assert_eq!(works.len(), before + 1, "what was half restored is not copied: {works:?}");
    assert!(matches!(works.last(), Some(TaskWork::Restore(_))));
}

#[tokio::test]
async fn without_a_safety_copy_data_is_written_at_once() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    let spec = json!({"target": member("Deployment", "web", "app")});
    cluster.restore_session("back", &spec, &json!({"lifeboat.io/safety-copy": "false"}));
    assert_eq!(cluster.ended("back").await["status"]["phase"], "Succeeded");
    assert_eq!(cluster.works().len(), 1);
}

#[tokio::test]
async fn a_workload_that_an_autoscaler_scales_is_stopped_only_if_asked() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    let path = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
    cluster.world.server.put(path, scaler);
    let spec = json!({"target": member("Deployment", "web", "app")});
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("HorizontalPodAutoscaler web"), "{message}");
    assert_eq!((cluster.object("web")["spec"]["replicas"].clone(), cluster.works().len()), (json!(2), 0));
    cluster.restore_session("forced", &spec, &json!({"lifeboat.io/force-scale": "true"}));
    assert_eq!(cluster.ended("forced").await["status"]["phase"], "Succeeded");
}

#[tokio::test]
async fn a_restore_from_a_repository_of_another_namespace_goes_through_the_gateway_if_it_allows_that() {
    use lifeboat_mover::task::Transport;
    let mut cluster = Cluster::new().await;
    crate::gateway::serve_repositories(&cluster.world.context);
    cluster.world.put_secret("bank", crate::testing::PASSWORD);
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
    cluster.key = cluster.world.put_repository_in("bank", "r", backend);
    let policy = |from: &str| json!({"spec": {"usagePolicy": {"allowedNamespaces": {"from": from}}}});
    let repository = crate::testing::path("bank", "r");
    cluster.world.server.change(&repository, &policy("All"));
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let of_bank = json!({"spec": {"repository": {"name": "r", "namespace": "bank"}}});
    cluster.world.server.change(&format!("{}/back", cluster::SESSIONS), &of_bank);
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    // The safety copy adds data, the restore does not.
    let all: Vec<_> = cluster.effects.requests.lock().unwrap().iter().map(|one| one.keys.clone()).collect();
    assert_eq!(all.len(), 2);
    for keys in all {
        let transport = keys.read().await.unwrap().repository.unwrap().transport;
        assert!(matches!(transport, Transport::Gateway { .. }), "{transport:?}");
    }
}
