//! Which snapshots are of a moment at which hooks keep all pods of their claims quiet.

use std::sync::Mutex;

use super::*;

const POD: &str = "/api/v1/namespaces/shop/pods";

fn hooks() -> Value {
    json!({"metadata": {"annotations":
        {"pre.hook.backup.velero.io/command": "pre", "post.hook.backup.velero.io/command": "post"}}})
}

/// A server where `db-1` and `db-2` mount the claim, both with hooks; and what had run when its snapshot was taken.
async fn shared(more: impl Fn(&World) + Send + 'static) -> (Server, Arc<Mutex<Vec<String>>>) {
    let server = server(Driver::Ready, &["fast"]).await;
    let world = &server.world;
    let volumes = world.get(&format!("{POD}/db-1")).unwrap()["spec"]["volumes"].clone();
    let second = json!({"status": {"phase": "Running"},
        "spec": {"containers": [{"name": "main"}], "volumes": volumes}});
    world.add("pods", "shop", "db-2", second);
    for pod in ["db-1", "db-2"] {
        world.change(&format!("{POD}/{pod}"), &hooks());
    }
    let ran = Arc::new(Mutex::new(Vec::new()));
    let seen = ran.clone();
    world.on_create(move |world, path| {
        if path.starts_with(SNAPSHOTS) {
            *seen.lock().unwrap() = world.ran();
            more(world);
            take(world, path, Driver::Ready);
        }
    });
    (server, ran)
}

#[rstest]
#[case::no_order(json!({}))]
#[case::one_is_listed(json!({"orderedResources": {"pods": "shop/db-1"}}))]
#[case::both_are_listed(json!({"orderedResources": {"pods": "shop/db-2,shop/db-1"}}))]
#[case::the_claim_is_listed(json!({"orderedResources": {"persistentvolumeclaims": "shop/data"}}))]
#[tokio::test]
async fn a_shared_claim_is_snapshotted_when_all_its_pods_are_quiet(#[case] more: Value) {
    let (server, ran) = shared(|_| {}).await;
    let mut spec = spec();
    crate::testing::merge(&mut spec, &more);
    server.add("b", spec, &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    let ran = ran.lock().unwrap().clone();
    for pod in ["db-1", "db-2"] {
        assert!(ran.contains(&format!("pre {pod}")) && !ran.contains(&format!("post {pod}")), "{ran:?}");
    }
    assert_eq!(volumes(&server).await[0]["consistency"], "Quiesced");
}

#[rstest]
#[case::by_a_label(json!({"labelSelector": {"matchExpressions": [{"key": "out", "operator": "DoesNotExist"}]}}), None)]
#[case::started_meanwhile(json!({}), Some("db-3"))]
#[tokio::test]
async fn a_pod_that_the_backup_does_not_have_is_not_quiet(
    #[case] more: Value,
    #[case] started: Option<&'static str>,
) {
    let (server, _) = shared(move |world| {
        let pod = world.get(&format!("{POD}/db-1")).unwrap();
        if let Some(name) = started {
            let spec = json!({"spec": pod["spec"], "status": {"phase": "Running"}});
            world.add("pods", "shop", name, spec);
        }
    })
    .await;
    let out = json!({"metadata": {"labels": {"out": "yes"}}});
    server.world.change(&format!("{POD}/db-2"), &out);
    let mut spec = spec();
    crate::testing::merge(&mut spec, &more);
    server.add("b", spec, &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(volumes(&server).await[0]["consistency"], "Snapshot");
}

#[tokio::test]
async fn a_snapshot_of_an_interrupted_attempt_is_of_no_known_moment() {
    let (server, _) = shared(|_| {}).await;
    let object = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": snapshot(), "namespace": "shop", "labels": {OF_BACKUP: "uid-b", SERVER: "lifeboat", "velero.io/backup-name": "b"}},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "fast"}});
    let path = format!("{SNAPSHOTS}/{}", snapshot());
    server.world.put(&path, object);
    take(&server.world, &path, Driver::Ready);
    let begun =
        json!({"status": {"phase": "InProgress"}, "metadata": {"annotations": {"lifeboat.io/attempt": "1"}}});
    server.add("b", spec(), &begun);
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(volumes(&server).await[0]["consistency"], "Snapshot");
}

/// The claims whose snapshots were taken, in their order, with claims `a`, `b` and `c` of a CSI driver.
async fn snapshots_in_order(order: Value, pods: &[(&str, &[&str])]) -> Vec<String> {
    let server = server(Driver::Ready, &["fast"]).await;
    for (pod, claims) in pods {
        server.world.pod("shop", pod, claims, true);
    }
    for name in ["a", "b", "c"] {
        let volume = json!({"spec": {"csi": {"driver": "csi.example.com", "volumeHandle": name}}});
        server.world.change(&format!("/api/v1/persistentvolumes/pv-{name}"), &volume);
        let claim =
            json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
        server.world.change(&format!("/api/v1/namespaces/shop/persistentvolumeclaims/{name}"), &claim);
    }
    server.add("b", json!({"includedNamespaces": ["shop"], "orderedResources": order}), &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    let created = server.world.created();
    let named = |path: &String| {
        let name = path.strip_prefix(SNAPSHOTS)?.trim_start_matches('/').to_owned();
        let is =
            |claim: &&str| name == snapshot_name(claim, &format!("uid-{claim}"), &BackupUid::new("uid-b"));
        Some(["a", "b", "c", "data"].into_iter().find(is)?.to_owned())
    };
    created.iter().filter_map(named).collect()
}

#[rstest]
#[case::claims(json!({"persistentvolumeclaims": "shop/c,shop/a,shop/b"}))]
#[case::volumes(json!({"persistentvolumes": "pv-c,pv-a,pv-b"}))]
#[case::pods(json!({"pods": "shop/pod-c,shop/pod-a,shop/pod-b"}))]
#[tokio::test]
async fn snapshots_are_taken_in_the_order_of_the_list(#[case] order: Value) {
    let pods: [(&str, &[&str]); 3] = [("pod-a", &["a"]), ("pod-b", &["b"]), ("pod-c", &["c"])];
    assert_eq!(snapshots_in_order(order, &pods).await, ["c", "a", "b", "data"]);
}

#[rstest]
#[case::claims(json!({"persistentvolumeclaims": "shop/c,shop/a,shop/b"}))]
#[case::volumes(json!({"persistentvolumes": "pv-c,pv-a,pv-b"}))]
#[tokio::test]
async fn snapshots_of_the_claims_of_one_pod_are_taken_in_the_order_of_the_list(#[case] order: Value) {
    assert_eq!(snapshots_in_order(order, &[("pod", &["a", "b", "c"])]).await, ["c", "a", "b", "data"]);
}
