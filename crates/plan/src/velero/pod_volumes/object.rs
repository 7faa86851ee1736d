//! The PodVolumeBackup of one volume, and the names of its tags and report. Names are derived from known values, so
//! that a restarted server finds the same object, Job and snapshot.

use std::collections::BTreeMap;

use lifeboat_api::common::{BackupUid, LocationName, NamespaceName, TaskId};
use lifeboat_api::velero::names;
use serde_json::{Value, json};

use crate::label;
use crate::transfer::attempts::{CONSISTENCY, LIVE, QUIESCED};
use crate::velero::uploader::UploaderSettings;

/// How many characters of a backup's or restore's name go into the names of its objects.
const NAME_PART: usize = 46;

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    pub namespace: String,
    pub pod: String,
    pub pod_uid: String,
    pub node: String,
    /// Its name in the pod.
    pub volume: String,
    /// Name and UID.
    pub claim: Option<(String, String)>,
}

/// The input for a PodVolumeBackup besides the volume itself.
#[derive(Clone, Copy, Debug)]
pub struct CopySettings<'a> {
    /// Lifeboat's namespace.
    pub namespace: &'a NamespaceName,
    pub backup: &'a str,
    pub backup_uid: &'a BackupUid,
    pub location: &'a LocationName,
    /// Whether pre hooks ran in the pod.
    pub quiesced: bool,
    /// The time limit, from the Backup's annotation.
    pub timeout: Option<&'a str>,
    /// What the mover is to do, from the Backup's `uploaderConfig`.
    pub settings: &'a UploaderSettings,
}

/// The name of a volume's PodVolumeBackup.
pub fn backup_name(backup: &str, backup_uid: &BackupUid, pod_uid: &str, volume: &str) -> String {
    named(backup, &format!("{backup_uid}\n{pod_uid}\n{volume}"))
}

pub(super) fn named(owner: &str, of: &str) -> String {
    let end = (0..=NAME_PART.min(owner.len())).rev().find(|at| owner.is_char_boundary(*at)).unwrap_or(0);
    let part = owner[..end].trim_end_matches(['-', '.']);
    format!("{part}-{}", &label::digest(of)[..16])
}

/// The PodVolumeBackup of a volume.
pub fn backup_object(of: &PodVolume, wanted: &CopySettings<'_>) -> Value {
    let mut labels = json!({
        names::BACKUP_NAME: label::value(wanted.backup),
        names::BACKUP_UID: wanted.backup_uid,
    });
    let mut annotations = json!({CONSISTENCY: if wanted.quiesced { QUIESCED } else { LIVE }});
    if let Some((name, uid)) = &of.claim {
        labels[names::PVC_UID] = json!(uid);
        annotations[names::PVC_NAME] = json!(name);
    }
    if let Some(timeout) = wanted.timeout {
        annotations[names::POD_VOLUME_TIMEOUT] = json!(timeout);
    }
    let mut object = json!({
        "apiVersion": "velero.io/v1",
        "kind": "PodVolumeBackup",
        "metadata": {
            "name": backup_name(wanted.backup, wanted.backup_uid, &of.pod_uid, &of.volume),
            "namespace": wanted.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": wanted.backup,
                "uid": wanted.backup_uid, "controller": true}],
        },
        "spec": {
            "node": of.node,
            "pod": {"kind": "Pod", "namespace": of.namespace, "name": of.pod, "uid": of.pod_uid},
            "volume": of.volume,
            "backupStorageLocation": wanted.location,
            "repoIdentifier": "",
            "uploaderType": "restic",
            "tags": tags(of, wanted.backup, wanted.backup_uid),
        },
        "status": {"phase": "New"},
    });
    if !wanted.settings.is_empty() {
        object["spec"]["uploaderSettings"] = json!(wanted.settings);
    }
    object
}

