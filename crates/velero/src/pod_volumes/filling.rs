//! One PodVolumeRestore: waits until the restored pod's init container waits for data on a node; the mover writes
//! there, verifies, and creates the file that lets the pod continue.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::ResourceExt;
use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_api::velero::{PodVolumeRestore, names};
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{self, RestoreWork, Target};
use lifeboat_plan::transfer::directory::ClaimOf;
use lifeboat_plan::transfer::movers::MoverPlace;
use lifeboat_plan::velero::pod_volumes::{DONE_DIRECTORY, WaitState, files, started, status};
use lifeboat_plan::velero::uploader::{self, Writing};
use lifeboat_transfer::attempts::{
    NotPrepared, Prepared, Steps, Transfer, WorkContext, failed, run_transfer, wrong_result,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::gather;
use crate::repositories;
use crate::transfers::{ObjectRecord, Shows, TransferKind, TransferRequest, transfer};

struct Filling<'a> {
    transfer: Transfer,
    record: Arc<ObjectRecord>,
    object: &'a PodVolumeRestore,
}

impl TransferKind for PodVolumeRestore {
    const CONTROLLER: &'static str = "pod-volume-restore";

    async fn run_transfer(&self, work: &WorkContext, cancel: &CancellationToken) -> Result<(), ApiError> {
        let request = TransferRequest {
            key: repositories::key(
                &LocationName::new(&self.spec.backup_storage_location),
                &NamespaceName::new(&self.spec.source_namespace),
            ),
            make: false,
            group: label(self, names::RESTORE_NAME),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
            pod: None,
            shows: Shows { is_of_pod: true, node: true },
        };
        let (transfer, record) = transfer(work, self, request);
        run_transfer(&Filling { transfer, record, object: self }, cancel).await
    }
}

fn label(object: &PodVolumeRestore, name: &str) -> String {
    object.labels().get(name).cloned().unwrap_or_default()
}

#[async_trait]
impl Steps for Filling<'_> {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// Waits until the pod's init container waits; restoring files beside existing ones needs a running pod.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<Prepared, NotPrepared> {
        let name = self.pod();
        if self.into().is_some() {
            let pod = self.found_pod().await?.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            return match pod {
                Some(pod) if pod["status"]["phase"] == "Running" => self.prepared(&pod).await,
                _ => Err(NotPrepared::Because(format!(
                    "pod {name} does not run, so its volume is not mounted"
                ))),
            };
        }
        let patience = self.transfer.work.settings.prepare_timeout;
        let made = self.object.metadata.creation_timestamp.as_ref();
        let since = made.map_or_else(|| self.transfer.now(), |time| time.0);
        let until = since.checked_add(patience).unwrap_or(Timestamp::MAX).min(self.transfer.over());
        let mut said = String::new();
        loop {
            let Some(pod) = self.found_pod().await? else {
                return Err(NotPrepared::Because(format!("pod {name} is gone")));
            };
            let message = match started(&pod) {
                WaitState::Waits(_) => return self.prepared(&pod).await,
                WaitState::Over => {
                    let message = "the pod's init container had ended before anything was written: data is not restored into the volume of a running pod";
                    return Err(NotPrepared::Because(message.to_owned()));
                }
                WaitState::Never(message) => return Err(NotPrepared::Because(message)),
                WaitState::NotYet(message) => message,
            };
            if self.transfer.now() >= until || cancel.is_cancelled() {
                return Err(NotPrepared::Because(format!("pod {name} did not come up in time: {message}")));
            }
            if message != said {
                self.record.write(status::waits(&message)).await?;
                said = message;
            }
            tokio::select! {
                () = tokio::time::sleep(self.transfer.work.pace) => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        match outcome {
            Outcome::Restored(restored) => self.completed(restored.bytes).await,
            other => wrong_result(self, &other).await,
        }
    }

    /// If the pod continued, it saw the file that the mover writes last.
    async fn unreported(&self, message: &str) -> Result<(), ApiError> {
        let pod = self.found_pod().await?.filter(|_| self.into().is_none());
        if pod.is_some_and(|pod| started(&pod) == WaitState::Over) {
            let bytes = self.object.spec.snapshot_size.unwrap_or_default();
            return self.completed(u64::try_from(bytes).unwrap_or_default()).await;
        }
        failed(self, message).await
    }

    fn sole_writer_reason(&self) -> Option<&'static str> {
        if self.into().is_some() {
            return Some("the mover may still be writing: restore again into another directory");
        }
        Some("the mover may still be writing: delete the pod and its claims, and restore again")
    }

