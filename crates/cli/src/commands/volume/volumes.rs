//! The volumes of a backup, from its volume info: their names, how and where their data is stored. Pure.

use lifeboat_archive::documents::BackupVolumeInfo;
use serde::Serialize;

/// One volume of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    /// `NAMESPACE/CLAIM`, or `NAMESPACE/POD/VOLUME` where there is no claim.
    #[serde(rename = "volume")]
    pub(super) name: String,
    /// How its data was backed up, as text.
    pub(super) way: &'static str,
    pub(super) size: Option<u64>,
    pub(super) result: String,
    /// The restic snapshot; None if the data is not in a repository.
    pub(super) snapshot: Option<String>,
    /// The repository, below the location's prefix.
    pub(super) repository: Option<String>,
    /// The name as a volume of its pod: `NAMESPACE/POD/VOLUME`.
    #[serde(skip)]
    other_name: Option<String>,
}

impl Volume {
    pub(super) fn of(info: &BackupVolumeInfo) -> Self {
        let pod = info.pvb_info.as_ref();
        let of_pod = pod.map(|pod| format!("{}/{}/{}", pod.pod_namespace, pod.pod_name, pod.volume_name));
        let claim = (!info.pvc_name.is_empty()).then(|| format!("{}/{}", info.pvc_namespace, info.pvc_name));
        let name = claim.clone().or_else(|| of_pod.clone()).unwrap_or_else(|| info.pv_name.clone());
        let kept = kept(info);
        let namespace = pod.map_or(&info.pvc_namespace, |pod| &pod.pod_namespace);
        Self {
            name,
            way: way(info),
            size: kept.as_ref().and_then(|(_, size)| u64::try_from(*size).ok()).filter(|size| *size > 0),
            result: result(info),
            repository: kept.as_ref().map(|_| format!("restic/{namespace}")),
            snapshot: kept.map(|(snapshot, _)| snapshot),
            other_name: claim.and(of_pod),
        }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.other_name.as_deref() == Some(name)
    }
}

/// The snapshot in a repository that this program can read, and its size in bytes.
fn kept(info: &BackupVolumeInfo) -> Option<(String, i64)> {
    let moved = info.snapshot_data_movement_info.as_ref();
    let moved = moved.map(|moved| (&moved.uploader_type, &moved.snapshot_handle, moved.size));
    let copied =
        info.pvb_info.as_ref().map(|copied| (&copied.uploader_type, &copied.snapshot_handle, copied.size));
    let (uploader, snapshot, size) = copied.or(moved)?;
    (uploader != "kopia" && !snapshot.is_empty()).then(|| (snapshot.clone(), size))
}

fn way(info: &BackupVolumeInfo) -> &'static str {
    match info.backup_method.as_str() {
        _ if info.skipped => "skipped",
        "PodVolumeBackup" => "file copy",
        "CSISnapshot" if info.snapshot_data_moved => "CSI snapshot, moved",
        "CSISnapshot" => "CSI snapshot",
        "NativeSnapshot" => "snapshot of a plugin",
        _ => "none",
    }
}

fn result(info: &BackupVolumeInfo) -> String {
    match info.result.as_str() {
        "" if info.skipped => info.skipped_reason.clone(),
        result => result.to_owned(),
    }
}

/// The backup has no volume with this name; lists the volumes that it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) })]
pub(super) struct NoVolume {
    names: Vec<String>,
}

/// Finds the volume by its name; the error lists the existing volumes.
pub(super) fn find<'a>(volumes: &'a [Volume], name: &str) -> Result<&'a Volume, NoVolume> {
    let found = volumes.iter().find(|volume| volume.is_called(name));
    found.ok_or_else(|| NoVolume { names: volumes.iter().map(|volume| volume.name.clone()).collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volumes() -> Vec<Volume> {
        let infos: Vec<BackupVolumeInfo> = serde_json::from_value(json!([
            {"pvcName": "data-db-0", "pvcNamespace": "shop", "pvName": "pv-1", "backupMethod": "PodVolumeBackup",
             "result": "succeeded", "pvbInfo": {"snapshotHandle": "abc", "size": 42, "uploaderType": "restic",
             "volumeName": "data", "podName": "db-0", "podNamespace": "shop"}},
            {"backupMethod": "PodVolumeBackup", "result": "failed", "pvbInfo": {"uploaderType": "restic",
             "volumeName": "cache", "podName": "web-1", "podNamespace": "shop"}},
            {"pvcName": "moved", "pvcNamespace": "shop", "backupMethod": "CSISnapshot", "snapshotDataMoved": true,
             "snapshotDataMovementInfo": {"snapshotHandle": "def", "size": 7, "uploaderType": "kopia"}},
            {"pvcName": "left", "pvcNamespace": "shop", "skipped": true, "skippedReason": "by policy"},
        ]))
        .unwrap();
        infos.iter().map(Volume::of).collect()
    }

    #[test]
    fn volumes_say_what_they_are_called_and_where_their_data_is() {
        let shown: Vec<_> = volumes()
            .iter()
            .map(|volume| {
                let Volume { name, way, size, result, snapshot, repository, .. } = volume;
                format!("{name} | {way} | {size:?} | {result} | {snapshot:?} | {repository:?}")
            })
            .collect();
        assert_eq!(
            shown,
            [
                r#"shop/data-db-0 | file copy | Some(42) | succeeded | Some("abc") | Some("restic/shop")"#,
                "shop/web-1/cache | file copy | None | failed | None | None",
                "shop/moved | CSI snapshot, moved | None |  | None | None",
                "shop/left | skipped | None | by policy | None | None",
            ]
        );
    }

    #[test]
    fn a_volume_is_found_by_its_claim_and_by_its_pod() {
        let volumes = volumes();
        assert_eq!(find(&volumes, "shop/data-db-0"), find(&volumes, "shop/db-0/data"));
        assert!(find(&volumes, "shop/other").unwrap_err().to_string().contains("shop/web-1/cache"));
    }
}
