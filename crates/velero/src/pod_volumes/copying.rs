//! One PodVolumeBackup: finds the volume's directory on the node. Only the repository proves success: the snapshot
//! that is tagged with the task's UID is the copy, if the pod existed until it was stored.

use std::sync::Arc;

use async_trait::async_trait;
use kube::{Api, ResourceExt};
use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_api::velero::{Backup, PodVolumeBackup, UploaderType, names};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{self, BackupWork, Source};
use lifeboat_plan::transfer::attempts::incomplete;
use lifeboat_plan::transfer::movers::MoverPlace;
use lifeboat_plan::velero::pod_volumes::{DONE_DIRECTORY, host, report_key, status, stayed};
use lifeboat_plan::velero::uploader;
use lifeboat_transfer::attempts::{
    AttemptRecord, NotPrepared, Prepared, Reported, Steps, Stored, Transfer, WorkContext, cancelled, failed,
    run_transfer, wrong_result,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::gather;
use crate::repositories;
use crate::transfers::{ObjectRecord, Shows, TransferKind, TransferRequest, transfer};

struct Copying<'a> {
    transfer: Transfer,
    record: Arc<ObjectRecord>,
    object: &'a PodVolumeBackup,
}

impl TransferKind for PodVolumeBackup {
    const CONTROLLER: &'static str = "pod-volume-backup";

    async fn run_transfer(&self, work: &WorkContext, cancel: &CancellationToken) -> Result<(), ApiError> {
        let request = TransferRequest {
            key: repositories::key(
                &LocationName::new(&self.spec.backup_storage_location),
                &NamespaceName::new(self.spec.pod.namespace.as_deref().unwrap_or_default()),
            ),
            make: true,
            group: backup_of(self),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
            pod: self.spec.pod.uid.clone(),
            shows: Shows { is_of_pod: true, node: false },
        };
        let (transfer, record) = transfer(work, self, request);
        run_transfer(&Copying { transfer, record, object: self }, cancel).await
    }
}

/// The name of the Backup.
fn backup_of(object: &PodVolumeBackup) -> String {
    let tagged = object.spec.tags.as_ref().and_then(|tags| tags.get("backup"));
    tagged.or_else(|| object.labels().get(names::BACKUP_NAME)).cloned().unwrap_or_default()
}

#[async_trait]
impl Steps for Copying<'_> {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    async fn settled(&self, cancel: &CancellationToken) -> Result<bool, ApiError> {
        if cancel.is_cancelled() {
            return Ok(false);
        }
        if let Some(message) = self.unwanted().await? {
            return cancelled(self, &message).await.map(|()| true);
        }
        if matches!(self.object.spec.uploader_type, Some(UploaderType::Kopia)) {
            let message = "uploaderType kopia is not supported: Lifeboat writes restic's format";
            return failed(self, message).await.map(|()| true);
        }
        Ok(false)
    }

    async fn prepare(&self, _cancel: &CancellationToken) -> Result<Prepared, NotPrepared> {
        if self.transfer.is_late() {
            return Err(NotPrepared::Because(self.transfer.not_started()));
        }
        let (work, volume) = (&self.transfer.work, &self.object.spec.volume);
        let threads = uploader::reading_threads(self.object.spec.uploader_settings.as_ref());
        let threads = threads.map_err(|error| NotPrepared::Because(error.to_string()))?;
        let pod = self.running_pod().await?;
        let Some(volume) = gather::volume(&pod, volume) else {
            return Err(NotPrepared::Because(format!("pod {} has no volume {volume}", self.pod())));
        };
        let claim = gather::claim(work, &pod, volume).await?;
        let (node, directory) = gather::directory_on_node(work, &pod, volume, claim.as_ref()).await?;
        let (path, proof) = gather::in_mover(&directory);
        let claim = claim.and_then(|claim| claim.claim["metadata"]["name"].as_str().map(str::to_owned));
        let source = Source::Path { path, proof: Some(proof) };
        let work = task::TaskWork::Backup(self.work(source, claim.as_deref()));
        let shown = json!({"path": directory.on_node()});
        let place = MoverPlace::NodeDirectory { node, directory: directory.mount, writable: false };
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

    fn volume_owner(&self) -> Option<String> {
        Some(format!("pod {}", self.pod()))
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.transfer.clear().await?;
        Ok(self.transfer.forget_all().await)
    }
}

