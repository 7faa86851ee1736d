//! One DataUpload: shows its snapshot to a mover, which copies it into the repository; takes away what was made for that,
//! and the snapshot. The snapshot in the repository that carries the task's UID is the proof; it is on record in the object
//! before anything is taken away.

use async_trait::async_trait;
use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::{DataMovePhase, DataUpload, names};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::report::{BackedUp, Outcome};
use lifeboat_mover::task::{self, BackupWork, Source};
use lifeboat_plan::data_movement::{exposed_name, is_built_in};
use lifeboat_plan::movers::{DATA, DEVICE, Place as Where};
use lifeboat_plan::pod_volumes::{backup_tag, report_key, status};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::claims::Claims;
use super::exposing::{self, Exposed};
use crate::carrying::{
    Carried, Case, Desk, Made, Mission, Terms, Trouble, Work, carry, failed, misunderstood,
};
use crate::csi::Snapshots;

/// Annotation: the end of the object, while it is cleared up.
const END: &str = "lifeboat.io/end";

struct Uploading<'a> {
    case: Case,
    object: &'a DataUpload,
}

impl Carried for DataUpload {
    const CONTROLLER: &'static str = "data-upload";

    fn is_ours(&self) -> bool {
        is_built_in(self.spec.datamover.as_deref())
    }

    async fn carry(&self, desk: &Desk, cancel: &CancellationToken) -> Result<(), ApiError> {
        let terms = Terms {
            location: &self.spec.backup_storage_location,
            namespace: &self.spec.source_namespace,
            make: true,
            group: self.labels().get(names::BACKUP_NAME).cloned().unwrap_or_default(),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
        };
        let case = Case::new(desk, self, terms);
        carry(&Uploading { case, object: self }, cancel).await
    }
}

#[async_trait]
impl Work for Uploading<'_> {
    fn case(&self) -> &Case {
        &self.case
    }

    /// The copy was on record when a server died: only the rest is left to do. One that nobody wants any more must not stay
    /// in the repository.
    async fn settled(&self, cancel: &CancellationToken) -> Result<bool, ApiError> {
        match end_of(self.object.annotations().get(END)) {
            Some(end) if !cancel.is_cancelled() => self.end(end).await.map(|()| true),
            _ => Ok(false),
        }
    }

    async fn prepare(&self, cancel: &CancellationToken) -> Result<Mission, Trouble> {
        if self.case.is_late() {
            return Err(Trouble::Words(self.case.late()));
        }
        let limit = self.case.desk.context.settings.movers.prepare_timeout;
        let Exposed { claim, block, node } =
            exposing::expose(&self.case.desk, &self.case.place, self.object, limit, cancel).await?;
        Ok(Mission {
            work: task::Work::Backup(self.work(block)),
            // A file system that was snapshotted while it was used repairs itself when it is mounted.
            place: Where::Claim { claim, block, writable: false, node },
            shown: json!({"path": if block { DEVICE } else { DATA }}),
        })
    }

    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        match outcome {
            Outcome::BackedUp(told) => self.copied(Ok(told)).await,
            other => misunderstood(self, &other).await,
        }
    }

    async fn unheard(&self, words: &str) -> Result<(), ApiError> {
        self.copied(Err(words)).await
    }

    async fn is_undone(&self) -> bool {
        self.case.made_nothing().await
    }

    /// Why the claim of a mover that never began has no volume.
    async fn complaint(&self, words: String) -> String {
        let context = &self.case.desk.context;
        let (claims, name) = (Claims::new(&context.client), exposed_name(&self.case.place.uid));
        match claims.complaint(&context.settings.movers.namespace, &name).await {
            Some(why) => format!("{words}; its volume could not be made from the snapshot: {why}"),
            None => words,
        }
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.take_away().await?;
        Ok(self.case.forget_all().await)
    }

    async fn recorded(&self) -> Result<Option<Value>, ApiError> {
        let place = &self.case.place;
        let found = place.api.get_opt(&place.name).await.attempt("read a DataUpload")?;
        Ok(found.and_then(|found| end_of(found.annotations().get(END))))
    }

    fn complete(&self, end: &mut Value, is_clean: bool) {
        end["metadata"]["annotations"][END] = Value::Null;
        if is_clean {
            end["status"]["snapshotID"] = Value::Null;
        }
    }
}

