//! Backups of claims in a volume group, with a driver of a few lines that takes them together.

use lifeboat_api::common::NamespaceName;
use lifeboat_archive::documents::{Results, decode, decode_list};
use lifeboat_plan::transfer::snapshots::SERVER;
use lifeboat_plan::velero::csi::{OF_BACKUP, OF_GROUP, OfBackup, VolumeGroup, snapshot_name};

use super::*;

const KEY: &str = "velero.io/volume-group";
const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
const GROUPS: &str = "/apis/groupsnapshot.storage.k8s.io/v1beta1/namespaces/shop/volumegroupsnapshots";
const GROUP_CONTENTS: &str = "/apis/groupsnapshot.storage.k8s.io/v1beta1/volumegroupsnapshotcontents";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Driver {
    Takes,
    Silent,
}

/// What the controller and the driver do with a group.
fn take_group(world: &World, path: &str) {
    let group = path.rsplit('/').next().unwrap();
    world.put(
        &format!("{GROUP_CONTENTS}/of-{group}"),
        json!({"metadata": {"name": format!("of-{group}")}, "spec": {"deletionPolicy": "Delete"}}),
    );
    world.change(path, &json!({"status": {"boundVolumeGroupSnapshotContentName": format!("of-{group}")}}));
    for claim in ["data", "logs"] {
        let snapshot = json!({"metadata": {"name": format!("member-{claim}"), "namespace": "shop"},
            "spec": {"source": {"persistentVolumeClaimName": claim}},
            "status": {"volumeGroupSnapshotName": group, "boundVolumeSnapshotContentName": format!("member-{claim}")}});
        world.put(&format!("{SNAPSHOTS}/member-{claim}"), snapshot);
        let content = json!({"metadata": {"name": format!("member-{claim}")},
            "spec": {"driver": "csi.example.com", "deletionPolicy": "Delete", "source": {"volumeHandle": claim},
                "volumeSnapshotRef": {"namespace": "shop", "name": format!("member-{claim}"), "uid": "u"}},
            "status": {"snapshotHandle": format!("handle-{claim}"), "creationTime": 1, "readyToUse": true,
                "restoreSize": 1_073_741_824_i64, "volumeGroupSnapshotHandle": "group-1"}});
        world.put(&format!("{CONTENTS}/member-{claim}"), content);
    }
}

/// What the controller does with a VolumeSnapshot that names its content, or its claim.
fn bind(world: &World, path: &str) {
    let (object, name) = (world.get(path).unwrap(), path.rsplit('/').next().unwrap());
    if object["spec"]["source"]["persistentVolumeClaimName"].is_string() {
        let content = json!({"metadata": {"name": name}, "spec": {"driver": "csi.example.com", "deletionPolicy": "Delete",
            "volumeSnapshotRef": {"namespace": "shop", "name": name}}});
        world.put(&format!("{CONTENTS}/{name}"), content);
    }
    let content = world.get(&format!("{CONTENTS}/{name}")).unwrap();
    let handle = content["spec"]["source"]["snapshotHandle"].as_str().unwrap_or(name);
    world.change(
        &format!("{CONTENTS}/{name}"),
        &json!({"status": {"snapshotHandle": handle, "creationTime": 1, "readyToUse": true}}),
    );
    world.change(path, &json!({"status": {"boundVolumeSnapshotContentName": name}}));
}

async fn server(driver: Driver, drivers: [&str; 2], has_groups: bool) -> Server {
    let server = Server::new().await;
    let world = &server.world;
    world.pod("shop", "db-1", &["data", "logs"], false);
    for (claim, driver) in ["data", "logs"].into_iter().zip(drivers) {
        let labelled = json!({"metadata": {"labels": {KEY: "db"}},
            "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Mi"}}}});
        world.change(&format!("{CLAIMS}/{claim}"), &labelled);
        let volume = json!({"spec": {"csi": {"driver": driver, "volumeHandle": claim}}});
        world.change(&format!("/api/v1/persistentvolumes/pv-{claim}"), &volume);
        let class = json!({"driver": driver, "deletionPolicy": "Delete"});
        world.add("volumesnapshotclasses", "", &format!("of-{driver}"), class);
    }
    if has_groups {
        world.serve_group_snapshots();
        let class = json!({"metadata": {"name": "together"}, "driver": "csi.example.com", "deletionPolicy": "Delete"});
        world.put("/apis/groupsnapshot.storage.k8s.io/v1beta1/volumegroupsnapshotclasses/together", class);
    }
    world.on_create(move |world, path| {
        if path.starts_with(GROUPS) && driver == Driver::Takes {
            take_group(world, path);
        }
        if path.starts_with(SNAPSHOTS) {
            bind(world, path);
        }
    });
    server
}

