//! Backups made of lines: a kind of item, and a variation of it.

use std::collections::BTreeMap;

use lifeboat_plan::velero::csi::restored_name;
use lifeboat_plan::velero::pod_volumes::Copied;
use lifeboat_plan::velero::restore::native::Snapshot;
use lifeboat_plan::velero::restore::volumes::DataIn;
use serde_json::{Value, json};

use super::world::object;

/// How many kinds there are.
pub(super) const KINDS: usize = 19;

/// One kind of item, in one of its variations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) kind: usize,
    pub(super) variation: u8,
}

/// What is in a backup.
#[derive(Clone, Debug, Default)]
pub(super) struct Backup {
    pub(super) objects: Vec<Value>,
    pub(super) volumes: BTreeMap<String, DataIn>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) copies: Vec<Copied>,
}

impl Backup {
    /// `v1/Pod` for `pods`.
    pub(super) fn kind_of(&self, resource: &str) -> String {
        let plural = resource.split('.').next().unwrap_or_default();
        let found = self.objects.iter().find(|object| {
            let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
            plural == format!("{kind}s") || plural == format!("{kind}es")
        });
        found.map_or_else(String::new, |object| {
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            format!("{}/{}", text("apiVersion"), text("kind"))
        })
    }
}

impl Backup {
    /// The name of an object in the cluster: snapshots and their contents get one of the restore.
    pub(super) fn name_in_cluster(&self, resource: &str, name: &str) -> String {
        match resource {
            "volumesnapshots" => restored_name("ru", name),
            "volumesnapshotcontents" => {
                let content = self
                    .objects
                    .iter()
                    .find(|one| one["kind"] == "VolumeSnapshotContent" && one["metadata"]["name"] == name);
                let snapshot = content.and_then(|one| one["spec"]["volumeSnapshotRef"]["name"].as_str());
                restored_name("ru", snapshot.unwrap_or_default())
            }
            _ => name.to_owned(),
        }
    }
}

pub(super) fn backup(lines: &[Line]) -> Backup {
    let mut made = Backup { objects: vec![object("v1", "Namespace", "shop")], ..Backup::default() };
    for (number, line) in lines.iter().enumerate() {
        let first = made.objects.len();
        add(&mut made, line.kind, usize::from(line.variation), number);
        if line.variation % 2 == 1 {
            for object in &mut made.objects[first..] {
                object["metadata"]["labels"]["app"] = json!("web");
            }
        }
    }
    made
}

fn add(made: &mut Backup, kind: usize, variation: usize, number: usize) {
    let named = |prefix: &str| format!("shop/{prefix}{number}");
    match kind {
        0 => pod(made, variation, number),
        1 => {
            let mut job = object("batch/v1", "Job", &named("job"));
            job["spec"] = json!({"selector": {"matchLabels": {"controller-uid": "u"}},
                "template": {"metadata": {"labels": {"controller-uid": "u"}}}});
            if variation.is_multiple_of(2) {
                job["status"] = json!({"completionTime": "2020-01-01T00:00:00Z"});
            }
            made.objects.push(job);
        }
        2 => claim(made, variation, number),
        3 => volume(made, &format!("pv{number}"), variation, None),
        4 => {
            made.objects.push(object("v1", "ServiceAccount", &named("account")));
            let mut token = object("v1", "Secret", &format!("shop/account{number}-token-x"));
            token["type"] = json!("kubernetes.io/service-account-token");
            token["data"] = json!({"token": "t", "ca.crt": "c", "own": "o"});
            made.objects.push(token);
        }
        5 => {
            let mut secret = object("v1", "Secret", &named("secret"));
            let kinds = ["Opaque", "kubernetes.io/service-account-token"];
            secret["type"] = json!(kinds[variation % 2]);
            made.objects.push(secret);
        }
        6 => {
            let mut service = object("v1", "Service", &named("service"));
            service["spec"] = json!({"clusterIP": if variation.is_multiple_of(3) { "None" } else { "10.0.0.1" },
                "ports": [{"port": 80, "nodePort": 30080}]});
            made.objects.push(service);
        }
        7 => {
            let name = format!("widget{number}s.widgets.example.com");
            let mut definition = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name);
            definition["spec"] =
                json!({"group": "widgets.example.com", "preserveUnknownFields": variation.is_multiple_of(2)});
            made.objects.push(definition);
            made.objects.push(object("widgets.example.com/v1", &format!("Widget{number}"), &named("w")));
        }
        8 => made.objects.push(object("v1", "Namespace", &format!("more{number}"))),
        9 => rights(made, variation, number),
        10 => webhook(made, variation, number),
        11 => {
            let mut service = object("apiregistration.k8s.io/v1", "APIService", &format!("v1.api{number}"));
            if variation.is_multiple_of(2) {
                service["metadata"]["labels"] = json!({"kube-aggregator.kubernetes.io/automanaged": "true"});
            } else {
                service["spec"] = json!({"service": {"namespace": "shop", "name": "behind"}});
            }
            made.objects.push(service);
        }
        12 => made.objects.push(object("v1", "Node", &format!("node{number}"))),
        13 => made.objects.push(object("v1", "Event", &named("event"))),
        14 => {
            let kinds = ["Backup", "Schedule", "DataUpload", "PodVolumeRestore"];
            made.objects.push(object("velero.io/v1", kinds[variation % 4], &format!("lifeboat/own{number}")));
        }
        15 => {
            let mut set = object("apps/v1", "StatefulSet", &named("set"));
            set["spec"] = json!({"volumeClaimTemplates": [{"spec": {"storageClassName": "fast"}}]});
            made.objects.push(set);
            made.objects.push(object("storage.k8s.io/v1", "StorageClass", &format!("fast{number}")));
        }
        16 => {
            let mut map = object("v1", "ConfigMap", &named("map"));
            map["data"] = json!({"a": "1"});
            map["metadata"]["managedFields"] = json!([{"manager": "argo", "operation": "Apply"}]);
            made.objects.push(map);
        }
        17 => made.objects.push(object("example.org/v1", "Gadget", &named("gadget"))),
        _ => snapshot(made, &format!("snapshot{number}"), variation),
    }
}