fn end_of(annotation: Option<&String>) -> Option<Value> {
    serde_json::from_str(annotation?).ok()
}

impl Uploading<'_> {
    fn work(&self, block: bool) -> BackupWork {
        let (spec, namespace, backup) = (&self.object.spec, &self.case.namespace, &self.case.group);
        let source = if block {
            Source::BlockDevice { path: DEVICE.into(), name: spec.source_pvc.clone() }
        } else {
            Source::Snapshot { path: DATA.into() }
        };
        // Upstream's, by which a person finds whose snapshot it is.
        let mut tags = vec![
            "snapshot-requester=snapshot-data-upload-download".to_owned(),
            format!("backup={backup}"),
            format!("ns={namespace}"),
            format!("pvc={}", spec.source_pvc),
        ];
        // As copies of pods' volumes have it: a name is given again, a UID is not.
        tags.extend(self.object.labels().get(names::BACKUP_UID).map(|uid| backup_tag(uid)));
        BackupWork {
            source,
            host: format!("{namespace}/{}", spec.source_pvc),
            tags,
            excludes: Vec::new(),
            report: Some(report_key(backup, &self.case.task())),
        }
    }

    /// The mover has ended. `told` is an error where it did not say that it made a snapshot.
    async fn copied(&self, told: Result<BackedUp, &str>) -> Result<(), ApiError> {
        let Made { snapshot, .. } = match self.case.copy(told).await {
            Ok(made) => made,
            Err(words) => return failed(self, &words).await,
        };
        self.case.forget_earlier().await;
        let end = status::copied(&snapshot, self.case.now());
        // The end is on record with the phase it will have; people and actions see that when all is cleared up.
        let record = json!({"metadata": {"annotations": {END: end.to_string()}},
            "status": {"snapshotID": snapshot.id}});
        if !self.case.write(record).await? {
            return self.clean().await.map(drop);
        }
        self.end(end).await
    }

    /// Clears up, and writes the end.
    async fn end(&self, mut end: Value) -> Result<(), ApiError> {
        self.take_away().await?;
        self.complete(&mut end, false);
        self.case.write(end).await.map(drop)
    }

    /// Movers, what was made for them, and the snapshot of the driver.
    async fn take_away(&self) -> Result<(), ApiError> {
        self.case.clear().await?;
        exposing::hide(&self.case.desk, &self.case.place.uid).await?;
        let Some(source) = &self.object.spec.csi_snapshot else { return Ok(()) };
        if self.is_shared(&source.volume_snapshot).await? {
            return Ok(());
        }
        let snapshots = Snapshots::new(&self.case.desk.context.client);
        let namespace = &self.object.spec.source_namespace;
        snapshots.take_away(namespace, &source.volume_snapshot, None, true).await
    }

    /// Whether another DataUpload still needs the snapshot of the driver: the next attempt of a backup makes one for the same
    /// snapshot where an earlier one was cancelled.
    async fn is_shared(&self, snapshot: &str) -> Result<bool, ApiError> {
        let place = &self.case.place;
        let all = place.api.list(&ListParams::default()).await.attempt("list DataUploads")?.items;
        let needs = |other: &kube::api::DynamicObject| {
            let text =
                |pointer: &str| other.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            other.uid().as_ref() != Some(&place.uid)
                && text("/spec/csiSnapshot/volumeSnapshot") == snapshot
                && text("/spec/sourceNamespace") == self.object.spec.source_namespace
                && other.data["spec"]["cancel"] != true
                && other.metadata.deletion_timestamp.is_none()
                && !DataMovePhase::from(text("/status/phase")).is_terminal()
        };
        Ok(all.iter().any(needs))
    }
}
