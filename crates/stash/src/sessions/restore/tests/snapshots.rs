//! Driver VolumeSnapshotter: claims made from VolumeSnapshots, on an API server whose provisioner the tests play.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_control::testing::{Requests, Verb, When, WriteKind};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, SESSIONS};
use crate::testing::condition;

const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots";
const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";

/// What the provisioner of a test does with a new claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provisioner {
    FillsAtOnce,
    /// It binds the claim to a volume that was there before.
    BindsAnother,
    DoesNothing,
}

/// A cluster with StorageClass `fast`, which has this binding mode.
async fn cluster(provisioner: Provisioner, mode: &str) -> Cluster {
    let cluster = Cluster::new().await;
    let server = &cluster.world.server;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": mode});
    server.put("/apis/storage.k8s.io/v1/storageclasses/fast", class);
    server.on_write(move |server, write| {
        let is_new = write.kind == WriteKind::Created && write.path.starts_with(CLAIMS);
        if !is_new || provisioner == Provisioner::DoesNothing {
            return;
        }
        let name = write.path.rsplit('/').next().unwrap();
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume"});
        if provisioner == Provisioner::BindsAnother {
            volume["metadata"] = json!({"creationTimestamp": "2020-01-01T00:00:00Z"});
        }
        server.put(&format!("/api/v1/persistentvolumes/pv-{name}"), volume);
        let bound = json!({"spec": {"volumeName": format!("pv-{name}")}, "status": {"phase": "Bound"}});
        server.change(&write.path, &bound);
    });
    cluster
}

/// A VolumeSnapshot of a claim that a session took.
fn put_snapshot(cluster: &Cluster, name: &str, claim: &str, day: u32) {
    cluster.world.server.put(
        &format!("{SNAPSHOTS}/{name}"),
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"labels": {"lifeboat.io/backup-session": "u"}},
            "spec": {"source": {"persistentVolumeClaimName": claim}},
            "status": {"boundVolumeSnapshotContentName": "c", "readyToUse": true, "restoreSize": "1Gi",
                "creationTime": format!("2026-01-{day:02}T00:00:00Z")}}),
    );
}

/// A restore into claims `back-0` and `back-1`, of which each gets the data of a claim `data-db-N`.
fn put_restore(cluster: &Cluster, changes: &Value) {
    let template = json!({
        "metadata": {"name": "back-${POD_ORDINAL}"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "512Mi"}}},
    });
    let mut spec = json!({
        "driver": "VolumeSnapshotter",
        "target": {"replicas": 2, "volumeClaimTemplates": [template], "rules": [{"sourceHost": "data-db-${POD_ORDINAL}"}]},
    });
    lifeboat_cluster::testing::merge(&mut spec, changes);
    let object = json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession", "spec": spec});
    cluster.world.server.put(&format!("{SESSIONS}/back"), object);
}

async fn stored(provisioner: Provisioner, mode: &str) -> Cluster {
    let cluster = cluster(provisioner, mode).await;
    put_snapshot(&cluster, "data-db-0-old", "data-db-0", 1);
    put_snapshot(&cluster, "data-db-0-new", "data-db-0", 2);
    put_snapshot(&cluster, "data-db-1-new", "data-db-1", 2);
    cluster
}

fn claims(cluster: &Cluster) -> Vec<String> {
    let paths = cluster.world.server.paths(&format!("{CLAIMS}/"));
    paths.iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
}

fn claim(cluster: &Cluster, name: &str) -> Value {
    cluster.world.server.get(&format!("{CLAIMS}/{name}")).unwrap_or_default()
}

#[tokio::test]
async fn each_claim_is_made_from_the_newest_snapshot_of_its_source() {
    let cluster = stored(Provisioner::FillsAtOnce, "Immediate").await;
    put_restore(&cluster, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(back["status"]["totalHosts"], 2);
    let host = &back["status"]["stats"][0];
    assert_eq!(host["hostname"], "back-0");
    assert_eq!(host["paths"], json!([{"snapshot": "data-db-0-new", "path": "/", "restored": true}]));
    let made = claim(&cluster, "back-1");
    assert_eq!(
        made["spec"]["dataSource"],
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "data-db-1-new"})
    );
    assert_eq!(
        made["spec"]["resources"]["requests"]["storage"], "1Gi",
        "the snapshot needs more than the template says"
    );
    assert_eq!(made["metadata"]["labels"]["lifeboat.io/restore-session"], "uid-back");
    assert!(made["metadata"].get("ownerReferences").is_none(), "a deleted restore deletes no data");
    assert!(cluster.works().is_empty(), "no mover is sent");
    assert_eq!(condition(&back, "RestoreCompleted").0, "True");
}

