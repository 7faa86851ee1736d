//! One DataUpload: makes its CSI snapshot readable for a mover, which copies it into the repository; then deletes
//! what was made for that, and the CSI snapshot. The proof is the snapshot in the repository that is tagged with the
//! task's UID; it is recorded in the object before anything is deleted.

use std::sync::Arc;

use async_trait::async_trait;
use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{DataUpload, names};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{self, BackupWork, Source};
use lifeboat_plan::transfer::movers::{DATA, DEVICE, MoverPlace};
use lifeboat_plan::velero::data_movement::is_built_in;
use lifeboat_plan::velero::pod_volumes::{backup_tag, has_ended, report_key, status};
use lifeboat_plan::velero::uploader;
use lifeboat_transfer::attempts::{
    End, NotPrepared, Prepared, Reported, Steps, Stored, Transfer, WorkContext, failed, run_transfer,
    wrong_result,
};
use lifeboat_transfer::exposure::{Exposed, Exposures, SnapshotSource, Waiting};
use lifeboat_transfer::snapshots::Snapshots;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::exposures;
use crate::repositories;
use crate::transfers::{ObjectRecord, Shows, TransferKind, TransferRequest, transfer};

/// Annotation: the final status of the object, while objects that were made for it are being removed.
const END: &str = "lifeboat.io/end";

struct Uploading<'a> {
    transfer: Transfer,
    record: Arc<ObjectRecord>,
    object: &'a DataUpload,
}

impl TransferKind for DataUpload {
    const CONTROLLER: &'static str = "data-upload";

    fn is_ours(&self) -> bool {
        is_built_in(self.spec.datamover.as_deref())
    }

    async fn run_transfer(&self, work: &WorkContext, cancel: &CancellationToken) -> Result<(), ApiError> {
        let request = TransferRequest {
            key: repositories::key(
                &LocationName::new(&self.spec.backup_storage_location),
                &NamespaceName::new(&self.spec.source_namespace),
            ),
            make: true,
            group: self.labels().get(names::BACKUP_NAME).cloned().unwrap_or_default(),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
            pod: None,
            shows: Shows { is_of_pod: false, node: true },
        };
        let (transfer, record) = transfer(work, self, request);
        run_transfer(&Uploading { transfer, record, object: self }, cancel).await
    }
}

#[async_trait]
impl Steps for Uploading<'_> {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// True if an earlier server recorded the copy: only the cleanup is left. If the upload was cancelled since, the
    /// copy is forgotten.
    async fn settled(&self, cancel: &CancellationToken) -> Result<bool, ApiError> {
        match end_of(self.object.annotations().get(END)) {
            Some(end) if !cancel.is_cancelled() => self.end(&end).await.map(|()| true),
            _ => Ok(false),
        }
    }

    async fn prepare(&self, cancel: &CancellationToken) -> Result<Prepared, NotPrepared> {
        if self.transfer.is_late() {
            return Err(NotPrepared::Because(self.transfer.not_started()));
        }
        let threads = uploader::reading_threads(self.object.spec.data_mover_config.as_ref());
        let threads = threads.map_err(|error| NotPrepared::Because(error.to_string()))?;
        let limit = self.transfer.work.settings.prepare_timeout;
        let waiting = Waiting { record: self.record.as_ref(), limit, cancel };
        let exposed = self.exposures().expose(&self.record.uid, self.source()?, waiting).await?;
        let Exposed { claim, block, node } = exposed;
        let work = task::TaskWork::Backup(self.work(block));
        // A file system that was snapshotted while in use is repaired when it is mounted.
        let place = MoverPlace::Claim { claim, block, writable: false, node };
        let shown = json!({"path": if block { DEVICE } else { DATA }});
        Ok(Prepared::single(&self.transfer, work, place, shown).with_threads(threads))
    }

    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        match outcome {
            Outcome::BackedUp(reported) => self.copied(Reported::Snapshot(reported)).await,
            other => wrong_result(self, &other).await,
        }
    }

    async fn unreported(&self, message: &str) -> Result<(), ApiError> {
        self.copied(Reported::Nothing(message)).await
    }

    async fn is_undone(&self) -> bool {
        self.transfer.stored_nothing().await
    }

    /// Adds why the claim of a mover that never started has no volume.
    async fn complaint(&self, message: String) -> String {
        match self.exposures().complaint(&self.record.uid).await {
            Some(why) => format!("{message}; its volume could not be made from the snapshot: {why}"),
            None => message,
        }
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.remove_source().await?;
        Ok(self.transfer.forget_all().await)
    }

    async fn recorded(&self) -> Result<Option<Value>, ApiError> {
        let record = &self.record;
        let found = record.api.get_opt(&record.name).await.attempt("read a DataUpload")?;
        Ok(found.and_then(|found| end_of(found.annotations().get(END))))
    }

    async fn write_end(&self, end: End<'_>, is_clean: bool) -> Result<bool, ApiError> {
        let mut patch = self.record.end_patch(end);
        patch["metadata"]["annotations"][END] = Value::Null;
        if is_clean {
            patch["status"]["snapshotID"] = Value::Null;
        }
        self.record.write(patch).await
    }
}

