//! Driver Restic with `snapshotClassName`: movers read volumes made from CSI snapshots, on an API server whose snapshot controller the
//! tests play.

use std::collections::BTreeSet;

use lifeboat_control::testing::{ApiServer, WriteKind};
use lifeboat_plan::transfer::exposed::MADE_FOR;

use super::super::snapshots::sweep;
use super::*;

const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots/";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/";

/// A Deployment `two` with claims `a` and `b` of driver `csi.example`, and its class `fast`.
fn put_two_claims(shop: &Shop) {
    let server = &shop.world.server;
    shop.put_deployment("two");
    for claim in ["a", "b"] {
        server.put(
            &format!("/api/v1/namespaces/shop/persistentvolumeclaims/{claim}"),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": format!("pv-{claim}")}, "status": {"phase": "Bound"}}),
        );
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"csi": {"driver": "csi.example"}}});
        server.put(&format!("/api/v1/persistentvolumes/pv-{claim}"), volume);
    }
    let of = |claim: &str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let mount = |claim: &str| json!({"name": claim, "mountPath": format!("/{claim}")});
    let spec = json!({"volumes": [of("a"), of("b")], "containers": [{"name": "main", "volumeMounts": [mount("a"), mount("b")]}]});
    server.change("/api/v1/namespaces/shop/pods/two-1", &json!({"spec": spec}));
    let class = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": "csi.example"});
    server.put("/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses/fast", class);
}

/// The VolumeSnapshots of claims.
fn taken(server: &ApiServer) -> Vec<String> {
    let of_claim = |path: &String| {
        server.get(path).is_some_and(|one| one["spec"]["source"]["persistentVolumeClaimName"].is_string())
    };
    server.paths(SNAPSHOTS).into_iter().filter(of_claim).collect()
}

/// A driver that finishes no snapshot before both claims have one.
fn finish_both_together(server: &ApiServer) {
    server.on_write(|server, write| {
        if write.kind != WriteKind::Created || !write.path.starts_with(SNAPSHOTS) || taken(server).len() < 2 {
            return;
        }
        for path in taken(server) {
            let name = path.rsplit('/').next().unwrap().to_owned();
            server.put(
                &format!("{CONTENTS}of-{name}"),
                json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
                    "spec": {"driver": "csi.example", "deletionPolicy": "Delete",
                        "volumeSnapshotRef": {"namespace": "shop", "name": name}},
                    "status": {"snapshotHandle": format!("handle-{name}"), "creationTime": 5, "readyToUse": true}}),
            );
            server.change(&path, &json!({"status": {"boundVolumeSnapshotContentName": format!("of-{name}")}}));
        }
    });
}

#[tokio::test]
async fn all_claims_of_a_host_are_snapshotted_before_one_is_read_and_nothing_is_left() {
    let shop = Shop::new().await;
    put_two_claims(&shop);
    finish_both_together(&shop.world.server);
    let mounts = json!([{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]);
    let target =
        json!({"snapshotClassName": "fast", "volumeMounts": mounts, "paths": null, "ref": {"name": "two"}});
    // Snapshots that were taken one after the other would not be finished before the timeOut.
    shop.put_configuration("nightly", &json!({"timeOut": "20s", "target": target}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(host(&session, 0)["consistency"], "Snapshot");
    assert_eq!(host(&session, 0)["snapshots"].as_array().map(Vec::len), Some(2), "{session}");
    assert_eq!(locked(&shop.movers.requests).len(), 1, "one mover reads both");
    assert_eq!(shop.world.server.paths(SNAPSHOTS), Vec::<String>::new());
}

#[tokio::test]
async fn snapshots_of_sessions_that_have_not_ended_are_not_swept() {
    let shop = Shop::new().await;
    let server = &shop.world.server;
    for session in ["open", "over"] {
        let labels =
            json!({MADE_FOR: format!("{session}.0.x.v0"), "lifeboat.io/server-namespace": "lifeboat"});
        server.put(
            &format!("{SNAPSHOTS}lifeboat-of-{session}.0.x.v0"),
            json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"labels": labels}}),
        );
    }
    // No reconcile has reached the open session yet: this server has just begun to lead.
    let session = |name: &str, phase: &str| -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupSession",
            "metadata": {"name": name, "uid": name}, "spec": {"invoker": {"kind": "BackupConfiguration", "name": "n"}},
            "status": {"phase": phase}}))
        .unwrap()
    };
    let known = [session("open", "Running"), session("over", "Succeeded")];
    let open: BTreeSet<String> =
        known.iter().filter(|one| is_open(one)).filter_map(ResourceExt::uid).collect();
    sweep(&shop.world.context.core, |uid| open.contains(uid)).await.unwrap();
    assert_eq!(server.paths(SNAPSHOTS), [format!("{SNAPSHOTS}lifeboat-of-open.0.x.v0")]);
}
