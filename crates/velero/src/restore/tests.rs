mod csi;
mod ends;
mod faults;
mod killed;
mod native;
mod own;
mod runs;
mod setting;
mod stages;
mod volumes;

use kube::api::DynamicObject;
use lifeboat_archive::RestoreFiles;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::testing::Cluster;

/// A controller's state, whose runs do not end, and what it began.
fn state() -> (Arc<State>, mpsc::UnboundedReceiver<Order>) {
    state_with(|_| std::future::pending().boxed())
}

/// A controller's state with runs of a test's own, and what it began.
fn state_with(
    run: impl Fn(&Order) -> BoxFuture<'static, WorkEnd> + Send + Sync + 'static,
) -> (Arc<State>, mpsc::UnboundedReceiver<Order>) {
    let (orders, received) = mpsc::unbounded_channel();
    let run = move |_: Context, order: Order| {
        let running = run(&order);
        orders.send(order).unwrap();
        running
    };
    (Arc::new(State::new(&Metrics::new("0"), Box::new(run))), received)
}

async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    for (name, phase, labels) in [
        ("nightly-1", "Completed", json!({"velero.io/schedule-name": "nightly"})),
        ("nightly-2", "InProgress", json!({"velero.io/schedule-name": "nightly"})),
    ] {
        cluster.put(
            "backups",
            &json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name, "labels": labels},
                "spec": {"storageLocation": "default"},
                "status": {"phase": phase, "startTimestamp": "2026-11-15T10:00:00Z"}}),
        );
    }
    cluster
}

/// Reconciles until nothing changes any more.
async fn settle(cluster: &Cluster, state: &Arc<State>, name: &str) -> Value {
    for _ in 0..4 {
        let Some(object) = cluster.get("restores", name) else { break };
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        reconcile(Arc::new(object), cluster.context.clone(), state.clone()).await.unwrap();
    }
    cluster.get("restores", name).unwrap()
}

fn restore(spec: &Value) -> Value {
    json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "r"}, "spec": spec})
}

#[tokio::test]
async fn a_valid_restore_is_claimed_completed_and_run_once() {
    let (cluster, (state, mut orders)) = (cluster().await, state());
    cluster.put("restores", &restore(&json!({"scheduleName": "nightly"})));
    let written = settle(&cluster, &state, "r").await;
    assert_eq!(written["status"]["phase"], "InProgress");
    assert_eq!(written["spec"]["backupName"], "nightly-1");
    assert_eq!(written["spec"]["itemOperationTimeout"], "4h0m0s");
    assert_eq!(written["spec"]["excludedResources"].as_array().unwrap().len(), 9);
    assert_eq!(written["metadata"]["finalizers"], json!([RESTORE_FINALIZER]));
    assert_eq!(orders.try_recv().unwrap().restore.spec.backup_name.as_deref(), Some("nightly-1"));
    assert!(orders.try_recv().is_err());
}

#[rstest]
#[case::no_source(json!({}), "Either a backup or schedule must be specified")]
#[case::missing_backup(json!({"backupName": "gone"}), "Error retrieving backup: can't find backup lifeboat/gone")]
#[case::no_backup_of_schedule(json!({"scheduleName": "hourly"}), "No backups found for schedule")]
#[case::backup_still_runs(json!({"backupName": "nightly-2"}), "backup nightly-2 is in phase InProgress")]
#[case::missing_modifiers(json!({"backupName": "nightly-1", "resourceModifier": {"kind": "ConfigMap", "name": "m"}}), "failed to get resource modifiers configmap lifeboat/m")]
#[case::missing_policies(json!({"backupName": "nightly-1", "resourcePolicy": {"kind": "configmap", "name": "p"}}), "invalid restore resource policies: there is no ConfigMap lifeboat/p")]
#[case::policies_of_another_kind(json!({"backupName": "nightly-1", "resourcePolicy": {"kind": "Secret", "name": "p"}}), "spec.resourcePolicy has kind \"Secret\"")]
#[case::spec(json!({"backupName": "nightly-1", "includedResources": ["nodes"]}), "nodes are non-restorable resources")]
#[tokio::test]
async fn a_restore_that_cannot_run_says_why(#[case] spec: Value, #[case] expected: &str) {
    let (cluster, (state, mut orders)) = (cluster().await, state());
    cluster.put("restores", &restore(&spec));
    let written = settle(&cluster, &state, "r").await;
    assert_eq!(written["status"]["phase"], "FailedValidation", "{written}");
    assert!(written["status"]["validationErrors"][0].as_str().unwrap().contains(expected), "{written}");
    assert!(orders.try_recv().is_err());
    assert_eq!(cluster.events(), ["FailedValidation"]);
}

#[tokio::test]
async fn a_location_that_is_not_available_is_named() {
    let (cluster, (state, _orders)) = (cluster().await, state());
    cluster.change("backupstoragelocations", "default", &json!({"status": {"phase": "Unavailable"}}));
    cluster.put("restores", &restore(&json!({"backupName": "nightly-1"})));
    let written = settle(&cluster, &state, "r").await;
    let expected = "The BSL default is unavailable, cannot retrieve the backup";
    assert_eq!(written["status"]["validationErrors"], json!([expected]));
}

#[tokio::test]
async fn a_restore_that_another_server_began_is_gone_on_with_once() {
    let (cluster, (state, mut orders)) = (cluster().await, state());
    for (name, phase) in
        [("r", "InProgress"), ("s", "FinalizingPartiallyFailed"), ("t", "WaitingForPluginOperations")]
    {
        let mut object = restore(&json!({"backupName": "nightly-1", "scheduleName": "nightly"}));
        object["metadata"]["name"] = json!(name);
        object["status"] = json!({"phase": phase});
        cluster.put("restores", &object);
        settle(&cluster, &state, name).await;
        assert_eq!(orders.try_recv().unwrap().restore.name_any(), name);
        assert!(orders.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_cancelled_restore_is_told_to_its_run() {
    let (cluster, (state, mut orders)) = (cluster().await, state());
    cluster.put("restores", &restore(&json!({"backupName": "nightly-1"})));
    settle(&cluster, &state, "r").await;
    let order = orders.try_recv().unwrap();
    cluster.change("restores", "r", &json!({"metadata": {"annotations": {CANCEL: "true"}}}));
    settle(&cluster, &state, "r").await;
    assert!(order.cancel.is_cancelled());
}

#[tokio::test]
async fn the_files_of_a_deleted_restore_go_with_it() {
    let (cluster, (state, _orders)) = (cluster().await, state());
    let files = RestoreFiles::new("r").unwrap();
    cluster.store().put(&files.results(), bytes::Bytes::from("x")).await.unwrap();
    let mut object = restore(&json!({"backupName": "nightly-1"}));
    object["metadata"]["finalizers"] = json!([RESTORE_FINALIZER, "other"]);
    object["metadata"]["deletionTimestamp"] = json!("2026-11-15T10:00:00Z");
    cluster.put("restores", &object);
    let written = settle(&cluster, &state, "r").await;
    assert_eq!(written["metadata"]["finalizers"], json!(["other"]));
    assert!(!cluster.store().exists(&files.results()).await.unwrap());
}