async fn taking() -> Server {
    server(Driver::Takes, ["csi.example.com"; 2], true).await
}

fn spec() -> Value {
    json!({"includedNamespaces": ["shop"], "csiSnapshotTimeout": "1ms"})
}

fn own(claim: &str) -> String {
    snapshot_name(claim, &format!("uid-{claim}"), &BackupUid::new("uid-b"))
}

fn group() -> VolumeGroup {
    let claim = json!({"metadata": {"namespace": "shop", "labels": {KEY: "db"}}});
    let backup = OfBackup {
        name: "b".into(),
        uid: BackupUid::new("uid-b"),
        namespace: NamespaceName::new("lifeboat"),
        ..OfBackup::default()
    };
    VolumeGroup::of(&claim, KEY, &backup).unwrap()
}

fn created(server: &Server, prefix: &str) -> usize {
    server.world.created().iter().filter(|path| path.starts_with(prefix)).count()
}

/// Everything of snapshots that is in the cluster.
fn left(server: &Server) -> Vec<String> {
    let parts = [SNAPSHOTS, CONTENTS, GROUPS, GROUP_CONTENTS];
    parts.iter().flat_map(|part| server.world.paths(&format!("{part}/"))).collect()
}

async fn volumes(server: &Server) -> Vec<Value> {
    let bytes = ObjectStore::get(&server.store(), "backups/b/b-volumeinfo.json.gz", 1 << 20).await.unwrap();
    decode_list(&bytes).unwrap()
}

async fn results(server: &Server) -> Results {
    let bytes = ObjectStore::get(&server.store(), "backups/b/b-results.gz", 1 << 20).await.unwrap();
    decode(&bytes).unwrap()
}

fn texts<'a>(of: impl Iterator<Item = (Option<&'a str>, &'a str)>) -> String {
    of.map(|(_, text)| text.to_owned()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_claims_of_a_group_are_snapshotted_at_one_moment() {
    let server = taking().await;
    let member = server.world.watch_changes(&format!("{CONTENTS}/member-data"));
    let of_group = server.world.watch_changes(&format!("{GROUP_CONTENTS}/of-{}", group().name()));
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "Completed", "{:?}", results(&server).await.errors);
    assert_eq!((created(&server, GROUPS), left(&server)), (1, Vec::new()));
    let infos = volumes(&server).await;
    for (info, claim) in infos.iter().zip(["data", "logs"]) {
        let csi = &info["csiSnapshotInfo"];
        assert_eq!(info["result"], "succeeded", "{info}");
        assert_eq!(csi["snapshotHandle"], format!("handle-{claim}"));
        assert_eq!(csi["volumeGroupSnapshotHandle"], "group-1");
        assert_eq!(csi["size"], 1_073_741_824_i64, "also where the driver does not tell it again");
        assert_eq!(csi["vscName"], *own(claim), "it goes on as one of the backup's own");
    }
    // Whichever object is deleted, the driver keeps the snapshots.
    for seen in [member, of_group] {
        assert!(seen.lock().unwrap().iter().all(|change| change["spec"]["deletionPolicy"] == "Retain"));
    }
    assert_eq!(server.get("b")["status"]["csiVolumeSnapshotsCompleted"], 2);
}

