//! DataUploads.

use lifeboat_api::velero::DataUpload;
use lifeboat_mover::task::Source;
use rstest::rstest;
use serde_json::json;

use super::*;

const UPLOAD: &str = "/apis/velero.io/v2alpha1/namespaces/lifeboat/datauploads/du";
const SNAPSHOT: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots/s";
const CONTENT: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/c";

async fn bench(prepare: Duration) -> Bench {
    let bench = Bench::new(prepare).await;
    let world = &bench.world;
    world.put(
        UPLOAD,
        json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
            "metadata": {"name": "du", "namespace": "lifeboat", "uid": "u", "labels": {"velero.io/backup-name": "b"}},
            "spec": {"snapshotType": "CSI", "csiSnapshot": {"volumeSnapshot": "s", "storageClass": "fast", "snapshotClass": "class"},
                "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default", "operationTimeout": "10m0s"}}),
    );
    world.add("volumesnapshots", "shop", "s", json!({"status": {"boundVolumeSnapshotContentName": "c"}}));
    world.add(
        "volumesnapshotcontents",
        "",
        "c",
        json!({"spec": {"driver": "d", "deletionPolicy": "Retain"},
            "status": {"snapshotHandle": "h", "readyToUse": true, "restoreSize": 1_073_741_824}}),
    );
    let claim = json!({"spec": {"volumeName": "pv", "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}});
    world.add("persistentvolumeclaims", "shop", "data", claim);
    bench
}

async fn run(bench: &Bench) {
    let object: DataUpload = serde_json::from_value(bench.world.get(UPLOAD).unwrap()).unwrap();
    object.run_transfer(&bench.work, &CancellationToken::new()).await.unwrap();
}

#[tokio::test]
async fn the_data_movers_config_says_how_many_files_are_read_at_once() {
    let bench = bench(Duration::from_mins(1)).await;
    bench.world.change(UPLOAD, &json!({"spec": {"dataMoverConfig": {"ParallelFilesUpload": "7"}}}));
    run(&bench).await;
    assert_eq!(bench.effects.requests.lock().unwrap()[0].task.limits.threads, Some(7));
}

/// The CSI snapshot was deleted with its data, and nothing that was made for the mover is left.
fn assert_clear(bench: &Bench) {
    assert_eq!(bench.left(), Vec::<String>::new());
    assert!(bench.world.get(SNAPSHOT).is_none() && bench.world.get(CONTENT).is_none());
}

#[rstest]
#[case::files("Filesystem")]
#[case::device("Block")]
#[tokio::test]
async fn a_snapshot_is_shown_to_a_mover_and_goes_when_it_is_copied(#[case] mode: &str) {
    let bench = bench(Duration::from_mins(1)).await;
    bench.world.change(
        "/api/v1/namespaces/shop/persistentvolumeclaims/data",
        &json!({"spec": {"volumeMode": mode}}),
    );
    let policies = bench.world.watch_changes(CONTENT);
    bench.meanwhile(|world| {
        let claim =
            world.get("/api/v1/namespaces/lifeboat-movers/persistentvolumeclaims/lifeboat-u").unwrap();
        assert_eq!(claim["spec"]["dataSource"]["name"], "lifeboat-u");
        let content =
            world.get("/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/lifeboat-u").unwrap();
        assert_eq!(content["spec"]["source"]["snapshotHandle"], "h");
    });
    run(&bench).await;
    let status = bench.status(UPLOAD);
    assert_eq!(
        (&status["phase"], &status["snapshotID"]),
        (&json!("Completed"), &json!("snapshot-u-1")),
        "{status}"
    );
    assert_eq!(status["node"], "a");
    assert_eq!(status["incrementalBytes"], 4);
    assert_clear(&bench);
    assert_eq!(policies.lock().unwrap()[0]["spec"]["deletionPolicy"], "Delete", "the driver deletes it");
    let assigned = bench.effects.requests.lock().unwrap();
    let TaskWork::Backup(work) = &assigned[0].task.parts[0].work else { panic!() };
    assert_eq!(work.host, "shop/data");
    assert_eq!(matches!(work.source, Source::BlockDevice { .. }), mode == "Block");
    let MoverPlace::Claim { claim, block, .. } = &assigned[0].job.place else { panic!() };
    assert_eq!((claim.as_str(), *block), ("lifeboat-u", mode == "Block"));
}

#[tokio::test]
async fn a_server_that_died_before_the_end_does_not_copy_again() {
    let bench = bench(Duration::from_mins(1)).await;
    let end = json!({"status": {"phase": "Completed", "snapshotID": "snapshot-u-1"}});
    bench.world.change(
        UPLOAD,
        &json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1", "lifeboat.io/end": end.to_string()}},
            "status": {"phase": "InProgress", "snapshotID": "snapshot-u-1"}}),
    );
    run(&bench).await;
    assert_eq!((bench.movers(), bench.status(UPLOAD)["phase"].clone()), (0, json!("Completed")));
    assert_clear(&bench);
}