fn end_of(annotation: Option<&String>) -> Option<Value> {
    serde_json::from_str(annotation?).ok()
}

impl Uploading<'_> {
    fn exposures(&self) -> Exposures {
        exposures(&self.transfer.work)
    }

    /// The snapshot that is to be copied.
    fn source(&self) -> Result<SnapshotSource<'_>, NotPrepared> {
        let spec = &self.object.spec;
        let Some(source) = &spec.csi_snapshot else {
            return Err(NotPrepared::Because(
                "spec.csiSnapshot is missing: only CSI snapshots can be moved".to_owned(),
            ));
        };
        Ok(SnapshotSource {
            namespace: &spec.source_namespace,
            claim: &spec.source_pvc,
            snapshot: &source.volume_snapshot,
            snapshot_class: source.snapshot_class.as_deref().unwrap_or_default(),
            storage_class: &source.storage_class,
        })
    }

    fn work(&self, block: bool) -> BackupWork {
        let (spec, namespace, backup) = (&self.object.spec, self.transfer.key.name(), &self.transfer.group);
        let source = if block {
            Source::BlockDevice { path: DEVICE.into(), name: spec.source_pvc.clone() }
        } else {
            Source::Snapshot { path: DATA.into() }
        };
        // Upstream's tags, by which people find the snapshot's backup.
        let mut tags = vec![
            "snapshot-requester=snapshot-data-upload-download".to_owned(),
            format!("backup={backup}"),
            format!("ns={namespace}"),
            format!("pvc={}", spec.source_pvc),
        ];
        // As for copies of pod volumes: names are reused, UIDs are not.
        tags.extend(self.object.labels().get(names::BACKUP_UID).map(|uid| backup_tag(&BackupUid::new(uid))));
        BackupWork {
            tags,
            report: Some(report_key(backup, &self.transfer.task())),
            ..BackupWork::new(source, format!("{namespace}/{}", spec.source_pvc))
        }
    }

    /// Records the copy of a mover that has ended, and finishes.
    async fn copied(&self, reported: Reported<'_>) -> Result<(), ApiError> {
        let Stored { snapshot, .. } = match self.transfer.copy(reported).await {
            Ok(stored) => stored,
            Err(error) => return failed(self, &error.to_string()).await,
        };
        self.transfer.forget_earlier().await;
        let end = status::copied(&snapshot, self.transfer.now());
        // The final status is recorded first; users and actions see it after the cleanup.
        let record = json!({"metadata": {"annotations": {END: end.to_string()}},
            "status": {"snapshotID": snapshot.id}});
        if !self.record.write(record).await? {
            return self.clean().await.map(drop);
        }
        self.end(&end).await
    }

    /// Removes what was made for the upload, and writes the end.
    async fn end(&self, end: &Value) -> Result<(), ApiError> {
        self.remove_source().await?;
        self.write_end(End::Recorded(end), false).await.map(drop)
    }

    /// Deletes the movers, the objects that were made for them, and the CSI snapshot.
    async fn remove_source(&self) -> Result<(), ApiError> {
        self.transfer.clear().await?;
        self.exposures().remove(&self.record.uid).await?;
        let Some(source) = &self.object.spec.csi_snapshot else { return Ok(()) };
        if self.is_shared(&source.volume_snapshot).await? {
            return Ok(());
        }
        let snapshots = Snapshots::new(&self.transfer.work.core.client);
        let namespace = &self.object.spec.source_namespace;
        snapshots.remove(namespace, &source.volume_snapshot, None, true).await
    }

    /// Whether another DataUpload still needs the CSI snapshot: the next attempt of a backup creates one for the same
    /// snapshot if an earlier one was cancelled.
    async fn is_shared(&self, snapshot: &str) -> Result<bool, ApiError> {
        let record = &self.record;
        let all = record.api.list(&ListParams::default()).await.attempt("list DataUploads")?.items;
        let needs = |other: &kube::api::DynamicObject| {
            let text =
                |pointer: &str| other.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            other.uid().as_ref() != Some(&record.uid)
                && text("/spec/csiSnapshot/volumeSnapshot") == snapshot
                && text("/spec/sourceNamespace") == self.object.spec.source_namespace
                && other.data["spec"]["cancel"] != true
                && other.metadata.deletion_timestamp.is_none()
                && !has_ended(&other.data)
        };
        Ok(all.iter().any(needs))
    }
}
