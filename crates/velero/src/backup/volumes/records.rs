//! The list of volumes of a backup: one record per volume, whatever happened to its data. Missing data that was asked
//! for is an error of the backup. Made at the end of the pass.

use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, PodVolumeInfo, VolumeAttributes};
use lifeboat_plan::transfer::attempts::CONSISTENCY;
use lifeboat_plan::transfer::snapshots::SNAPSHOT;
use lifeboat_plan::velero::backup::volumes::{Fate, Method, VolumeRecord, VolumeSettings};
use lifeboat_plan::velero::pod_volumes::CHANGED_FILES;
use serde_json::Value;

use super::native;
use crate::backup::pass::{About, Pass};

impl Pass {
    /// One record per volume; missing data that was asked for is reported as an error.
    pub(in crate::backup) fn volumes(&self) -> Vec<BackupVolumeInfo> {
        let wishes = VolumeSettings::new(&self.backup.spec, self.valid.policies.as_ref());
        let copied = self.copying.objects();
        let made = self.made();
        let taken = &made.taken;
        let records = made.book.records(&wishes, &taken.volumes(), &made.copies);
        for record in &records {
            let unclaimed = record.volume.as_ref().and_then(|volume| taken.unclaimed.get(volume));
            match &record.fate {
                Fate::Snapshotted | Fate::CsiSnapshotted => {}
                Fate::Copied(name) => self.report_copy(record, copied.get(name)),
                Fate::Skipped(reason) => {
                    self.report
                        .info(&format!("The data of volume {} is skipped: {reason}", record.title()), &[]);
                }
                Fate::Unasked(reason) => {
                    let namespace = record.claim.as_ref().map(|claim| claim.0.as_str());
                    let about = namespace.map_or(About::Server, About::Namespace);
                    let message =
                        format!("the data of volume {} is not in the backup: {reason}", record.title());
                    self.report.warning(&about, &message, None);
                }
                Fate::Missed(method, reason) => {
                    let why = match (method, unclaimed) {
                        (Method::FileCopy, _) => "",
                        (Method::Snapshot, Some(why)) => why,
                        (Method::Snapshot, None) => {
                            "there is no volume snapshot location whose snapshotter takes it, and no CSI driver does"
                        }
                    };
                    let namespace = record.claim.as_ref().map(|claim| claim.0.as_str());
                    let about = namespace.map_or(About::Server, About::Namespace);
                    let and = if why.is_empty() { "" } else { ", and " };
                    let message = format!(
                        "the data of volume {} was not backed up: {reason}{and}{why}",
                        record.title()
                    );
                    self.report.error(&about, &message, None);
                }
            }
        }
        let info_of = |record: VolumeRecord| {
            let snapshot = record.volume.as_ref().and_then(|volume| taken.snapshots.get(volume));
            let copy = if let Fate::Copied(name) = &record.fate { copied.get(name) } else { None };
            let (fate, claim) = (record.fate.clone(), record.claim.clone());
            let mut info = info(record, snapshot, copy);
            if let (Fate::CsiSnapshotted, Some(claim)) = (fate, claim) {
                let mover = self.backup.spec.datamover.as_deref().unwrap_or("velero");
                made.csi.describe(&claim, &made.operations, mover, &mut info);
            }
            info
        };
        records.into_iter().map(info_of).collect()
    }
}

impl Pass {
    /// Reports how the copy of a volume ended.
    fn report_copy(&self, record: &VolumeRecord, object: Option<&Value>) {
        let text =
            |pointer: &str| object.and_then(|object| object.pointer(pointer)?.as_str()).unwrap_or_default();
        let Some((namespace, pod, volume)) = &record.pod else { return };
        let what = format!("volume {volume} of pod {namespace}/{pod}");
        if text("/status/phase") == "Completed" {
            let changed = object.and_then(|one| one["metadata"]["annotations"][CHANGED_FILES].as_str());
            let changed = changed.unwrap_or("0");
            let snapshot = text("/status/snapshotID");
            self.report
                .info(&format!("Copied {what}: snapshot {snapshot}, {changed} files changed meanwhile"), &[]);
            return;
        }
        let reason = match text("/status/message") {
            "" => "it did not end",
            message => message,
        };
        self.report.error(&About::Namespace(namespace), &format!("{what} was not copied: {reason}"), None);
    }
}