#[tokio::test]
async fn a_mover_that_was_killed_is_sent_once_more() {
    let bench = bench(Duration::from_mins(1)).await;
    bench.effects.will(died(true));
    run(&bench).await;
    let status = bench.status(UPLOAD);
    assert_eq!(
        (&status["phase"], &status["snapshotID"]),
        (&json!("Completed"), &json!("snapshot-u-2")),
        "{status}"
    );
    let assigned = bench.effects.requests.lock().unwrap();
    assert_eq!(assigned[1].task.lock.dead_owners, ["cluster/mover-pod"]);
}

#[tokio::test]
async fn what_an_earlier_attempt_made_after_all_is_forgotten() {
    let bench = bench(Duration::from_mins(1)).await;
    bench.effects.will(died(true));
    let effects = bench.effects.clone();
    // The dead one's snapshot shows only after it was looked for.
    bench.meanwhile(move |_| {
        if effects.calls_to("send").len() == 2 {
            effects.holds("u-1", "late");
        }
    });
    run(&bench).await;
    let status = bench.status(UPLOAD);
    assert_eq!((&status["phase"], &status["snapshotID"]), (&json!("Completed"), &json!("snapshot-u-2")));
    assert_eq!(bench.effects.calls_to("forget"), ["forget shop late"]);
}

#[tokio::test]
async fn where_nobody_can_tell_what_a_dead_mover_made_none_follows_it() {
    let bench = bench(Duration::from_mins(1)).await;
    bench.effects.mute.store(true, Ordering::Relaxed);
    bench.effects.will(died(true));
    run(&bench).await;
    let status = bench.status(UPLOAD);
    assert_eq!((bench.movers(), &status["phase"]), (1, &json!("Failed")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("it is unknown whether the volume was copied: storage is away"), "{message}");
    assert_clear(&bench);
}

#[rstest]
#[case::killed(died(false))]
#[case::cancelled(killed_when_cancelled())]
#[tokio::test]
async fn the_lock_of_a_dead_mover_goes(#[case] end: MoverEnd) {
    let bench = bench(Duration::from_mins(1)).await;
    bench.effects.will(end);
    run(&bench).await;
    assert_eq!(bench.effects.calls_to("unlock"), ["unlock cluster/mover-pod"]);
}

#[rstest]
#[case::the_mover(fails("cannot read /x"), "Failed", "cannot read /x")]
#[case::killed_twice(died(false), "Failed", "the mover was killed")]
#[case::cancelled(killed_when_cancelled(), "Canceled", "it was cancelled")]
#[tokio::test]
async fn what_fails_says_why_and_leaves_nothing(
    #[case] end: MoverEnd,
    #[case] phase: &str,
    #[case] words: &str,
) {
    let bench = bench(Duration::from_mins(1)).await;
    bench.effects.will(end);
    run(&bench).await;
    let status = bench.status(UPLOAD);
    assert_eq!(status["phase"], phase, "{status}");
    assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    assert!(status["completionTimestamp"].is_string());
    assert_clear(&bench);
}

#[tokio::test]
async fn a_snapshot_that_is_never_ready_ends_the_movement() {
    let bench = bench(Duration::ZERO).await;
    bench
        .world
        .change(CONTENT, &json!({"status": {"readyToUse": false, "error": {"message": "pool is full"}}}));
    run(&bench).await;
    let status = bench.status(UPLOAD);
    assert_eq!((bench.movers(), &status["phase"]), (0, &json!("Failed")));
    assert!(status["message"].as_str().unwrap().contains("not ready to use: pool is full"), "{status}");
    assert_clear(&bench);
}

#[tokio::test]
async fn a_movement_that_waited_longer_than_its_limit_has_its_whole_time_from_the_start_of_its_mover() {
    let bench = bench(Duration::from_mins(1)).await;
    let created = jiff::Timestamp::now() - Duration::from_hours(20);
    bench.world.change(UPLOAD, &json!({"metadata": {"creationTimestamp": created.to_string()}}));
    run(&bench).await;
    assert_eq!(bench.status(UPLOAD)["phase"], "Completed", "{}", bench.status(UPLOAD));
    let requests = bench.effects.requests.lock().unwrap();
    assert_eq!(requests[0].job.deadline_seconds, 4 * 3600);
}

#[tokio::test]
async fn a_movement_whose_time_is_over_says_which_setting_gives_more() {
    let bench = bench(Duration::from_mins(1)).await;
    bench.world.change(UPLOAD, &json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}));
    run(&bench).await;
    let status = bench.status(UPLOAD);
    assert_eq!((bench.movers(), &status["phase"]), (0, &json!("Failed")));
    let words = "its mover did not start within 24h0m0s (--mover-queue-timeout), because others were ahead of it in the queue";
    assert_eq!(status["message"], words);
}

