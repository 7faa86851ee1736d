//! DataDownloads.

use lifeboat_api::velero::DataDownload;
use lifeboat_mover::task::Target;
use rstest::rstest;
use serde_json::json;

use super::*;

const DOWNLOAD: &str = "/apis/velero.io/v2alpha1/namespaces/lifeboat/datadownloads/dd";
const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/data";
/// The claims of the first and the second attempt.
const MOVERS: [&str; 2] = [
    "/api/v1/namespaces/lifeboat-movers/persistentvolumeclaims/lifeboat-u-1",
    "/api/v1/namespaces/lifeboat-movers/persistentvolumeclaims/lifeboat-u-2",
];
const VOLUME: &str = "/api/v1/persistentvolumes/pv-new";

async fn bench() -> Bench {
    let bench = Bench::new(Duration::from_mins(1)).await;
    let world = &bench.world;
    world.put(
        DOWNLOAD,
        json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataDownload",
            "metadata": {"name": "dd", "namespace": "lifeboat", "uid": "u", "labels": {"velero.io/restore-name": "r"}},
            "spec": {"targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "snapshotID": "abc",
                "sourceNamespace": "old", "backupStorageLocation": "default", "operationTimeout": "10m0s"}}),
    );
    let claim = json!({"metadata": {"labels": {"velero.io/restore-name": "r"}}, "status": {"phase": "Pending"},
        "spec": {"accessModes": ["ReadWriteOnce"], "selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x"}},
            "resources": {"requests": {"storage": "1Gi"}}}});
    world.add("persistentvolumeclaims", "shop", "data", claim);
    // The binder: a claim that names a volume which names it.
    world.on_change(|world, path| {
        let names = |claim: Option<Value>| claim.is_some_and(|claim| claim["spec"]["volumeName"] == "pv-new");
        let given = world.get(VOLUME).is_some_and(|volume| volume["spec"]["claimRef"]["name"] == "data");
        if path == VOLUME && given && names(world.get(CLAIM)) {
            world.change(CLAIM, &json!({"status": {"phase": "Bound"}}));
        }
    });
    bench.meanwhile(|world| {
        let claim = MOVERS.into_iter().rev().find(|claim| world.get(claim).is_some()).unwrap();
        world.change(claim, &json!({"spec": {"volumeName": "pv-new"}, "status": {"phase": "Bound"}}));
        world.put(VOLUME, volume());
    });
    bench
}

fn volume() -> Value {
    json!({"metadata": {"name": "pv-new"}, "spec": {"persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "lifeboat-movers", "name": "lifeboat-u-1", "uid": "m", "resourceVersion": "1"}}})
}

async fn run(bench: &Bench) {
    let object: DataDownload = serde_json::from_value(bench.world.get(DOWNLOAD).unwrap()).unwrap();
    object.run_transfer(&bench.work, &CancellationToken::new()).await.unwrap();
}

#[rstest]
#[case::given(json!({"WriteSparseFiles": "false", "ParallelFilesDownload": "3"}), false, Some(3))]
#[case::not_given(json!({}), true, None)]
#[tokio::test]
async fn the_data_movers_config_is_followed(
    #[case] config: Value,
    #[case] sparse: bool,
    #[case] threads: Option<usize>,
) {
    let bench = bench().await;
    bench.world.change(DOWNLOAD, &json!({"spec": {"dataMoverConfig": config}}));
    run(&bench).await;
    let sent = bench.effects.requests.lock().unwrap();
    let TaskWork::Restore(work) = &sent[0].task.parts[0].work else { unreachable!() };
    assert_eq!((work.sparse, sent[0].task.limits.threads), (sparse, threads));
}

#[tokio::test]
async fn a_config_without_a_meaning_is_named() {
    let bench = bench().await;
    bench.world.change(DOWNLOAD, &json!({"spec": {"dataMoverConfig": {"WriteSparseFiles": "yes"}}}));
    run(&bench).await;
    let status = bench.status(DOWNLOAD);
    assert_eq!((&status["phase"], bench.movers()), (&json!("Failed"), 0));
    assert!(status["message"].as_str().unwrap().contains("WriteSparseFiles is \"yes\""), "{status}");
}

fn assert_handed_over(bench: &Bench) {
    assert_eq!(bench.status(DOWNLOAD)["phase"], "Completed", "{}", bench.status(DOWNLOAD));
    let volume = bench.world.get(VOLUME).unwrap();
    let reference = &volume["spec"]["claimRef"];
    assert_eq!((&reference["namespace"], &reference["name"]), (&json!("shop"), &json!("data")));
    assert_eq!(reference["uid"], bench.world.get(CLAIM).unwrap()["metadata"]["uid"]);
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete", "as it was");
    assert_eq!(volume["metadata"]["labels"]["velero.io/dynamic-pv-restore"], "x");
    assert_eq!(bench.world.get(CLAIM).unwrap()["spec"]["volumeName"], "pv-new");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[rstest]
#[case::files("Filesystem")]
#[case::device("Block")]
#[tokio::test]
async fn a_volume_is_filled_for_the_mover_and_handed_to_its_claim(#[case] mode: &str) {
    let bench = bench().await;
    bench.world.change(CLAIM, &json!({"spec": {"volumeMode": mode}}));
    let changes = bench.world.watch_changes(VOLUME);
    run(&bench).await;
    assert_handed_over(&bench);
    let kept = &changes.lock().unwrap()[0]["spec"]["persistentVolumeReclaimPolicy"];
    assert_eq!(kept, "Retain", "it outlives the mover's claim");
    let assigned = bench.effects.requests.lock().unwrap();
    let TaskWork::Restore(work) = &assigned[0].task.parts[0].work else { panic!() };
    assert_eq!(work.snapshot, "abc");
    assert_eq!(matches!(work.target, Target::BlockDevice { .. }), mode == "Block");
    let MoverPlace::Claim { claim, block, writable, node } = &assigned[0].job.place else { panic!() };
    assert_eq!((claim.as_str(), *block, *writable, node), ("lifeboat-u-1", mode == "Block", true, &None));
}

#[tokio::test]
async fn a_volume_goes_to_the_node_where_its_pod_is_wanted() {
    let bench = bench().await;
    bench.world.add("storageclasses", "", "late", json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let late = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}, "spec": {"storageClassName": "late"}});
    bench.world.change(CLAIM, &late);
    run(&bench).await;
    assert_handed_over(&bench);
    let assigned = bench.effects.requests.lock().unwrap();
    assert_eq!(assigned[0].job.place.node(), Some("b"));
}

#[rstest]
#[case::its_pod_gets_a_node(true, Some("b"))]
#[case::nobody_wants_it(false, None)]
#[tokio::test]
async fn only_a_pod_that_can_come_is_waited_for(#[case] has_pod: bool, #[case] node: Option<&str>) {
    let bench = bench().await;
    bench.world.add("storageclasses", "", "late", json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    bench.world.change(CLAIM, &json!({"spec": {"storageClassName": "late"}}));
    if has_pod {
        let pod =
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
        bench.world.add("pods", "shop", "db-0", pod);
    }
    // The scheduler assigns the node after the pod was read.
    bench.world.on_list(|world, path| {
        let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}});
        if path.ends_with("/pods") && world.get("/api/v1/namespaces/shop/pods/db-0").is_some() {
            world.change(CLAIM, &chosen);
        }
    });
    run(&bench).await;
    assert_handed_over(&bench);
    let assigned = bench.effects.requests.lock().unwrap();
    assert_eq!(assigned[0].job.place.node(), node);
}

