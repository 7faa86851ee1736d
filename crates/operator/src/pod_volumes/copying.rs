//! One PodVolumeBackup: finds the volume's directory, and believes nobody but the repository: the snapshot tagged with the
//! task's UID is the copy, where the pod stayed until it was made.

use async_trait::async_trait;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::{Backup, PodVolumeBackup, UploaderType, names};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::report::{BackedUp, Outcome};
use lifeboat_mover::task::{self, BackupWork, Source};
use lifeboat_plan::movers::Place as Where;
use lifeboat_plan::pod_volumes::{DONE_DIRECTORY, host, report_key, status, stayed};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::gather;
use crate::carrying::{
    Carried, Case, Desk, Made, Mission, Terms, Trouble, Work, cancelled, carry, failed, misunderstood,
};
use crate::repositories::RepositoryKey;

struct Copying<'a> {
    case: Case,
    object: &'a PodVolumeBackup,
}

impl Carried for PodVolumeBackup {
    const CONTROLLER: &'static str = "pod-volume-backup";

    async fn carry(&self, desk: &Desk, cancel: &CancellationToken) -> Result<(), ApiError> {
        let terms = Terms {
            key: RepositoryKey::new(
                &self.spec.backup_storage_location,
                self.spec.pod.namespace.as_deref().unwrap_or_default(),
            ),
            make: true,
            group: backup_of(self),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
        };
        let case = Case::new(desk, self, terms);
        carry(&Copying { case, object: self }, cancel).await
    }
}

/// The name of the Backup.
fn backup_of(object: &PodVolumeBackup) -> String {
    let tagged = object.spec.tags.as_ref().and_then(|tags| tags.get("backup"));
    tagged.or_else(|| object.labels().get(names::BACKUP_NAME)).cloned().unwrap_or_default()
}

#[async_trait]
impl Work for Copying<'_> {
    fn case(&self) -> &Case {
        &self.case
    }

    async fn settled(&self, cancel: &CancellationToken) -> Result<bool, ApiError> {
        if cancel.is_cancelled() {
            return Ok(false);
        }
        if let Some(words) = self.unwanted().await? {
            return cancelled(self, &words).await.map(|()| true);
        }
        if matches!(self.object.spec.uploader_type, Some(UploaderType::Kopia)) {
            let words = "uploaderType kopia is not supported: Lifeboat writes restic's format";
            return failed(self, words).await.map(|()| true);
        }
        Ok(false)
    }

    async fn prepare(&self, _cancel: &CancellationToken) -> Result<Mission, Trouble> {
        if self.case.is_late() {
            return Err(Trouble::Words(self.case.late()));
        }
        let (desk, volume) = (&self.case.desk, &self.object.spec.volume);
        let pod = self.running_pod().await?;
        let Some(volume) = gather::volume(&pod, volume) else {
            return Err(Trouble::Words(format!("pod {} has no volume {volume}", self.pod())));
        };
        let claim = gather::claim(desk, &pod, volume).await?;
        let (node, directory) = gather::place(desk, &pod, volume, claim.as_ref()).await?;
        let (path, proof) = gather::in_mover(&directory);
        let claim = claim.and_then(|claim| claim.claim["metadata"]["name"].as_str().map(str::to_owned));
        let source = Source::Path { path, proof: Some(proof) };
        Ok(Mission {
            work: task::Work::Backup(self.work(source, claim.as_deref())),
            shown: json!({"path": directory.on_node()}),
            place: Where::NodeDirectory { node, directory: directory.mount, writable: false },
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

    fn whose(&self) -> Option<String> {
        Some(format!("pod {}", self.pod()))
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.case.clear().await?;
        Ok(self.case.forget_all().await)
    }
}

impl Copying<'_> {
    /// Why nobody wants the copy any more.
    async fn unwanted(&self) -> Result<Option<String>, ApiError> {
        let owners = self.object.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.kind == "Backup");
        let uid = self.object.labels().get(names::BACKUP_UID);
        let (Some(owner), Some(uid)) = (owner, uid) else { return Ok(None) };
        let context = &self.case.desk.context;
        let backups: Api<Backup> = Api::namespaced(context.client.clone(), &context.settings.namespace);
        let found =
            backups.get_metadata_opt(&owner.name).await.attempt(format!("read Backup {}", owner.name))?;
        let same = found.is_some_and(|found| found.uid().as_deref() == Some(uid.as_str()));
        Ok((!same).then(|| format!("its Backup {} is gone", owner.name)))
    }

    async fn running_pod(&self) -> Result<Value, Trouble> {
        let name = self.pod();
        let Some(pod) = self.found_pod().await?.filter(|pod| pod["metadata"]["uid"] == self.pod_uid()) else {
            return Err(Trouble::Words(format!("pod {name} is gone")));
        };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return Err(Trouble::Words(format!("pod {name} is being deleted")));
        }
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if phase != "Running" {
            return Err(Trouble::Words(format!(
                "pod {name} does not run (phase {phase}): only volumes of running pods are whole"
            )));
        }
        Ok(pod)
    }

    fn work(&self, source: Source, claim: Option<&str>) -> BackupWork {
        let spec = &self.object.spec;
        let pod = spec.pod.name.as_deref().unwrap_or_default();
        let tags = spec.tags.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        BackupWork {
            source,
            host: host(self.case.key.name(), pod, &spec.volume, claim),
            tags: tags.collect(),
            excludes: vec![format!("/{DONE_DIRECTORY}")],
            report: Some(report_key(&self.case.group, &self.case.task())),
        }
    }

    /// The mover has ended. `told` is an error where it did not say that it made a snapshot.
    async fn copied(&self, told: Result<BackedUp, &str>) -> Result<(), ApiError> {
        let Made { snapshot, end } = match self.case.copy(told).await {
            Ok(made) => made,
            Err(words) => return failed(self, &words).await,
        };
        let now = self.case.now();
        let pod = self.found_pod().await?;
        if let Err(words) = stayed(pod.as_ref(), self.pod_uid(), end.unwrap_or(now)) {
            return failed(self, &format!("{}: {words}", self.pod())).await;
        }
        self.case.forget_earlier().await;
        if self.case.write(status::copied(&snapshot, now)).await? {
            if snapshot.unreadable > 0 {
                self.case.tell("Incomplete", &status::incomplete(&snapshot)).await;
            }
        } else {
            self.case.forget(&[snapshot.id]).await;
        }
        self.case.clear().await
    }

    async fn found_pod(&self) -> Result<Option<Value>, ApiError> {
        let pod = &self.object.spec.pod;
        let name = pod.name.as_deref().unwrap_or_default();
        gather::pod(&self.case.desk, self.case.key.name(), name).await
    }

    /// As people call it.
    fn pod(&self) -> String {
        format!("{}/{}", self.case.key.name(), self.object.spec.pod.name.as_deref().unwrap_or_default())
    }

    fn pod_uid(&self) -> &str {
        self.object.spec.pod.uid.as_deref().unwrap_or_default()
    }
}