#[tokio::test]
async fn a_snapshot_that_is_gone_ends_the_movement() {
    let bench = bench(Duration::from_mins(1)).await;
    bench.world.remove(SNAPSHOT);
    run(&bench).await;
    assert!(bench.status(UPLOAD)["message"].as_str().unwrap().contains("VolumeSnapshot shop/s is gone"));
}

#[tokio::test]
async fn what_was_made_for_an_object_that_is_gone_is_taken_away() {
    let bench = bench(Duration::from_mins(1)).await;
    let add = |plural: &str, name: &str, uid: &str, server: &str| {
        let labels = json!({"lifeboat.io/data-movement": uid, "lifeboat.io/server-namespace": server});
        bench.world.add(plural, "lifeboat-movers", name, json!({"metadata": {"labels": labels}}));
    };
    add("persistentvolumeclaims", "lifeboat-u", "u", "lifeboat");
    add("persistentvolumeclaims", "lifeboat-gone", "gone", "lifeboat");
    add("persistentvolumeclaims", "lifeboat-gone-2", "gone", "lifeboat");
    add("persistentvolumeclaims", "lifeboat-foreign", "foreign", "another");
    // Its server died before it made the claim, or after it had taken that away.
    add("volumesnapshots", "lifeboat-half", "half", "lifeboat");
    crate::data_movement::sweep::sweep(&bench.work).await.unwrap();
    let claims = "/api/v1/namespaces/lifeboat-movers/persistentvolumeclaims";
    assert_eq!(bench.left(), ["foreign", "u"].map(|name| format!("{claims}/lifeboat-{name}")));
}

#[tokio::test]
async fn a_snapshot_that_another_upload_needs_stays() {
    let bench = bench(Duration::from_mins(1)).await;
    let mut other = bench.world.get(UPLOAD).unwrap();
    other["metadata"]["name"] = json!("du-2");
    other["metadata"]["uid"] = json!("u2");
    bench.world.put(&UPLOAD.replace("/du", "/du-2"), other);
    bench.effects.will(killed_when_cancelled());
    run(&bench).await;
    assert_eq!(bench.status(UPLOAD)["phase"], "Canceled");
    assert!(bench.world.get(SNAPSHOT).is_some() && bench.world.get(CONTENT).is_some());
}

#[tokio::test]
async fn a_copy_on_record_that_nobody_wants_any_more_is_forgotten() {
    let bench = bench(Duration::from_mins(1)).await;
    let end = json!({"status": {"phase": "Completed", "snapshotID": "snapshot-u-1"}});
    bench.world.change(
        UPLOAD,
        &json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1", "lifeboat.io/end": end.to_string()}},
            "status": {"phase": "InProgress", "snapshotID": "snapshot-u-1"}}),
    );
    bench.effects.holds("u-1", "snapshot-u-1");
    let object: DataUpload = serde_json::from_value(bench.world.get(UPLOAD).unwrap()).unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    object.run_transfer(&bench.work, &cancel).await.unwrap();
    let status = bench.status(UPLOAD);
    assert_eq!((&status["phase"], status.get("snapshotID")), (&json!("Canceled"), None), "{status}");
    assert!(bench.effects.calls().contains(&"forget shop snapshot-u-1".to_owned()));
    assert_clear(&bench);
}

#[rstest]
#[case::a_copy_on_record(true, "Completed")]
#[case::none(false, "Failed")]
#[tokio::test]
async fn what_nobody_may_clear_up_does_not_keep_the_object_from_its_end(
    #[case] recorded: bool,
    #[case] phase: &str,
) {
    let bench = bench(Duration::from_mins(1)).await;
    if recorded {
        let end = json!({"status": {"phase": "Completed", "snapshotID": "snapshot-u-1"}});
        let note = json!({"metadata": {"annotations": {"lifeboat.io/end": end.to_string()}}});
        bench.world.change(UPLOAD, &note);
    } else {
        bench.effects.will(fails("cannot read /x"));
    }
    bench.world.refuse_change(CONTENT, "spec", 403);
    run(&bench).await;
    assert_eq!(bench.status(UPLOAD)["phase"], phase, "{}", bench.status(UPLOAD));
}