#[tokio::test]
async fn nothing_of_earlier_attempts_stays_when_a_volume_is_handed_over() {
    let bench = bench().await;
    bench.world.change(
        DOWNLOAD,
        &json!({"metadata": {"annotations": {"lifeboat.io/attempt": "2"}}, "status": {"phase": "Accepted"}}),
    );
    let label = json!({"metadata": {"labels": {"lifeboat.io/data-movement": "u"}}});
    bench.world.add("persistentvolumeclaims", "lifeboat-movers", "lifeboat-u-1", label);
    run(&bench).await;
    assert_handed_over(&bench);
}

#[tokio::test]
async fn a_server_that_died_while_it_handed_over_does_not_fill_again() {
    let bench = bench().await;
    bench.world.change(
        DOWNLOAD,
        &json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1", "lifeboat.io/volume": "pv-new",
            "lifeboat.io/reclaim-policy": "Delete"}}, "status": {"phase": "InProgress"}}),
    );
    let mut kept = volume();
    kept["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
    bench.world.put(VOLUME, kept);
    run(&bench).await;
    assert_eq!(bench.movers(), 0);
    assert_handed_over(&bench);
}

#[rstest]
#[case::bound(json!({"status": {"phase": "Bound"}}), "is bound to a volume already")]
#[case::of_another(json!({"metadata": {"labels": {"velero.io/restore-name": "other"}}}), "was not created by this restore")]
#[tokio::test]
async fn only_new_volumes_of_the_restore_are_written_into(#[case] change: Value, #[case] words: &str) {
    let bench = bench().await;
    bench.world.change(CLAIM, &change);
    run(&bench).await;
    let status = bench.status(DOWNLOAD);
    assert_eq!((bench.movers(), &status["phase"]), (0, &json!("Failed")));
    assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[rstest]
#[case::the_mover(fails("no space"), "Failed", "no space")]
#[case::killed(died(false), "Failed", "the mover was killed")]
#[case::cancelled(killed_when_cancelled(), "Canceled", "it was cancelled")]
#[tokio::test]
async fn what_fails_says_why_and_leaves_no_volume(
    #[case] end: MoverEnd,
    #[case] phase: &str,
    #[case] words: &str,
) {
    let bench = bench().await;
    bench.effects.will(end);
    let changes = bench.world.watch_changes(VOLUME);
    run(&bench).await;
    let status = bench.status(DOWNLOAD);
    assert_eq!(status["phase"], phase, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains(words) && message.contains("claim shop/data stays without a volume"),
        "{status}"
    );
    assert_eq!(bench.left(), Vec::<String>::new());
    let last = changes.lock().unwrap().last().cloned().unwrap();
    assert_eq!(last["spec"]["persistentVolumeReclaimPolicy"], "Delete", "it goes with the mover's claim");
}

#[rstest]
#[case::killed(died(true))]
#[case::still_writing_perhaps(lost())]
#[tokio::test]
async fn the_next_mover_gets_a_new_volume(#[case] end: MoverEnd) {
    let bench = bench().await;
    bench.effects.will(end);
    run(&bench).await;
    assert_eq!(bench.movers(), 2);
    assert_handed_over(&bench);
    let made = bench.world.created();
    assert!(MOVERS.iter().all(|claim| made.iter().any(|path| path == claim)), "{made:?}");
}
