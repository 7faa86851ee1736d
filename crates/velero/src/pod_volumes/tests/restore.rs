//! PodVolumeRestores: only into a pod that waits, and only into volumes that are new.

use lifeboat_api::velero::PodVolumeRestore;
use lifeboat_mover::report::Restored;
use lifeboat_mover::task::Target;

use super::*;

fn restored_pod(state: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "lifeboat", "uid": "p-9"},
        "spec": {"nodeName": "a", "containers": [], "initContainers": [{"name": "restore-wait"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        "status": {"phase": "Pending", "initContainerStatuses": [{"name": "restore-wait", "image": "", "imageID": "",
            "ready": false, "restartCount": 0, "state": state}]}})
}

/// A pod that waits with a claim of this restore.
async fn world(state: &Value, label: &str) -> World {
    let world = World::new().await;
    world.cluster.put("pods", &restored_pod(state));
    world.cluster.put(
        "persistentvolumeclaims",
        &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "labels": {"velero.io/restore-name": label}}, "spec": {"volumeName": "pv"}}),
    );
    world.cluster.put(
        "persistentvolumes",
        &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
            "spec": {"csi": {"driver": "d", "volumeHandle": "h"}}}),
    );
    world
}

async fn run(world: &World, more: &Value, cancel: &CancellationToken) -> Value {
    let mut object = json!({
        "apiVersion": "velero.io/v1", "kind": "PodVolumeRestore",
        "metadata": {"name": "o", "uid": "o-1", "creationTimestamp": jiff::Timestamp::now().to_string(),
            "labels": {"velero.io/restore-name": "r", "velero.io/restore-uid": "r-1"}},
        "spec": {"pod": {"namespace": "lifeboat", "name": "db-0", "uid": "p-9"}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "snapshotID": "abc", "sourceNamespace": "shop"},
    });
    crate::testing::merge(&mut object, more);
    world.cluster.put("podvolumerestores", &object);
    let object: PodVolumeRestore =
        serde_json::from_value(world.cluster.get("podvolumerestores", "o").unwrap()).unwrap();
    object.run_transfer(&world.work, cancel).await.unwrap();
    world.cluster.get("podvolumerestores", "o").unwrap()["status"].clone()
}

fn restored(failed: u64) -> MoverEnd {
    let failed = Listed { count: failed, first: vec!["a".into()] };
    reported(Outcome::Restored(Restored { bytes: 70, verified: true, failed, ..Restored::default() }))
}

#[tokio::test]
async fn a_pod_that_waits_gets_its_data() {
    let world = world(&json!({"running": {}}), "r").await;
    world.fake.will(restored(0));
    let status = run(&world, &json!({}), &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Completed", "{status}");
    assert_eq!((&status["node"], &status["progress"]["bytesDone"]), (&json!("a"), &json!(70)));
    assert_eq!(world.fake.calls(), ["reach default/shop", "send o-1-1", "clear o-1-1"]);
    let sent = world.fake.requests.lock().unwrap();
    let TaskWork::Restore(work) = &sent[0].task.parts[0].work else { unreachable!() };
    assert_eq!(work.done_file.as_deref(), Some(std::path::Path::new(".velero/r-1")));
    let Target::Path { path, proof: Some(lifeboat_mover::task::Proof::Csi { file, .. }) } = &work.target
    else {
        unreachable!()
    };
    assert_eq!(
        (path.to_str(), file.to_str()),
        (Some("/mover/data/mount"), Some("/mover/data/vol_data.json"))
    );
    assert!(matches!(&sent[0].job.place, MoverPlace::NodeDirectory { writable: true, .. }));
}

#[rstest]
#[case::given(json!({"WriteSparseFiles": "false", "ParallelFilesDownload": "3"}), false, Some(3))]
#[case::not_given(json!({}), true, None)]
#[tokio::test]
async fn files_are_written_as_the_settings_say(
    #[case] settings: Value,
    #[case] sparse: bool,
    #[case] threads: Option<usize>,
) {
    let world = world(&json!({"running": {}}), "r").await;
    world.fake.will(restored(0));
    run(&world, &json!({"spec": {"uploaderSettings": settings}}), &CancellationToken::new()).await;
    let sent = world.fake.requests.lock().unwrap();
    let TaskWork::Restore(work) = &sent[0].task.parts[0].work else { unreachable!() };
    assert_eq!((work.sparse, sent[0].task.limits.threads), (sparse, threads));
}

#[rstest]
#[case::not_equal(restored(1), "1 files could not be restored (a)")]
#[case::died(died(false), "the mover was killed")]
#[tokio::test]
async fn a_volume_that_is_not_whole_has_failed(#[case] end: MoverEnd, #[case] words: &str) {
    let world = world(&json!({"running": {}}), "r").await;
    world.fake.will(end);
    let status = run(&world, &json!({}), &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Failed");
    assert!(status["message"].as_str().unwrap().starts_with(words), "{status}");
}

#[rstest]
#[case::a_claim_that_was_there("other", json!({"running": {}}), json!({}), "was not created by this restore")]
#[case::a_pod_that_is_another("r", json!({"running": {}}), json!({"spec": {"pod": {"uid": "p-1"}}}), "is gone")]
#[case::a_pod_that_runs("r", json!({"terminated": {"exitCode": 0}}), json!({}), "data is not restored into the volume of a running pod")]
#[case::a_pod_that_never_comes_up("r", json!({"waiting": {"reason": "ImagePullBackOff"}}),
    json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}), "did not come up in time: its init container restore-wait waits: ImagePullBackOff")]
