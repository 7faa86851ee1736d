//! Hooks of restores: in the pod that is written, and after a standstill in the pod that runs with the restored data.

use serde_json::{Value, json};

use super::cluster::{Cluster, member};
use crate::testing::condition;
use lifeboat_transfer::attempts::testing::fails;

fn with_hooks(target: &Value) -> Value {
    json!({"target": target, "hooks": {
        "preRestore": {"exec": {"command": ["quiesce"]}},
        "postRestore": {"exec": {"command": ["release"]}},
    }})
}

#[tokio::test]
async fn hooks_run_before_the_workload_is_stopped_and_after_it_was_started() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &with_hooks(&member("Deployment", "web", "app")), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(cluster.commands(), ["web-0: quiesce", "web-0: release"]);
    assert_eq!(condition(&back, "PreRestoreHookExecutionSucceeded").0, "True");
    assert_eq!(condition(&back, "PostRestoreHookExecutionSucceeded").0, "True");
}

#[tokio::test]
async fn a_hook_that_fails_before_a_host_stops_nothing() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    let mut spec = with_hooks(&member("Deployment", "web", "app"));
    spec["hooks"]["preRestore"]["exec"]["command"] = json!(["fail"]);
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert_eq!(condition(&back, "PreRestoreHookExecutionSucceeded").0, "False");
    assert_eq!(cluster.commands(), ["web-0: fail", "web-0: release"], "what began is ended");
    assert_eq!((cluster.replicas("web"), cluster.works().len()), (1, 0));
    assert_eq!(cluster.record_on("web-data"), Value::Null);
}

/// "Try again" after a restore that left the workload down: there is no pod to quiesce.
#[tokio::test]
async fn a_workload_that_is_down_needs_no_hook_before_it_and_gets_the_one_after() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    let spec = with_hooks(&member("Deployment", "web", "app"));
    cluster.restore_session("back", &spec, &json!({}));
    cluster.copies_then(fails("no space left on device"));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["standstill"]["step"], "HeldDown", "{back}");
    let (status, message) = condition(&back, "PostRestoreHookExecutionSucceeded");
    assert!(status == "False" && message.contains("pod shop/web-0"), "{back}");
    cluster.remove("back");
    cluster.restore_session("again", &spec, &json!({}));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["phase"], "Succeeded", "{again}");
    assert_eq!(cluster.commands(), ["web-0: quiesce", "web-0: release"]);
    assert_eq!(again["status"]["stats"][0]["preHook"], "Skipped");
    assert!(
        condition(&again, "PreRestoreHookExecutionSucceeded").1.contains("is stopped and has no pod"),
        "{again}"
    );
}

/// The hooks of a database run in a Ready pod of its Service.
#[tokio::test]
async fn hooks_of_an_app_binding_run_in_a_ready_pod_of_its_service() {
    let cluster = Cluster::new().await;
    cluster.world.put_app();
    cluster.snapshot("db", "/dumpfile.sql").await;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"labels": {"kubernetes.io/service-name": "db"}},
        "endpoints": [{"conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "db-0"}}],
    });
    let server = &cluster.world.server;
    server.put("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/db", slice);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main"}]}});
    server.put("/api/v1/namespaces/shop/pods/db-0", pod);
    let mut spec = with_hooks(&json!({"alias": "db", "ref": {"kind": "AppBinding", "name": "db"}}));
    spec["task"] = json!({"name": "mysql-restore-8.0.14"});
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(cluster.commands(), ["db-0: quiesce", "db-0: release"]);
}