#[tokio::test]
async fn a_claim_whose_class_waits_for_a_pod_ends_the_restore_as_unknown() {
    let cluster = stored(Provisioner::DoesNothing, "WaitForFirstConsumer").await;
    put_restore(&cluster, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Unknown", "{back}");
    let host = &back["status"]["stats"][1];
    assert_eq!(host["phase"], "Unknown");
    let message = host["message"].as_str().unwrap_or_default();
    assert!(message.contains("claim back-1 is made from VolumeSnapshot data-db-1-new"), "{message}");
    let (status, message) = condition(&back, "ClaimsAwaitPods");
    assert!(status == "True" && message.contains("claims back-0, back-1"), "{message}");
    assert_eq!(claims(&cluster), ["back-0", "back-1"], "a pod that comes finds them");
    // The next server does not work on it again.
    let writes = cluster.world.server.writes().len();
    assert_eq!(cluster.ended("back").await["status"], back["status"]);
    assert_eq!(cluster.world.server.writes().len(), writes);
}

#[tokio::test]
async fn a_claim_that_exists_is_named_and_none_is_made() {
    let cluster = stored(Provisioner::FillsAtOnce, "Immediate").await;
    cluster.claim("back-1");
    put_restore(&cluster, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("PersistentVolumeClaim back-1 exists"), "{message}");
    assert_eq!(claims(&cluster), ["back-1"]);
}

#[rstest]
#[case::no_snapshot(json!([{"sourceHost": "web"}]), "no session has taken a VolumeSnapshot of claim web")]
#[case::missing(json!([{"snapshots": ["gone"]}]), "VolumeSnapshot gone does not exist")]
#[tokio::test]
async fn what_was_never_stored_fails_and_lists_what_exists(#[case] rules: Value, #[case] says: &str) {
    let cluster = stored(Provisioner::FillsAtOnce, "Immediate").await;
    put_restore(&cluster, &json!({"target": {"rules": rules}}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains(says) && message.contains("data-db-0-old (of claim data-db-0)"), "{message}");
    assert_eq!(claims(&cluster), Vec::<String>::new());
}

#[tokio::test]
async fn a_snapshot_that_is_named_and_not_ready_is_waited_for() {
    let cluster = stored(Provisioner::FillsAtOnce, "Immediate").await;
    let path = format!("{SNAPSHOTS}/data-db-0-old");
    cluster.world.server.change(&path, &json!({"status": {"readyToUse": false}}));
    put_restore(&cluster, &json!({"target": {"rules": [{"snapshots": ["data-db-0-old"]}]}}));
    cluster.world.server.on_write(move |server, write| {
        let is_waiting = |object: &Value| condition(object, "RestoreJobCreated").1.contains("data-db-0-old");
        if write.path.starts_with(SESSIONS) && server.get(&write.path).is_some_and(|back| is_waiting(&back)) {
            server.change(&path, &json!({"status": {"readyToUse": true}}));
        }
    });
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(claim(&cluster, "back-1")["spec"]["dataSource"]["name"], "data-db-0-old");
}

#[tokio::test]
async fn a_restore_in_place_is_invalid_and_says_what_to_do() {
    let cluster = stored(Provisioner::FillsAtOnce, "Immediate").await;
    let target = json!({"volumeClaimTemplates": [], "ref": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}});
    put_restore(&cluster, &json!({"target": target}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Invalid", "{back}");
    let (_, message) = condition(&back, "ValidationPassed");
    assert!(message.contains("restores into new claims only"), "{message}");
}

#[tokio::test]
async fn a_claim_that_the_api_server_refuses_fails_its_host_and_no_other() {
    let cluster = stored(Provisioner::FillsAtOnce, "Immediate").await;
    put_restore(&cluster, &json!({}));
    cluster.world.server.fail(Requests::new(Verb::Create, CLAIMS), When::Nth(1), 422);
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert_eq!(claims(&cluster).len(), 1);
    let stats = back["status"]["stats"].as_array().unwrap();
    let phases: Vec<&str> = stats.iter().map(|host| host["phase"].as_str().unwrap()).collect();
    assert!(phases.contains(&"Failed") && phases.contains(&"Succeeded"), "{back}");
}

#[tokio::test]
async fn a_claim_that_was_bound_to_an_older_volume_is_not_called_restored() {
    let cluster = stored(Provisioner::BindsAnother, "Immediate").await;
    put_restore(&cluster, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let error = back["status"]["stats"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("bound to volume pv-back-0, which is older"), "{error}");
}

#[tokio::test]
async fn claims_without_data_of_a_cancelled_restore_are_deleted() {
    let cluster = stored(Provisioner::DoesNothing, "Immediate").await;
    put_restore(&cluster, &json!({}));
    let (cancel, made) = (CancellationToken::new(), AtomicUsize::new(0));
    let begun = cancel.clone();
    cluster.world.server.on_write(move |_, write| {
        let is_new = write.kind == WriteKind::Created && write.path.starts_with(CLAIMS);
        if is_new && made.fetch_add(1, Ordering::Relaxed) == 1 {
            begun.cancel();
        }
    });
    cluster.advance(&format!("{SESSIONS}/back"), &cancel).await.unwrap();
    let back = cluster.world.server.get(&format!("{SESSIONS}/back")).unwrap();
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert_eq!(claims(&cluster), Vec::<String>::new(), "another restore can make them");
}

#[tokio::test]
async fn a_server_that_died_at_any_write_is_followed_by_one_with_the_same_snapshots() {
    for number in 1.. {
        let cluster = stored(Provisioner::FillsAtOnce, "Immediate").await;
        put_restore(&cluster, &json!({}));
        let (written, dies) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (count, wake) = (written.clone(), dies.clone());
        cluster.world.server.on_write(move |_, _| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == number {
                wake.notify_one();
            }
        });
        let died = tokio::select! {
            biased;
            () = dies.notified() => true,
            _ = cluster.ended("back") => false,
        };
        let begun = cluster.world.server.get(&format!("{SESSIONS}/back")).unwrap();
        let chosen = begun["status"]["stats"].is_array();
        // A newer one that comes meanwhile is not taken once the choice is on record.
        put_snapshot(&cluster, "data-db-0-newer", "data-db-0", 3);
        let path = format!("{SESSIONS}/back");
        if died {
            cluster.advance(&path, &CancellationToken::new()).await.unwrap();
        }
        let back = cluster.world.server.get(&path).unwrap();
        assert_eq!(back["status"]["phase"], "Succeeded", "after {number} writes: {back}");
        let from = claim(&cluster, "back-0")["spec"]["dataSource"]["name"].clone();
        let expected = if chosen { "data-db-0-new" } else { "data-db-0-newer" };
        assert_eq!(from, expected, "after {number} writes");
        if !died {
            assert!(number > 5, "a restore writes more often");
            return;
        }
    }
}