#[rstest]
#[case::no_order(None)]
#[case::one_pod_is_listed(Some("shop/db-1"))]
#[case::both_pods_are_listed(Some("shop/db-2,shop/db-1"))]
#[tokio::test]
async fn a_group_is_snapshotted_when_the_pods_of_all_its_claims_are_quiet(#[case] listed: Option<&str>) {
    let server = taking().await;
    let world = &server.world;
    for (pod, claim) in [("db-1", "data"), ("db-2", "logs")] {
        let volumes = json!([{"name": claim, "persistentVolumeClaim": {"claimName": claim}}]);
        let hooks =
            json!({"pre.hook.backup.velero.io/command": "pre", "post.hook.backup.velero.io/command": "post"});
        let spec = json!({"containers": [{"name": "main"}], "volumes": volumes});
        let object =
            json!({"metadata": {"annotations": hooks}, "status": {"phase": "Running"}, "spec": spec});
        world.remove(&format!("/api/v1/namespaces/shop/pods/{pod}"));
        world.add("pods", "shop", pod, object);
    }
    let ran = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = ran.clone();
    world.on_create(move |world, path| {
        if path.starts_with(GROUPS) {
            *seen.lock().unwrap() = world.ran();
            take_group(world, path);
        }
        if path.starts_with(SNAPSHOTS) {
            bind(world, path);
        }
    });
    let mut spec = spec();
    if let Some(pods) = listed {
        spec["orderedResources"] = json!({"pods": pods});
    }
    server.add("b", spec, &json!({}));
    assert_eq!(server.settle("b").await, "Completed", "{:?}", results(&server).await.errors);
    let ran = ran.lock().unwrap().clone();
    for pod in ["db-1", "db-2"] {
        assert!(ran.contains(&format!("pre {pod}")) && !ran.contains(&format!("post {pod}")), "{ran:?}");
    }
    assert!(volumes(&server).await.iter().all(|info| info["consistency"] == "Quiesced"));
}

#[tokio::test]
async fn without_group_snapshots_claims_are_snapshotted_one_by_one_with_a_warning() {
    let server = server(Driver::Takes, ["csi.example.com"; 2], false).await;
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!((created(&server, SNAPSHOTS), created(&server, GROUPS)), (2, 0));
    let said = results(&server).await;
    let said = texts(said.warnings.all());
    assert!(said.contains("volume group db") && said.contains("not at one moment"), "{said}");
}

#[rstest]
#[case::never_taken(Driver::Silent, ["csi.example.com"; 2], "claims data, logs have no snapshot yet", 1)]
#[case::two_drivers(Driver::Takes, ["csi.example.com", "other.example.com"],
    "csi.example.com has data; other.example.com has logs", 0)]
#[case::no_class(Driver::Takes, ["other.example.com"; 2], "no VolumeGroupSnapshotClass is for driver other.example.com", 0)]
#[tokio::test]
async fn a_group_that_cannot_be_taken_is_an_error_of_each_claim_and_leaves_nothing(
    #[case] driver: Driver,
    #[case] drivers: [&str; 2],
    #[case] message: &str,
    #[case] asked: usize,
) {
    let server = server(driver, drivers, true).await;
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    let said = results(&server).await;
    let said = texts(said.errors.all());
    for part in ["claim shop/data", "claim shop/logs", "volume group db", "claims data, logs", message] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!((created(&server, GROUPS), left(&server)), (asked, Vec::new()), "it is asked for once");
    assert!(volumes(&server).await.iter().all(|info| info["result"] == "failed"));
}

/// A cluster in which a server died after the driver had taken the group.
async fn died_after_the_group() -> Server {
    let server = taking().await;
    let path = format!("{GROUPS}/{}", group().name());
    server.world.put(&path, group().request("v1beta1", "together"));
    take_group(&server.world, &path);
    server
}

#[tokio::test]
async fn a_group_of_an_interrupted_attempt_is_gone_on_with() {
    let server = died_after_the_group().await;
    let begun =
        json!({"status": {"phase": "InProgress"}, "metadata": {"annotations": {"lifeboat.io/attempt": "1"}}});
    server.add("b", spec(), &begun);
    assert_eq!(server.settle("b").await, "Completed", "{:?}", results(&server).await.errors);
    assert_eq!((created(&server, GROUPS), left(&server)), (0, Vec::new()));
    assert_eq!(volumes(&server).await[1]["csiSnapshotInfo"]["snapshotHandle"], "handle-logs");
}