fn info(record: VolumeRecord, snapshot: Option<&NativeSnapshot>, copy: Option<&Value>) -> BackupVolumeInfo {
    let (pvc_namespace, pvc_name) = record.claim.unwrap_or_default();
    let mut info = BackupVolumeInfo {
        pvc_name,
        pvc_namespace,
        pv_name: record.volume.unwrap_or_default(),
        pv_info: Some(VolumeAttributes {
            reclaim_policy: record.reclaim_policy,
            labels: (!record.labels.is_empty()).then_some(record.labels),
        }),
        ..BackupVolumeInfo::default()
    };
    match record.fate {
        Fate::Snapshotted => {
            let well = snapshot.is_some_and(|snapshot| snapshot.status.phase == "Completed");
            "NativeSnapshot".clone_into(&mut info.backup_method);
            if well { "succeeded" } else { "failed" }.clone_into(&mut info.result);
            if well {
                SNAPSHOT.clone_into(&mut info.consistency);
            }
            info.native_snapshot_info = snapshot.map(native::info);
        }
        Fate::Copied(_) => describe_copy(&mut info, record.pod, copy),
        Fate::CsiSnapshotted => {}
        Fate::Skipped(reason) => {
            info.skipped = true;
            info.skipped_reason = reason;
            info.declined = true;
        }
        Fate::Unasked(reason) => {
            info.skipped = true;
            info.skipped_reason = reason;
        }
        Fate::Missed(method, _) => {
            "failed".clone_into(&mut info.result);
            info.backup_method = match method {
                Method::FileCopy => "PodVolumeBackup".to_owned(),
                Method::Snapshot => "NativeSnapshot".to_owned(),
            };
            info.pvb_info = record.pod.map(|(pod_namespace, pod_name, volume_name)| PodVolumeInfo {
                uploader_type: "restic".to_owned(),
                volume_name,
                pod_name,
                pod_namespace,
                phase: "Failed".to_owned(),
                ..PodVolumeInfo::default()
            });
        }
    }
    info
}

/// Fills the record of a copied volume from its PodVolumeBackup.
fn describe_copy(info: &mut BackupVolumeInfo, pod: Option<(String, String, String)>, copy: Option<&Value>) {
    "PodVolumeBackup".clone_into(&mut info.backup_method);
    let status = copy.map(|copy| &copy["status"]).cloned().unwrap_or_default();
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    let time = |field: &str| serde_json::from_value(status[field].clone()).ok();
    let well = text("phase") == "Completed";
    if well { "succeeded" } else { "failed" }.clone_into(&mut info.result);
    let consistency = copy.and_then(|copy| copy["metadata"]["annotations"][CONSISTENCY].as_str());
    consistency.unwrap_or_default().clone_into(&mut info.consistency);
    info.start_timestamp = time("startTimestamp");
    info.completion_timestamp = time("completionTimestamp");
    info.pvb_info = pod.map(|(pod_namespace, pod_name, volume_name)| PodVolumeInfo {
        snapshot_handle: text("snapshotID"),
        size: status["progress"]["totalBytes"].as_i64().unwrap_or_default(),
        incremental_size: status["incrementalBytes"].as_i64().unwrap_or_default(),
        uploader_type: "restic".to_owned(),
        volume_name,
        pod_name,
        pod_namespace,
        node_name: copy.and_then(|copy| copy["spec"]["node"].as_str()).unwrap_or_default().to_owned(),
        phase: text("phase"),
    });
}
