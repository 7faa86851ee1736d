//! How the volumes of a Deployment's pod are reached.

use rstest::rstest;

use super::*;

/// The plan for a Deployment `web` with one pod on node `n1` that has these volumes; `data` is backed up.
fn planned(volumes: Value, claims: &[(String, ClaimOf)], change: impl Fn(&mut TargetFacts)) -> Host {
    let pods = vec![pod("web-1", "n1", 0, volumes.clone())];
    let mut facts = facts(TargetKind::Deployment, workload(1, volumes), pods, claims);
    change(&mut facts);
    let target = backup_target(TargetKind::Deployment, &[("data", "/data")], &[]);
    backup_plan(&facts, &target).unwrap().hosts.remove(0)
}

fn by_claim(node: Option<&str>) -> VolumeAccess {
    VolumeAccess::Claim { claim: "data".into(), node: node.map(str::to_owned), block: false }
}

#[rstest]
#[case::once_on_the_pods_node(&["ReadWriteOnce"], Some("n1"))]
#[case::many_anywhere(&["ReadWriteMany"], None)]
#[case::read_only_anywhere(&["ReadOnlyMany"], None)]
#[case::many_beside_once(&["ReadWriteOnce", "ReadWriteMany"], None)]
#[case::attached_for_writing(&["ReadWriteOnce", "ReadOnlyMany"], Some("n1"))]
fn a_claim_is_read_where_its_access_mode_allows(#[case] modes: &[&str], #[case] node: Option<&str>) {
    let (name, mut of) = claim("data", "ReadWriteOnce");
    of.claim["spec"]["accessModes"] = json!(modes);
    assert_eq!(access(&planned(data(), &[(name, of)], |_| ())), by_claim(node));
}

#[rstest]
#[case::by_the_csi_directory(data(), &[claim("data", "ReadWriteOncePod")], "/kubernetes.io~csi/pv-data/mount")]
#[case::empty_dir(json!([{"name": "data", "emptyDir": {}}]), &[], "/kubernetes.io~empty-dir/data")]
#[case::inline_nfs(json!([{"name": "data", "nfs": {"server": "s", "path": "/"}}]), &[], "/kubernetes.io~nfs/data")]
fn other_volumes_are_read_through_the_pods_directory(
    #[case] volumes: Value,
    #[case] claims: &[(String, ClaimOf)],
    #[case] expected: &str,
) {
    let VolumeAccess::NodeDirectory { node, directory } = access(&planned(volumes, claims, |_| ())) else {
        panic!()
    };
    assert_eq!(node, "n1");
    assert_eq!(directory.on_node(), format!("/var/lib/kubelet/pods/uid-web-1/volumes{expected}"));
}

#[test]
fn a_directory_of_the_node_is_read_where_the_namespace_admits_it() {
    let volumes = json!([{"name": "data", "hostPath": {"path": "/srv/data"}}]);
    let VolumeAccess::NodeDirectory { directory, .. } = access(&planned(volumes, &[], |_| ())) else {
        panic!()
    };
    assert_eq!(directory.on_node(), "/srv/data");
}

#[test]
fn the_kubelets_directory_is_that_of_the_pods_node() {
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let node = |name: &str, root: &str| json!({"metadata": {"name": name, "annotations": {"lifeboat.io/kubelet-root": root}}});
    let host =
        planned(volumes, &[], |facts| facts.nodes = vec![node("n2", "/other"), node("n1", "/k3s/kubelet")]);
    let VolumeAccess::NodeDirectory { directory, .. } = access(&host) else { panic!() };
    assert!(directory.on_node().starts_with("/k3s/kubelet/pods/"), "{directory:?}");
}

fn block(mode: &str) -> (String, ClaimOf) {
    let (name, mut of) = claim("data", mode);
    of.claim["spec"]["volumeMode"] = json!("Block");
    (name, of)
}

#[test]
fn a_block_volume_is_attached_as_a_device() {
    let VolumeAccess::Claim { block, node, .. } = access(&planned(data(), &[block("ReadWriteOnce")], |_| ()))
    else {
        panic!()
    };
    assert_eq!((block, node.as_deref()), (true, Some("n1")));
}

fn class(driver: Option<&str>) -> SnapshotClass {
    SnapshotClass { name: "fast".into(), driver: driver.map(str::to_owned) }
}

#[rstest]
#[case::once("ReadWriteOnce")]
#[case::one_pod("ReadWriteOncePod")]
#[case::many("ReadWriteMany")]
fn with_a_snapshot_class_claims_are_read_from_snapshots(#[case] mode: &str) {
    let host = planned(data(), &[claim("data", mode)], |facts| {
        facts.site = Site {
            node_access: false,
            snapshot_class: Some(class(Some("csi.example"))),
            ..facts.site.clone()
        };
    });
    let expected = VolumeAccess::Snapshot { claim: "data".into(), class: "fast".into(), block: false };
    assert_eq!(access(&host), expected);
    let source = host.source.unwrap();
    assert_eq!((source.consistency(false), source.consistency(true)), ("Snapshot", "Quiesced"));
}

#[test]
fn what_is_read_while_it_changes_is_recorded_so() {
    let source = planned(data(), &[claim("data", "ReadWriteOnce")], |_| ()).source.unwrap();
    assert_eq!((source.consistency(false), source.consistency(true)), ("Live", "Quiesced"));
}