impl Copying<'_> {
    /// Why the copy is not needed any more.
    async fn unwanted(&self) -> Result<Option<String>, ApiError> {
        let owners = self.object.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.kind == "Backup");
        let uid = self.object.labels().get(names::BACKUP_UID);
        let (Some(owner), Some(uid)) = (owner, uid) else { return Ok(None) };
        let core = &self.transfer.work.core;
        let backups: Api<Backup> = Api::namespaced(core.client.clone(), &core.namespace);
        let found =
            backups.get_metadata_opt(&owner.name).await.attempt(format!("read Backup {}", owner.name))?;
        let same = found.is_some_and(|found| found.uid().as_deref() == Some(uid.as_str()));
        Ok((!same).then(|| format!("its Backup {} is gone", owner.name)))
    }

    async fn running_pod(&self) -> Result<Value, NotPrepared> {
        let name = self.pod();
        let Some(pod) = self.found_pod().await?.filter(|pod| pod["metadata"]["uid"] == self.pod_uid()) else {
            return Err(NotPrepared::Because(format!("pod {name} is gone")));
        };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return Err(NotPrepared::Because(format!("pod {name} is being deleted")));
        }
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if phase != "Running" {
            return Err(NotPrepared::Because(format!(
                "pod {name} does not run (phase {phase}): only volumes of running pods can be copied"
            )));
        }
        Ok(pod)
    }

    fn work(&self, source: Source, claim: Option<&str>) -> BackupWork {
        let spec = &self.object.spec;
        let pod = spec.pod.name.as_deref().unwrap_or_default();
        let tags = spec.tags.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        BackupWork {
            tags: tags.collect(),
            excludes: vec![format!("/{DONE_DIRECTORY}")],
            report: Some(report_key(&self.transfer.group, &self.transfer.task())),
            ..BackupWork::new(source, host(self.transfer.key.name().as_str(), pod, &spec.volume, claim))
        }
    }

    /// Records the copy of a mover that has ended.
    async fn copied(&self, reported: Reported<'_>) -> Result<(), ApiError> {
        let Stored { snapshot, end, .. } = match self.transfer.copy(reported).await {
            Ok(stored) => stored,
            Err(error) => return failed(self, &error.to_string()).await,
        };
        let now = self.transfer.now();
        let pod = self.found_pod().await?;
        if let Err(message) = stayed(pod.as_ref(), self.pod_uid(), end.unwrap_or(now)) {
            return failed(self, &format!("{}: {message}", self.pod())).await;
        }
        self.transfer.forget_earlier().await;
        if self.record.write(status::copied(&snapshot, now)).await? {
            if snapshot.unreadable > 0 {
                self.record.warn("Incomplete", &incomplete(&snapshot)).await;
            }
        } else {
            self.transfer.forget(&[snapshot.id]).await;
        }
        self.transfer.clear().await
    }

    async fn found_pod(&self) -> Result<Option<Value>, ApiError> {
        let pod = &self.object.spec.pod;
        let name = pod.name.as_deref().unwrap_or_default();
        gather::pod(&self.transfer.work, self.transfer.key.name().as_str(), name).await
    }

    /// The pod's namespace and name, for messages.
    fn pod(&self) -> String {
        format!("{}/{}", self.transfer.key.name(), self.object.spec.pod.name.as_deref().unwrap_or_default())
    }

    fn pod_uid(&self) -> &str {
        self.object.spec.pod.uid.as_deref().unwrap_or_default()
    }
}
