//! Every volume type, and its directory on the node.

use rstest::rstest;
use serde_json::json;

use super::*;

const ROOT: &str = "/var/lib/kubelet/pods/u-1/volumes/";

fn of_pod(volume: &Value) -> Result<Directory, DirectoryError> {
    directory("/var/lib/kubelet/", &json!({"metadata": {"uid": "u-1"}}), volume, None)
}

fn of_claim(volume: Value) -> Result<Directory, DirectoryError> {
    let claim = ClaimOf { claim: json!({"metadata": {"name": "data"}}), volume: Some(volume) };
    let pod = json!({"metadata": {"uid": "u-1"}});
    directory("/var/lib/kubelet", &pod, &json!({"name": "v", "persistentVolumeClaim": {}}), Some(&claim))
}

fn bound(source: &Value) -> Value {
    json!({"metadata": {"name": "pv-1"}, "spec": source})
}

#[rstest]
#[case::empty(json!({"emptyDir": {}}), "kubernetes.io~empty-dir", "v", Proof::Directory)]
#[case::memory(json!({"emptyDir": {"medium": "Memory"}}), "kubernetes.io~empty-dir", "v", Proof::MountPoint)]
#[case::inline_csi(json!({"csi": {"driver": "d"}}), "kubernetes.io~csi/v", "mount", Proof::MountPoint)]
#[case::inline_nfs(json!({"nfs": {}}), "kubernetes.io~nfs", "v", Proof::MountPoint)]
#[case::git(json!({"gitRepo": {}}), "kubernetes.io~git-repo", "v", Proof::Directory)]
#[case::flex(json!({"flexVolume": {"driver": "acme/disk"}}), "acme~disk", "v", Proof::MountPoint)]
fn a_volume_of_the_pod_is_called_as_in_the_pod(
    #[case] mut volume: Value,
    #[case] above: &str,
    #[case] path: &str,
    #[case] proof: Proof,
) {
    volume["name"] = json!("v");
    let expected = Directory { mount: format!("{ROOT}{above}"), path: path.into(), proof };
    assert_eq!(of_pod(&volume), Ok(expected));
}

#[rstest]
#[case("nfs", "kubernetes.io~nfs")]
#[case("local", "kubernetes.io~local-volume")]
#[case("iscsi", "kubernetes.io~iscsi")]
#[case("fc", "kubernetes.io~fc")]
#[case("rbd", "kubernetes.io~rbd")]
#[case("cephfs", "kubernetes.io~cephfs")]
#[case("awsElasticBlockStore", "kubernetes.io~aws-ebs")]
#[case("gcePersistentDisk", "kubernetes.io~gce-pd")]
#[case("azureDisk", "kubernetes.io~azure-disk")]
#[case("azureFile", "kubernetes.io~azure-file")]
#[case("cinder", "kubernetes.io~cinder")]
#[case("vsphereVolume", "kubernetes.io~vsphere-volume")]
#[case("portworxVolume", "kubernetes.io~portworx-volume")]
fn a_claims_volume_is_called_as_the_persistent_volume(#[case] kind: &str, #[case] plugin: &str) {
    let found = of_claim(bound(&json!({kind: {}}))).unwrap();
    let expected =
        Directory { mount: format!("{ROOT}{plugin}"), path: "pv-1".into(), proof: Proof::MountPoint };
    assert_eq!(found, expected);
}

#[test]
fn a_csi_volume_is_proved_by_the_kubelets_file() {
    let found = of_claim(bound(&json!({"csi": {"driver": "d", "volumeHandle": "h"}}))).unwrap();
    let proof = Proof::Csi { file: "vol_data.json".into(), driver: "d".into(), handle: "h".into() };
    assert_eq!(
        found,
        Directory { mount: format!("{ROOT}kubernetes.io~csi/pv-1"), path: "mount".into(), proof }
    );
}

#[test]
fn a_volume_of_an_old_kind_that_a_driver_mounts_is_the_drivers() {
    let mut volume = bound(&json!({"awsElasticBlockStore": {}}));
    volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/migrated-to": "ebs.csi.aws.com"});
    assert_eq!(of_claim(volume).unwrap().mount, format!("{ROOT}kubernetes.io~csi/pv-1"));
}

#[rstest]
#[case("/srv/data", Some(("/srv", "data")))]
#[case("/srv/data/", Some(("/srv", "data")))]
#[case::never_the_root_itself("/data", Some(("/data", "")))]
#[case::however_it_is_written("//data/", Some(("/data", "")))]
#[case("/srv//data", Some(("/srv", "data")))]
#[case("/", None)]
#[case("data", None)]
#[case("/srv/../etc", None)]
fn a_persistent_volume_of_the_node_is_its_directory(
    #[case] path: &str,
    #[case] expected: Option<(&str, &str)>,
) {
    let found = of_claim(bound(&json!({"hostPath": {"path": path}}))).ok();
    assert!(found.as_ref().is_none_or(|found| !found.on_node().ends_with('/')), "{found:?}");
    let found = found.map(|found| (found.mount, found.path));
    assert_eq!(found, expected.map(|(above, last)| (above.to_owned(), last.to_owned())));
}

#[rstest]
#[case::block(json!({"csi": {"driver": "d", "volumeHandle": "h"}, "volumeMode": "Block"}), "snapshotMoveData")]
#[case::unknown(json!({"novelty": {}}), "novelty")]
#[case::none(json!({}), "names none")]
fn what_has_no_files_on_a_node_is_named(#[case] source: Value, #[case] word: &str) {
    let message = of_claim(bound(&source)).unwrap_err().to_string();
    assert!(message.contains(word), "{message}");
}

#[test]
fn names_that_are_no_names_are_no_paths() {
    assert!(of_pod(&json!({"name": "../../etc", "emptyDir": {}})).is_err());
    let mut volume = bound(&json!({"nfs": {}}));
    volume["metadata"]["name"] = json!("..");
    assert!(of_claim(volume).is_err());
    let claim = ClaimOf { claim: json!({"metadata": {"name": "data"}}), volume: None };
    let pod = json!({"metadata": {"uid": "u-1"}});
    assert!(
        directory("/k", &pod, &json!({"name": "v"}), Some(&claim))
            .unwrap_err()
            .to_string()
            .contains("not bound")
    );
}

#[test]
fn a_pod_from_a_file_of_the_node_has_the_directory_of_that_file() {
    let pod = json!({"metadata": {"uid": "u-1", "annotations": {"kubernetes.io/config.mirror": "abc"}}});
    let found = directory("/k", &pod, &json!({"name": "v", "emptyDir": {}}), None).unwrap();
    assert_eq!(found.mount, "/k/pods/abc/volumes/kubernetes.io~empty-dir");
}