#[test]
fn a_volume_of_an_older_type_counts_as_its_drivers() {
    let (name, mut of) = claim("data", "ReadWriteOnce");
    of.volume = Some(
        json!({"metadata": {"name": "pv", "annotations": {"pv.kubernetes.io/migrated-to": "csi.example"}},
        "spec": {"awsElasticBlockStore": {"volumeID": "v"}}}),
    );
    let host =
        planned(data(), &[(name, of)], |facts| facts.site.snapshot_class = Some(class(Some("csi.example"))));
    assert!(matches!(access(&host), VolumeAccess::Snapshot { .. }));
}

#[rstest]
#[case::config_map(json!([{"name": "data", "configMap": {"name": "c"}}]), &[], "volume \"data\" is a configMap volume")]
#[case::secret(json!([{"name": "data", "secret": {"secretName": "s"}}]), &[], "is a secret volume")]
#[case::projected(json!([{"name": "data", "projected": {}}]), &[], "is a projected volume")]
#[case::downward(json!([{"name": "data", "downwardAPI": {}}]), &[], "is a downwardAPI volume")]
#[case::image(json!([{"name": "data", "image": {}}]), &[], "is a image volume")]
#[case::unknown_type(json!([{"name": "data", "storageos": {}}]), &[], "is a storageos volume")]
#[case::no_such_volume(json!([{"name": "b", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]), &[], "volume \"data\", which pod web-1 does not have; expected one of a, b")]
#[case::no_claim(data(), &[], "PersistentVolumeClaim data of volume \"data\" does not exist")]
#[case::block_of_one_pod(data(), &[block("ReadWriteOncePod")], "set target.snapshotClassName")]
fn volumes_that_cannot_be_read_are_named(
    #[case] volumes: Value,
    #[case] claims: &[(String, ClaimOf)],
    #[case] expected: &str,
) {
    let error = planned(volumes, claims, |_| ()).source.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case::empty_dir(json!([{"name": "data", "emptyDir": {}}]), "volume \"data\" (emptyDir volume)")]
#[case::one_pod(data(), "volume \"data\" (ReadWriteOncePod claim)")]
#[case::host_path(json!([{"name": "data", "hostPath": {"path": "/srv"}}]), "volume \"data\" (hostPath volume)")]
fn without_access_to_nodes_the_setting_is_named(#[case] volumes: Value, #[case] expected: &str) {
    let claims = [claim("data", "ReadWriteOncePod")];
    let host = planned(volumes, &claims, |facts| facts.site.node_access = false);
    let error = host.source.unwrap_err().to_string();
    assert!(error.contains(expected) && error.contains("nodeAccess"), "{error}");
}

#[rstest]
#[case::admitted_by_default(json!({}), None)]
#[case::privileged(json!({"pod-security.kubernetes.io/enforce": "privileged"}), None)]
#[case::baseline(json!({"pod-security.kubernetes.io/enforce": "baseline"}), Some("\"baseline\""))]
#[case::restricted(json!({"pod-security.kubernetes.io/enforce": "restricted"}), Some("\"restricted\""))]
#[case::only_a_warning(json!({"pod-security.kubernetes.io/warn": "restricted"}), None)]
fn a_directory_of_the_node_is_refused_where_a_pod_could_not_mount_it(
    #[case] labels: Value,
    #[case] level: Option<&str>,
) {
    let refusal = host_path_refusal(&json!({"metadata": {"labels": labels}}));
    assert_eq!(refusal.is_some(), level.is_some(), "{refusal:?}");
    let (Some(refusal), Some(level)) = (refusal, level) else { return };
    let volumes = json!([{"name": "data", "hostPath": {"path": "/etc"}}]);
    let host = planned(volumes, &[], |facts| facts.site.host_path_refusal = Some(refusal.clone()));
    let error = host.source.unwrap_err().to_string();
    assert!(error.contains("\"/etc\"") && error.contains(level), "{error}");
}

#[rstest]
#[case::no_class(
    None,
    Some("csi.example"),
    "VolumeSnapshotClass \"fast\" (target.snapshotClassName) does not exist"
)]
#[case::another_driver(
    Some("csi.other"),
    Some("csi.example"),
    "claim data is of driver csi.example, and VolumeSnapshotClass \"fast\" (target.snapshotClassName) is of driver csi.other"
)]
#[case::not_csi(Some("csi.other"), None, "claim data is of no CSI driver")]
fn a_snapshot_class_has_to_be_of_the_claims_driver(
    #[case] of_class: Option<&str>,
    #[case] of_volume: Option<&str>,
    #[case] expected: &str,
) {
    let (name, mut of) = claim("data", "ReadWriteOnce");
    let source = of_volume.map_or(json!({"nfs": {}}), |driver| json!({"csi": {"driver": driver}}));
    of.volume = Some(json!({"metadata": {"name": "pv"}, "spec": source}));
    let host = planned(data(), &[(name, of)], |facts| facts.site.snapshot_class = Some(class(of_class)));
    let error = host.source.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case::pending("Pending", "(phase Pending)")]
#[case::lost("Lost", "(phase Lost)")]
#[case::no_status("", "(phase unknown)")]
fn a_claim_without_a_volume_has_no_data(#[case] phase: &str, #[case] expected: &str) {
    let (name, mut of) = claim("data", "ReadWriteOnce");
    of.volume = None;
    of.claim["status"] = json!({"phase": phase});
    let error = planned(data(), &[(name, of)], |_| ()).source.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_volume_that_no_container_mounts_has_no_directory() {
    let host = planned(json!([{"name": "data", "emptyDir": {}}]), &[], |facts| {
        facts.pods[0]["spec"]["containers"] = json!([{"name": "app"}]);
    });
    let error = host.source.unwrap_err().to_string();
    assert!(error.contains("no container of pod web-1 mounts volume \"data\""), "{error}");
}