/// The tags of the restic snapshot: upstream's.
pub fn tags(of: &PodVolume, backup: &str, backup_uid: &BackupUid) -> BTreeMap<String, String> {
    let mut tags: BTreeMap<String, String> = [
        ("backup", backup),
        ("backup-uid", backup_uid.as_str()),
        ("pod", of.pod.as_str()),
        ("pod-uid", of.pod_uid.as_str()),
        ("ns", of.namespace.as_str()),
        ("volume", of.volume.as_str()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    if let Some((_, uid)) = &of.claim {
        tags.insert("pvc-uid".to_owned(), uid.clone());
    }
    tags
}

/// The tag of every restic snapshot that a mover stores for the Backup with this UID.
pub fn backup_tag(backup_uid: &BackupUid) -> String {
    format!("backup-uid={backup_uid}")
}

/// The restic host of a volume's snapshots: the claim, or the pod and the volume's name in it.
pub fn host(namespace: &str, pod: &str, volume: &str, claim: Option<&str>) -> String {
    match claim {
        Some(claim) => format!("{namespace}/{claim}"),
        None => format!("{namespace}/{pod}/{volume}"),
    }
}

/// The key of a task's full report, below the location's prefix.
pub fn report_key(backup: &str, task: &TaskId) -> String {
    format!("backups/{backup}/movers/{task}.json.gz")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> PodVolume {
        PodVolume {
            namespace: "shop".into(),
            pod: "db-0".into(),
            pod_uid: "p-1".into(),
            node: "a".into(),
            volume: "data".into(),
            claim: Some(("data-db-0".into(), "c-1".into())),
        }
    }

    #[test]
    fn an_object_has_upstreams_labels_tags_and_owner() {
        let wanted = CopySettings {
            namespace: &NamespaceName::new("lifeboat"),
            backup: "nightly",
            backup_uid: &BackupUid::new("b-1"),
            location: &LocationName::new("default"),
            quiesced: true,
            timeout: Some("2h"),
            settings: &[("ParallelFilesUpload".to_owned(), "7".to_owned())].into(),
        };
        let object = backup_object(&volume(), &wanted);
        let parsed: lifeboat_api::velero::PodVolumeBackup = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(parsed.spec.tags.unwrap()["pvc-uid"], "c-1");
        assert_eq!(object["spec"]["uploaderSettings"], json!({"ParallelFilesUpload": "7"}));
        assert_eq!(object["metadata"]["labels"]["velero.io/pvc-uid"], "c-1");
        assert_eq!(object["metadata"]["annotations"]["velero.io/pvc-name"], "data-db-0");
        assert_eq!(object["metadata"]["annotations"]["lifeboat.io/consistency"], "Quiesced");
        assert_eq!(object["metadata"]["annotations"]["velero.io/pod-volume-timeout"], "2h");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "b-1");
        assert!(object["metadata"]["name"].as_str().unwrap().starts_with("nightly-"));
    }

    #[test]
    fn names_are_the_same_each_time_and_differ_by_what_they_are_of() {
        let uid = &BackupUid::new("b");
        let name = backup_name("nightly", uid, "p", "v");
        assert_eq!(name, backup_name("nightly", uid, "p", "v"));
        for other in [
            backup_name("nightly", &BackupUid::new("b2"), "p", "v"),
            backup_name("nightly", uid, "p2", "v"),
            backup_name("nightly", uid, "p", "v2"),
        ] {
            assert_ne!(name, other);
        }
        let long = backup_name(&format!("{}.x", "a".repeat(45)), uid, "p", "v");
        assert_eq!(long.len(), 45 + 1 + 16, "{long}");
    }

    #[test]
    fn the_host_is_the_claim_or_the_volume_of_the_pod() {
        assert_eq!(host("shop", "db-0", "data", Some("data-db-0")), "shop/data-db-0");
        assert_eq!(host("shop", "web-7f", "cache", None), "shop/web-7f/cache");
    }
}
