//! Driver VolumeSnapshotter: VolumeSnapshots of claims, on an API server whose snapshot controller the tests play.

mod hooks;

use std::sync::atomic::{AtomicI64, AtomicUsize};

use lifeboat_control::testing::{ApiServer, Requests, Verb, WriteKind};
use rstest::rstest;
use tokio::sync::Notify;

use super::*;

const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots";
const CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";

/// What the snapshot controller of a test does with a new VolumeSnapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    TakesAtOnce,
    /// It takes snapshots, which become ready only when a test says so.
    StillUploads,
    /// It takes snapshots, which become ready, or vanish, after the status of the session shows that they are taken.
    UploadsOnceSeen,
    LosesOnceSeen,
    Fails,
    Absent,
}

/// Two Deployments, `web` and `db`, whose claims are of driver `csi.example`, which has class `fast`.
async fn shop(driver: Driver) -> Shop {
    let shop = Shop::new().await;
    shop.put_deployment("db");
    let server = &shop.world.server;
    put_class(server, "fast", "csi.example");
    put_class(server, "other", "other.example");
    for claim in ["web", "db"] {
        put_volume(server, claim);
    }
    control(server, driver);
    shop
}

fn put_class(server: &ApiServer, name: &str, driver: &str) {
    let class =
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": driver});
    server.put(&format!("{CLASSES}/{name}"), class);
}

fn put_volume(server: &ApiServer, claim: &str) {
    let volume =
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"csi": {"driver": "csi.example"}}});
    server.put(&format!("/api/v1/persistentvolumes/pv-{claim}"), volume);
}

/// Plays the snapshot controller and its driver. Each snapshot is a second younger than the one before it.
fn control(server: &ApiServer, driver: Driver) {
    let seconds = AtomicI64::new(1_767_225_600);
    server.on_write(move |server, write| {
        let is_new = write.kind == WriteKind::Created && write.path.starts_with(SNAPSHOTS);
        if write.path.contains("/backupsessions/") {
            later(server, &write.path, driver);
        }
        if !is_new || driver == Driver::Absent {
            return;
        }
        let second = seconds.fetch_add(1, Ordering::Relaxed);
        let taken = jiff::Timestamp::from_second(second).unwrap().to_string();
        let mut status = json!({"boundVolumeSnapshotContentName": "content"});
        if driver == Driver::Fails {
            status["error"] = json!({"message": "the quota is used up"});
        } else {
            status["creationTime"] = json!(taken);
            status["restoreSize"] = json!("1Gi");
            status["readyToUse"] = json!(driver == Driver::TakesAtOnce);
        }
        server.change(&write.path, &json!({"status": status}));
    });
}

/// What the driver does with a snapshot that a session has on record.
fn later(server: &ApiServer, session: &str, driver: Driver) {
    let name = server.get(session).map(|session| host(&session, 0)["snapshots"][0]["name"].clone());
    let Some(Value::String(name)) = name else { return };
    let path = format!("{SNAPSHOTS}/{name}");
    let is_there = server.get(&path).is_some();
    match driver {
        Driver::UploadsOnceSeen if is_there => server.change(&path, &json!({"status": {"readyToUse": true}})),
        Driver::LosesOnceSeen if is_there => drop(server.remove(&path)),
        _ => {}
    }
}