#[tokio::test]
async fn a_group_of_a_backup_that_failed_goes_with_its_snapshots() {
    let server = died_after_the_group().await;
    let seen = server.world.watch_changes(&format!("{CONTENTS}/member-data"));
    server.add("b", spec(), &json!({"status": {"phase": "Failed"}}));
    left_behind::clear_snapshots(&server.context, &server.state).await;
    assert_eq!(left(&server), Vec::<String>::new());
    assert_eq!(seen.lock().unwrap().last().unwrap()["spec"]["deletionPolicy"], "Delete");
}

#[tokio::test]
async fn a_group_whose_members_have_their_own_snapshots_goes_without_them() {
    let server = died_after_the_group().await;
    // The server died before the group was deleted; one member is left from before, and is deleted with its own
    // deletion policy.
    let own = json!({"metadata": {"name": own("data"), "labels": {OF_BACKUP: "uid-b", SERVER: "lifeboat"}},
        "spec": {"source": {"snapshotHandle": "handle-data"}, "volumeSnapshotRef": {"namespace": "shop", "name": own("data")}}});
    server.world.put(&format!("{CONTENTS}/{}", own["metadata"]["name"].as_str().unwrap()), own);
    let going = json!({"metadata": {"name": "old", "labels": {OF_GROUP: "uid-b", SERVER: "lifeboat"}, "deletionTimestamp": "2026-11-16T01:00:00Z"},
        "spec": {"deletionPolicy": "Retain"}, "status": {"snapshotHandle": "handle-old"}});
    server.world.put(&format!("{CONTENTS}/old"), going);
    let kept = server.world.watch_changes(&format!("{CONTENTS}/member-data"));
    let idle = server.world.watch_changes(&format!("{CONTENTS}/member-logs"));
    let old = server.world.watch_changes(&format!("{CONTENTS}/old"));
    server.add("b", spec(), &json!({"status": {"phase": "Completed"}}));
    left_behind::clear_snapshots(&server.context, &server.state).await;
    assert_eq!(left(&server), [format!("{CONTENTS}/old")]);
    assert!(kept.lock().unwrap().iter().all(|change| change["spec"]["deletionPolicy"] == "Retain"));
    assert_eq!(
        idle.lock().unwrap().last().unwrap()["spec"]["deletionPolicy"],
        "Delete",
        "nobody else knows it"
    );
    assert_eq!(*old.lock().unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_claim_that_joins_a_group_later_is_not_of_its_moment() {
    let server = taking().await;
    // An earlier attempt took the group when it had one claim.
    let path = format!("{SNAPSHOTS}/{}", own("data"));
    let content = json!({"metadata": {"name": own("data"), "labels": {OF_BACKUP: "uid-b", SERVER: "lifeboat"}},
        "spec": {"driver": "csi.example.com", "deletionPolicy": "Retain", "source": {"snapshotHandle": "handle-data"},
            "volumeSnapshotRef": {"namespace": "shop", "name": own("data")}}});
    server.world.put(&format!("{CONTENTS}/{}", own("data")), content);
    let object = json!({"metadata": {"name": own("data"), "namespace": "shop", "labels": {OF_BACKUP: "uid-b", SERVER: "lifeboat"}},
        "spec": {"source": {"volumeSnapshotContentName": own("data")}}});
    server.world.put(&path, object);
    bind(&server.world, &path);
    let begun =
        json!({"status": {"phase": "InProgress"}, "metadata": {"annotations": {"lifeboat.io/attempt": "1"}}});
    server.add("b", spec(), &begun);
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    let said = results(&server).await;
    let said = texts(said.errors.all());
    assert!(
        said.contains("claim shop/logs") && said.contains("its claims data were snapshotted before"),
        "{said}"
    );
    assert_eq!((created(&server, GROUPS), left(&server)), (0, Vec::new()));
    assert_eq!(volumes(&server).await[0]["result"], "succeeded", "what was taken is kept");
}