    fn volume_owner(&self) -> Option<String> {
        Some(format!("pod {}", self.pod()))
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.transfer.clear().await?;
        let begun = self.into().filter(|_| self.transfer.has_begun());
        Ok(begun.map_or_else(String::new, |into| {
            format!("; what was restored until then is in directory {into} of the volume")
        }))
    }

    fn pod_consequence(&self) -> &'static str {
        if self.into().is_some() { "" } else { "; the pod stays in its init container" }
    }
}

impl Filling<'_> {
    async fn prepared(&self, pod: &Value) -> Result<Prepared, NotPrepared> {
        let (work, name) = (&self.transfer.work, &self.object.spec.volume);
        let Some(volume) = gather::volume(pod, name) else {
            return Err(NotPrepared::Because(format!("the pod has no volume {name}")));
        };
        let claim = gather::claim(work, pod, volume).await?;
        if let Some(claim) = &claim
            && self.into().is_none()
            && !self.is_new(pod, claim)
        {
            let claim = claim.claim["metadata"]["name"].as_str().unwrap_or_default();
            return Err(NotPrepared::Because(format!(
                "claim {claim} was not created by this restore: data is restored only into new volumes"
            )));
        }
        let (node, directory) = gather::directory_on_node(work, pod, volume, claim.as_ref()).await?;
        let (path, proof) = gather::in_mover(&directory);
        let settings = uploader::writing(self.object.spec.uploader_settings.as_ref());
        let Writing { threads, sparse } =
            settings.map_err(|error| NotPrepared::Because(error.to_string()))?;
        let work = RestoreWork {
            sparse,
            paths: self.note(files::PATH).into_iter().collect(),
            into: self.into(),
            // No init container waits for files that are restored beside existing ones.
            done_file: self
                .into()
                .is_none()
                .then(|| PathBuf::from(DONE_DIRECTORY).join(label(self.object, names::RESTORE_UID))),
            ..RestoreWork::new(
                self.object.spec.snapshot_id.clone(),
                Target::Path { path, proof: Some(proof) },
            )
        };
        let shown = json!({"node": node});
        let place = MoverPlace::NodeDirectory { node, directory: directory.mount, writable: true };
        let prepared = Prepared::single(&self.transfer, task::TaskWork::Restore(work), place, shown);
        Ok(prepared.with_threads(threads))
    }

    fn note(&self, name: &str) -> Option<String> {
        self.object.annotations().get(name).cloned()
    }

    /// The directory for files that are restored beside existing ones.
    fn into(&self) -> Option<String> {
        self.note(files::INTO)
    }

    /// Whether a claim is new: created by this restore, or with the pod.
    fn is_new(&self, pod: &Value, claim: &ClaimOf) -> bool {
        let meta = &claim.claim["metadata"];
        let restore = self.object.labels().get(names::RESTORE_NAME);
        let labelled = meta["labels"][names::RESTORE_NAME].as_str();
        let owners = meta["ownerReferences"].as_array().into_iter().flatten();
        let with_pod = owners.into_iter().any(|owner| owner["uid"] == pod["metadata"]["uid"]);
        with_pod || labelled.is_some() && labelled == restore.map(String::as_str)
    }

    async fn completed(&self, bytes: u64) -> Result<(), ApiError> {
        self.record.write(status::restored(bytes, self.transfer.now())).await?;
        self.transfer.clear().await
    }

    /// The pod, if it is still the same one.
    async fn found_pod(&self) -> Result<Option<Value>, ApiError> {
        let pod = &self.object.spec.pod;
        let (namespace, name) = (pod.namespace.as_deref(), pod.name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let found = gather::pod(&self.transfer.work, namespace, name).await?;
        Ok(found.filter(|found| found["metadata"]["uid"].as_str() == pod.uid.as_deref()))
    }

    /// The pod's namespace and name, for messages.
    fn pod(&self) -> String {
        let pod = &self.object.spec.pod;
        let (namespace, name) = (pod.namespace.as_deref(), pod.name.as_deref());
        format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
    }
}