/// An invoker of Deployment `web` with the driver, and without a Repository.
fn put_configuration(shop: &Shop, name: &str, changes: &Value) {
    let mut spec = json!({
        "driver": "VolumeSnapshotter",
        "schedule": "*/5 * * * *",
        "retentionPolicy": {"name": "keep", "keepLast": 2, "prune": false},
        "target": {"ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    lifeboat_cluster::testing::merge(&mut spec, changes);
    shop.put_invoker("BackupConfiguration", name, &spec);
}

/// Runs a session of `nightly` whose name has this second.
async fn run(shop: &Shop, second: u64) -> Value {
    let name = format!("nightly-{second}");
    shop.put_session(&name, "BackupConfiguration", "nightly");
    shop.run(&name).await
}

/// The names of all VolumeSnapshots.
fn names(shop: &Shop) -> Vec<String> {
    let paths = shop.world.server.paths(&format!("{SNAPSHOTS}/"));
    paths.iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
}

fn error(session: &Value) -> &str {
    host(session, 0)["error"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_claim_is_backed_up_by_a_snapshot_that_outlives_its_session() {
    let shop = shop(Driver::TakesAtOnce).await;
    shop.world.server.remove("/apis/stash.appscode.com/v1alpha1/namespaces/shop/repositories/r");
    put_configuration(&shop, "nightly", &json!({}));
    let session = run(&shop, 1_700_000_100).await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(session["status"]["targets"][0]["totalHosts"], 1);
    let host = host(&session, 0);
    assert_eq!((&host["hostname"], &host["pod"]), (&json!("web"), &json!("web-1")));
    assert_eq!(
        (&host["consistency"], &host["snapshots"][0]["name"]),
        (&json!("Snapshot"), &json!("web-1700000100"))
    );
    assert_eq!(host["snapshots"][0]["totalSize"], "1Gi");
    let made = shop.world.server.get(&format!("{SNAPSHOTS}/web-1700000100")).unwrap();
    assert_eq!(made["spec"]["volumeSnapshotClassName"], "fast");
    assert_eq!(made["metadata"]["labels"]["lifeboat.io/backup-session"], "uid-nightly-1700000100");
    assert_eq!(made["metadata"]["labels"]["stash.appscode.com/target-name"], "web");
    assert!(made["metadata"].get("ownerReferences").is_none(), "{made}");
    assert!(locked(&shop.movers.requests).is_empty(), "no mover is sent");
    assert_eq!(condition(&session, "BackendRepositoryInitialized").0, "", "there is no repository");
    assert_eq!(condition(&session, "RetentionPolicyApplied").0, "True");
    let metrics = shop.world.context.core.metrics.render();
    assert!(metrics.contains("driver=\"VolumeSnapshotter\""), "{metrics}");
}

#[tokio::test]
async fn a_stateful_set_has_a_snapshot_of_each_ordinals_claim_and_of_its_shared_claim() {
    let shop = shop(Driver::TakesAtOnce).await;
    let server = &shop.world.server;
    let claim = |name: &str| {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": format!("pv-{name}")}, "status": {"phase": "Bound"}});
        server.put(&format!("/api/v1/namespaces/shop/persistentvolumeclaims/{name}"), claim);
        put_volume(server, name);
    };
    for name in ["data-sts-0", "data-sts-1", "data-sts-2", "shared"] {
        claim(name);
    }
    let volumes = json!([{"name": "s", "persistentVolumeClaim": {"claimName": "shared"}}, {"name": "cache", "emptyDir": {}}]);
    server.put(
        "/apis/apps/v1/namespaces/shop/statefulsets/sts",
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {
            "replicas": 2, "template": {"spec": {"volumes": volumes}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        }}),
    );
    let target = json!({"ref": {"kind": "StatefulSet", "name": "sts"}});
    put_configuration(&shop, "nightly", &json!({"target": target}));
    let session = run(&shop, 1_700_000_100).await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(names(&shop), ["data-sts-0-1700000100", "data-sts-1-1700000100", "shared-1700000100"]);
    let member = json!({"status": session["status"]["targets"][0]});
    assert!(condition(&member, "VolumesWithoutSnapshot").1.contains("cache (emptyDir)"), "{session}");
}

#[tokio::test]
async fn the_policy_keeps_the_newest_of_each_claim_and_touches_no_others() {
    let shop = shop(Driver::TakesAtOnce).await;
    put_configuration(&shop, "nightly", &json!({}));
    put_configuration(&shop, "other", &json!({"retentionPolicy": {"keepLast": 1}}));
    shop.put_session("other-1700000000", "BackupConfiguration", "other");
    assert_eq!(phase(&shop.run("other-1700000000").await), "Succeeded");
    shop.world.server.put(
        &format!("{SNAPSHOTS}/by-hand"),
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "spec": {"source": {"persistentVolumeClaimName": "web"}},
            "status": {"boundVolumeSnapshotContentName": "c", "readyToUse": true, "creationTime": "2020-01-01T00:00:00Z"}}),
    );
    for second in [1_700_000_100, 1_700_000_200] {
        run(&shop, second).await;
    }
    let session = run(&shop, 1_700_000_300).await;
    assert_eq!(names(&shop), ["by-hand", "web-1700000000", "web-1700000200", "web-1700000300"]);
    let (status, message) = condition(&session, "RetentionPolicyApplied");
    assert_eq!((status.as_str(), message.as_str()), ("True", "deleted VolumeSnapshots web-1700000100"));
}

#[tokio::test]
async fn a_dry_run_names_what_it_would_delete() {
    let shop = shop(Driver::TakesAtOnce).await;
    put_configuration(&shop, "nightly", &json!({"retentionPolicy": {"keepLast": 1, "dryRun": true}}));
    run(&shop, 1_700_000_100).await;
    let session = run(&shop, 1_700_000_200).await;
    assert_eq!(names(&shop).len(), 2);
    let (_, message) = condition(&session, "RetentionPolicyApplied");
    assert_eq!(message, "a dry run would delete VolumeSnapshots web-1700000100");
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_deleted_is_a_warning() {
    let shop = shop(Driver::TakesAtOnce).await;
    put_configuration(&shop, "nightly", &json!({"retentionPolicy": {"keepLast": 1}}));
    run(&shop, 1_700_000_100).await;
    let requests = Requests::new(Verb::Delete, &format!("{SNAPSHOTS}/*"));
    shop.world.server.fail(requests, lifeboat_control::testing::When::Always, 403);
    let session = run(&shop, 1_700_000_200).await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let (status, message) = condition(&session, "RetentionPolicyApplied");
    assert!(status == "False" && message.contains("delete VolumeSnapshot shop/web-1700000100"), "{message}");
}

#[rstest]
#[case::missing_class(json!({"target": {"snapshotClassName": "gone"}}), "\"gone\" (target.snapshotClassName) does not exist")]
#[case::of_another_driver(json!({"target": {"snapshotClassName": "other"}}), "is of driver other.example")]
#[case::no_target(json!({"target": {"ref": {"name": "gone"}}}), "Deployment shop/gone does not exist")]
#[tokio::test]
async fn what_cannot_be_snapshotted_fails_and_is_named(#[case] changes: Value, #[case] says: &str) {
    let shop = shop(Driver::TakesAtOnce).await;
    put_configuration(&shop, "nightly", &changes);
    let session = run(&shop, 1_700_000_100).await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(session["status"]["targets"][0].to_string().replace('\\', "").contains(says), "{session}");
    assert_eq!(names(&shop), Vec::<String>::new());
}

#[tokio::test]
async fn a_cluster_without_snapshots_is_named_with_the_next_step() {
    let shop = shop(Driver::Absent).await;
    put_configuration(&shop, "nightly", &json!({}));
    shop.world.server.without("snapshot.storage.k8s.io");
    let session = run(&shop, 1_700_000_100).await;
    assert_eq!(phase(&session), "Failed", "{session}");
    let member = json!({"status": session["status"]["targets"][0]});
    let (_, message) = condition(&member, "BackupExecutorEnsured");
    assert!(message.contains("does not serve snapshot.storage.k8s.io/v1"), "{message}");
    assert!(message.contains("install the CSI snapshot CRDs"), "{message}");
}

/// A VolumeSnapshot that has the name of one that a session needs.
fn occupied(shop: &Shop, labels: &Value) {
    shop.world.server.put(
        &format!("{SNAPSHOTS}/web-1700000100"),
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"labels": labels},
            "spec": {"source": {"persistentVolumeClaimName": "web"}},
            "status": {"boundVolumeSnapshotContentName": "c", "readyToUse": true, "creationTime": "2020-01-01T00:00:00Z"}}),
    );
}