#[tokio::test]
async fn nobody_writes_where_nobody_waits(
    #[case] label: &str,
    #[case] state: Value,
    #[case] more: Value,
    #[case] words: &str,
) {
    let world = world(&state, label).await;
    let status = run(&world, &more, &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Failed", "{status}");
    assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    assert!(world.fake.calls_to("send").is_empty());
}

#[tokio::test]
async fn a_pod_that_went_on_saw_its_data_though_nobody_heard_of_it() {
    let world = world(&json!({"terminated": {"exitCode": 0}}), "r").await;
    let begun =
        json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1"}}, "status": {"phase": "InProgress"}});
    let status = run(&world, &begun, &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Completed");
    assert_eq!(world.fake.calls(), ["clear o-1-1"]);
}

#[tokio::test]
async fn a_mover_that_was_killed_is_sent_once_more() {
    let world = world(&json!({"running": {}}), "r").await;
    world.fake.will(died(true));
    world.fake.will(restored(0));
    let status = run(&world, &json!({}), &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Completed");
    assert_eq!(world.fake.calls_to("send"), ["send o-1-1", "send o-1-2"]);
}

#[tokio::test]
async fn a_mover_that_may_still_write_is_followed_by_none() {
    let world = world(&json!({"running": {}}), "r").await;
    world.fake.will(lost());
    let status = run(&world, &json!({}), &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Failed");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("node a is lost; it is not tried again"), "{message}");
    assert_eq!(world.fake.calls(), ["reach default/shop", "send o-1-1", "clear o-1-1"]);
}

#[tokio::test]
async fn a_cancelled_restore_leaves_no_mover() {
    let world = world(&json!({"running": {}}), "r").await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let status = run(&world, &json!({}), &cancel).await;
    assert_eq!(status["phase"], "Canceled");
    assert_eq!(world.fake.calls(), ["clear o-1-1"]);
}

/// A pod that runs, with a claim that existed before.
async fn in_use(phase: &str) -> World {
    let world = world(&json!({"terminated": {"exitCode": 0}}), "other").await;
    let mut pod = restored_pod(&json!({"terminated": {"exitCode": 0}}));
    pod["status"]["phase"] = json!(phase);
    world.cluster.put("pods", &pod);
    world
}

fn beside() -> Value {
    json!({"metadata": {"annotations": {"lifeboat.io/restore-into": "back", "lifeboat.io/restore-path": "/conf"}}})
}

#[tokio::test]
async fn files_come_beside_what_a_running_pod_has() {
    let world = in_use("Running").await;
    world.fake.will(restored(0));
    let status = run(&world, &beside(), &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Completed", "{status}");
    let sent = world.fake.requests.lock().unwrap();
    let TaskWork::Restore(work) = &sent[0].task.parts[0].work else { unreachable!() };
    assert_eq!(
        (work.into.as_deref(), work.paths.as_slice()),
        (Some("back"), ["/conf".to_owned()].as_slice())
    );
    assert!(work.done_file.is_none());
}

#[rstest]
#[case::it_died("Running", died(false), "is in directory back of the volume")]
#[case::nobody_has_it_mounted("Pending", restored(0), "does not run")]
#[tokio::test]
async fn files_that_did_not_come_are_not_there_because_the_pod_runs(
    #[case] phase: &str,
    #[case] end: MoverEnd,
    #[case] words: &str,
) {
    let world = in_use(phase).await;
    world.fake.will(end);
    let status = run(&world, &beside(), &CancellationToken::new()).await;
    assert_eq!(status["phase"], "Failed", "{status}");
    assert!(status["message"].as_str().unwrap().contains(words), "{status}");
}
