//! Volumes, claims and snapshots, with each way in which a backup may hold their data.

use lifeboat_plan::velero::restore::native::Snapshot;
use lifeboat_plan::velero::restore::volumes::DataIn;
use serde_json::{Value, json};

use super::{Backup, add_named};
use crate::restore::handler::tests::world::object;

/// A volume without a claim.
pub(super) fn unclaimed(made: &mut Backup, variation: usize, number: usize) {
    volume(made, &format!("pv{number}"), variation, None);
}

pub(super) fn snapshotted(made: &mut Backup, variation: usize, number: usize) {
    snapshot(made, &format!("snapshot{number}"), variation);
}

/// A pod and the claim that it mounts, which an action restores first.
pub(super) fn claimed_by_pod(made: &mut Backup, variation: usize, number: usize) {
    claim(made, variation, number);
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": format!("claim{number}")}}]);
    let spec = json!({"containers": [{"name": "main", "image": "i"}], "volumes": volumes});
    add_named(made, "v1", "Pod", &format!("shop/mounting{number}"), json!({"spec": spec}));
}

fn volume(made: &mut Backup, name: &str, variation: usize, claim: Option<&str>) {
    let mut volume = object("v1", "PersistentVolume", name);
    let policy = if variation.is_multiple_of(2) { "Delete" } else { "Retain" };
    volume["spec"] = json!({"persistentVolumeReclaimPolicy": policy, "csi": {"volumeHandle": "h"}});
    if variation.is_multiple_of(3) {
        volume["spec"]["storageClassName"] = json!("fast");
    }
    if let Some(claim) = claim {
        volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": claim, "uid": "u"});
    }
    made.objects.push(volume);
}

/// A claim, bound or not, with each way in which a backup may hold its data.
pub(super) fn claim(made: &mut Backup, variation: usize, number: usize) {
    let (name, volume_name) = (format!("claim{number}"), format!("of-claim{number}"));
    let mut claim = object("v1", "PersistentVolumeClaim", &format!("shop/{name}"));
    claim["spec"] = json!({"volumeName": volume_name, "storageClassName": "fast"});
    if variation % 5 != 4 {
        claim["status"] = json!({"phase": "Bound"});
    }
    let snapshot_name = format!("of-claim{number}");
    let annotated = |claim: &mut Value| {
        claim["metadata"]["annotations"] = json!({"velero.io/volume-snapshot-name": snapshot_name});
    };
    let data = match variation % 8 {
        0 => DataIn::Nothing,
        1 => {
            annotated(&mut claim);
            DataIn::Failed
        }
        2 | 3 => {
            annotated(&mut claim);
            snapshot(made, &format!("of-claim{number}"), variation);
            DataIn::CsiSnapshot
        }
        4 | 5 => {
            annotated(&mut claim);
            claim["metadata"]["annotations"]["velero.io/data-upload-name"] =
                json!(format!("lifeboat/up{number}"));
            if variation % 8 == 4 {
                let mut upload = object("velero.io/v2alpha1", "DataUpload", &format!("lifeboat/up{number}"));
                upload["spec"] = json!({"sourceNamespace": "shop"});
                upload["status"] = json!({"phase": "Completed", "snapshotID": "s"});
                made.objects.push(upload);
            }
            DataIn::MovedSnapshot
        }
        6 => {
            if variation < 8 {
                made.snapshots.push(Snapshot {
                    volume: volume_name.clone(),
                    id: "snap".into(),
                    location: "default".into(),
                    volume_type: String::new(),
                    zone: String::new(),
                    iops: None,
                });
            }
            DataIn::NativeSnapshot
        }
        _ => DataIn::PodVolume,
    };
    made.volumes.insert(volume_name.clone(), data);
    made.objects.push(claim);
    if variation % 3 != 2 {
        volume(made, &volume_name, variation, Some(&name));
    }
}

fn snapshot(made: &mut Backup, name: &str, variation: usize) {
    let group = "snapshot.storage.k8s.io/v1";
    let content_name = format!("{name}-content");
    let mut snapshot = object(group, "VolumeSnapshot", &format!("shop/{name}"));
    snapshot["spec"] = json!({"source": {"persistentVolumeClaimName": name}});
    snapshot["status"] = json!({"boundVolumeSnapshotContentName": content_name});
    if !variation.is_multiple_of(3) {
        snapshot["metadata"]["annotations"] = json!({"velero.io/csi-volumesnapshot-handle": "h",
            "velero.io/csi-driver-name": "driver"});
    }
    made.objects.push(snapshot);
    let mut content = object(group, "VolumeSnapshotContent", &content_name);
    content["spec"] = json!({"driver": "driver", "source": {"snapshotHandle": "h"},
        "volumeSnapshotRef": {"namespace": "shop", "name": name}});
    content["status"] = json!({"snapshotHandle": "h"});
    made.objects.push(content);
    if variation.is_multiple_of(2) {
        let mut class = object(group, "VolumeSnapshotClass", &format!("{name}-class"));
        class["driver"] = json!("driver");
        // The Secret is an additional item, in a namespace of its own.
        if variation.is_multiple_of(4) {
            let secret = format!("{name}-secret");
            class["metadata"]["annotations"] = json!({
                "csi.storage.k8s.io/snapshotter-list-secret-name": secret,
                "csi.storage.k8s.io/snapshotter-list-secret-namespace": "vault"});
            made.objects.push(object("v1", "Secret", &format!("vault/{secret}")));
        }
        made.objects.push(class);
    }
}