#[tokio::test]
async fn a_snapshot_of_the_name_is_adopted_only_if_the_session_made_it() {
    let of_session = |uid: &str| json!({"lifeboat.io/backup-session": uid});
    for (labels, expected, text) in [
        (json!({}), "Failed", "VolumeSnapshot web-1700000100 exists and was not made by this session"),
        (of_session("uid-nightly-1700000100"), "Succeeded", ""),
        // Another invoker was due in the same second.
        (of_session("uid-other-1700000100"), "Succeeded", ""),
    ] {
        let shop = shop(Driver::TakesAtOnce).await;
        put_configuration(&shop, "nightly", &json!({}));
        occupied(&shop, &labels);
        let session = run(&shop, 1_700_000_100).await;
        assert_eq!(phase(&session), expected, "{labels}: {session}");
        assert!(error(&session).contains(text), "{session}");
        let of_another = labels == of_session("uid-other-1700000100");
        let name = host(&session, 0)["snapshots"][0]["name"].as_str().unwrap_or_default().to_owned();
        assert_eq!(names(&shop).len(), if of_another { 2 } else { 1 });
        assert_eq!(name.starts_with("web-1700000100-"), of_another, "{name}");
    }
}

#[tokio::test]
async fn a_snapshot_that_a_cancelled_session_does_not_need_is_deleted() {
    for driver in [Driver::Fails, Driver::StillUploads] {
        let shop = shop(driver).await;
        put_configuration(&shop, "nightly", &json!({}));
        shop.put_session("nightly-1700000100", "BackupConfiguration", "nightly");
        let cancel = CancellationToken::new();
        let begun = cancel.clone();
        shop.world.server.on_write(move |_, write| {
            if write.kind == WriteKind::Created && write.path.starts_with(SNAPSHOTS) {
                begun.cancel();
            }
        });
        let (session, record) = shop.parts("nightly-1700000100");
        let ended = Box::pin(advance(&shop.world.context, &session, &record, &cancel)).await;
        assert!(matches!(ended, Ok(Advance::Ended)));
        let session = shop.object("nightly-1700000100");
        assert_eq!(phase(&session), "Failed", "{session}");
        assert!(error(&session).contains("VolumeSnapshot web-1700000100: "), "{session}");
        assert!(error(&session).contains("was cancelled, or its timeOut passed"), "{session}");
        assert!(host(&session, 0)["snapshots"].is_null(), "{session}");
        assert_eq!(names(&shop), Vec::<String>::new(), "{driver:?}");
    }
}