fn pod(made: &mut Backup, variation: usize, number: usize) {
    let mut pod = object("v1", "Pod", &format!("shop/pod{number}"));
    pod["spec"] = json!({"nodeName": "n1", "containers": [{"name": "main", "image": "i"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": format!("of-pod{number}")}},
            {"name": "e", "emptyDir": {}}]});
    let owner =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": format!("of-pod{number}"), "uid": "j"}]);
    match variation % 9 {
        1 => pod["metadata"]["annotations"] = json!({"post.hook.restore.velero.io/command": "[\"true\"]"}),
        2 => pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"}),
        3 => pod["status"] = json!({"phase": "Succeeded"}),
        4 => {
            pod["metadata"]["ownerReferences"] = owner;
            made.objects.push(object("batch/v1", "Job", &format!("shop/of-pod{number}")));
        }
        5 => pod["metadata"]["ownerReferences"] = owner,
        6 => {
            pod["spec"]["initContainers"] =
                json!([{"name": "restore-wait", "args": ["restore-wait", "old"]}]);
        }
        7 => {
            pod["metadata"]["annotations"] = json!({"init.hook.restore.velero.io/container-image": "i",
                "init.hook.restore.velero.io/container-name": "hook",
                "init.hook.restore.velero.io/command": "[\"true\"]"});
        }
        8 => {
            made.objects.push(object("v1", "PersistentVolumeClaim", &format!("shop/of-pod{number}")));
            for (volume, uploader) in [("d", "restic"), ("e", "kopia")] {
                made.copies.push(Copied {
                    namespace: "shop".into(),
                    pod: format!("pod{number}"),
                    volume: volume.into(),
                    claim: (volume == "d").then(|| format!("of-pod{number}")),
                    snapshot: "s".into(),
                    bytes: None,
                    uploader: uploader.into(),
                    incomplete: (number % 2 == 1).then(|| "files".to_owned()),
                });
            }
        }
        _ => {}
    }
    made.objects.push(pod);
}

fn volume(made: &mut Backup, name: &str, variation: usize, claim: Option<&str>) {
    let mut volume = object("v1", "PersistentVolume", name);
    let policy = if variation.is_multiple_of(2) { "Delete" } else { "Retain" };
    volume["spec"] = json!({"persistentVolumeReclaimPolicy": policy, "csi": {"volumeHandle": "h"}});
    if let Some(claim) = claim {
        volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": claim, "uid": "u"});
    }
    made.objects.push(volume);
}

/// A claim, bound or not, with each way in which a backup may hold its data.
fn claim(made: &mut Backup, variation: usize, number: usize) {
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

fn rights(made: &mut Backup, variation: usize, number: usize) {
    let group = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "ServiceAccount", "namespace": "shop", "name": "a"}]);
    made.objects.push(match variation % 4 {
        0 => object(group, "ClusterRole", &format!("role{number}")),
        1 => object(group, "Role", &format!("shop/role{number}")),
        2 => {
            let mut binding = object(group, "RoleBinding", &format!("shop/binding{number}"));
            binding["subjects"] = subjects;
            binding
        }
        _ => {
            let mut binding = object(group, "ClusterRoleBinding", &format!("binding{number}"));
            binding["subjects"] = subjects;
            binding
        }
    });
}

fn webhook(made: &mut Backup, variation: usize, number: usize) {
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    let mut hook = object("admissionregistration.k8s.io/v1", kinds[variation % 2], &format!("hook{number}"));
    hook["webhooks"] = json!([{"name": "w", "sideEffects": "Unknown",
        "clientConfig": {"service": {"namespace": "shop", "name": "behind"}}}]);
    if variation.is_multiple_of(3) {
        hook["webhooks"][0]["clientConfig"] = json!({"url": "https://example.com"});
    }
    made.objects.push(hook);
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
        made.objects.push(class);
    }
}