#[tokio::test]
async fn a_snapshot_that_somebody_deletes_meanwhile_fails_its_host() {
    let shop = shop(Driver::LosesOnceSeen).await;
    put_configuration(&shop, "nightly", &json!({}));
    let session = run(&shop, 1_700_000_100).await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(error(&session).contains("was deleted while it was waited for"), "{session}");
}

#[tokio::test]
async fn a_server_that_died_at_any_write_is_followed_by_one_that_takes_no_second_snapshot() {
    let hooks = json!({"preBackup": {"exec": {"command": ["quiesce"]}}, "postBackup": {"exec": {"command": ["release"]}}});
    for number in 1.. {
        let shop = shop(Driver::TakesAtOnce).await;
        put_configuration(&shop, "nightly", &json!({"hooks": hooks}));
        shop.put_session("nightly-1700000100", "BackupConfiguration", "nightly");
        let (written, dies) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (count, wake) = (written.clone(), dies.clone());
        shop.world.server.on_write(move |_, _| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == number {
                wake.notify_one();
            }
        });
        let died = tokio::select! {
            biased;
            () = dies.notified() => true,
            ran = shop.advance("nightly-1700000100") => {
                assert!(matches!(ran, Ok(Advance::Ended)), "after {number} writes");
                false
            }
        };
        if phase(&shop.object("nightly-1700000100")) != "Succeeded" {
            shop.run("nightly-1700000100").await;
        }
        let session = shop.object("nightly-1700000100");
        assert_eq!(phase(&session), "Succeeded", "after {number} writes: {session}");
        assert_eq!(names(&shop), ["web-1700000100"], "after {number} writes");
        let created = shop.world.server.created();
        let made = created.iter().filter(|path| path.starts_with(SNAPSHOTS)).count();
        assert_eq!(made, 1, "after {number} writes: {created:?}");
        assert_eq!(shop.commands().last().map(String::as_str), Some("web-1: release"));
        if !died {
            assert!(number > 5, "a session writes more often");
            return;
        }
    }
}

/// Its pod was released as soon as it was taken, so another one would be of an application that runs.
#[tokio::test]
async fn a_snapshot_that_is_lost_is_not_taken_again_wherever_the_server_died() {
    let hooks = json!({"preBackup": {"exec": {"command": ["quiesce"]}}, "postBackup": {"exec": {"command": ["release"]}}});
    for number in 1.. {
        let shop = shop(Driver::LosesOnceSeen).await;
        put_configuration(&shop, "nightly", &json!({"hooks": hooks}));
        shop.put_session("nightly-1700000100", "BackupConfiguration", "nightly");
        let (written, dies) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let wake = dies.clone();
        shop.world.server.on_write(move |_, _| {
            if written.fetch_add(1, Ordering::Relaxed) + 1 == number {
                wake.notify_one();
            }
        });
        let died = tokio::select! {
            biased;
            () = dies.notified() => true,
            ran = shop.advance("nightly-1700000100") => {
                assert!(matches!(ran, Ok(Advance::Ended)), "after {number} writes");
                false
            }
        };
        if phase(&shop.object("nightly-1700000100")) != "Failed" {
            shop.run("nightly-1700000100").await;
        }
        let session = shop.object("nightly-1700000100");
        assert_eq!(phase(&session), "Failed", "after {number} writes: {session}");
        let created = shop.world.server.created();
        let made = created.iter().filter(|path| path.starts_with(SNAPSHOTS)).count();
        assert_eq!(made, 1, "after {number} writes: {created:?}");
        if !died {
            return;
        }
    }
}
