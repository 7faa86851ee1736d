//! One PodVolumeRestore: waits until the restored pod waits for its data on a node; its mover writes there, verifies and
//! leaves the file that lets the pod go on.

use std::path::PathBuf;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::ResourceExt;
use lifeboat_api::velero::{PodVolumeRestore, names};
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{self, RestoreWork, Target};
use lifeboat_plan::movers::Place as Where;
use lifeboat_plan::pod_volumes::{ClaimOf, DONE_DIRECTORY, Standing, files, started, status};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::gather;
use crate::carrying::{Carried, Case, Desk, Mission, Terms, Trouble, Work, carry, failed, misunderstood};
use crate::repositories::RepositoryKey;

struct Filling<'a> {
    case: Case,
    object: &'a PodVolumeRestore,
}

impl Carried for PodVolumeRestore {
    const CONTROLLER: &'static str = "pod-volume-restore";

    async fn carry(&self, desk: &Desk, cancel: &CancellationToken) -> Result<(), ApiError> {
        let terms = Terms {
            key: RepositoryKey::new(&self.spec.backup_storage_location, &self.spec.source_namespace),
            make: false,
            group: label(self, names::RESTORE_NAME),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
        };
        let case = Case::new(desk, self, terms);
        carry(&Filling { case, object: self }, cancel).await
    }
}

fn label(object: &PodVolumeRestore, name: &str) -> String {
    object.labels().get(name).cloned().unwrap_or_default()
}

#[async_trait]
impl Work for Filling<'_> {
    fn case(&self) -> &Case {
        &self.case
    }

    /// Waits until the pod waits; files beside what is there need a pod that runs.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<Mission, Trouble> {
        let name = self.pod();
        if self.into().is_some() {
            let pod = self.found_pod().await?.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            return match pod {
                Some(pod) if pod["status"]["phase"] == "Running" => self.mission(&pod).await,
                _ => Err(Trouble::Words(format!("pod {name} does not run: nobody has the volume mounted"))),
            };
        }
        let patience = self.case.desk.context.settings.movers.prepare_timeout;
        let made = self.object.metadata.creation_timestamp.as_ref();
        let since = made.map_or_else(|| self.case.now(), |time| time.0);
        let until = since.checked_add(patience).unwrap_or(Timestamp::MAX).min(self.case.deadline());
        let mut said = String::new();
        loop {
            let Some(pod) = self.found_pod().await? else {
                return Err(Trouble::Words(format!("pod {name} is gone")));
            };
            let words = match started(&pod) {
                Standing::Waits(_) => return self.mission(&pod).await,
                Standing::Over => {
                    let words = "the pod's init container had ended before anything was written: nobody may write into the volume of a running pod";
                    return Err(Trouble::Words(words.to_owned()));
                }
                Standing::Never(words) => return Err(Trouble::Words(words)),
                Standing::NotYet(words) => words,
            };
            if self.case.now() >= until || cancel.is_cancelled() {
                return Err(Trouble::Words(format!("pod {name} did not come up in time: {words}")));
            }
            if words != said {
                self.case.write(status::waits(&words)).await?;
                said = words;
            }
            tokio::select! {
                () = tokio::time::sleep(self.case.desk.pace) => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        match outcome {
            Outcome::Restored(told) => self.completed(told.bytes).await,
            other => misunderstood(self, &other).await,
        }
    }

    /// A pod that went on saw the file which the mover writes last.
    async fn unheard(&self, words: &str) -> Result<(), ApiError> {
        let pod = self.found_pod().await?.filter(|_| self.into().is_none());
        if pod.is_some_and(|pod| started(&pod) == Standing::Over) {
            let bytes = self.object.spec.snapshot_size.unwrap_or_default();
            return self.completed(u64::try_from(bytes).unwrap_or_default()).await;
        }
        failed(self, words).await
    }

    fn alone(&self) -> Option<&'static str> {
        if self.into().is_some() {
            return Some("the mover may still be writing: restore again into another directory");
        }
        Some("the mover may still be writing: delete the pod and its claims, and restore again")
    }

    fn whose(&self) -> Option<String> {
        Some(format!("pod {}", self.pod()))
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.case.clear().await?;
        let begun = self.into().filter(|_| self.case.has_begun());
        Ok(begun.map_or_else(String::new, |into| {
            format!("; what was restored until then is in directory {into} of the volume")
        }))
    }

    fn stays(&self) -> &'static str {
        if self.into().is_some() { "" } else { "; the pod stays in its init container" }
    }
}

impl Filling<'_> {
    async fn mission(&self, pod: &Value) -> Result<Mission, Trouble> {
        let (desk, name) = (&self.case.desk, &self.object.spec.volume);
        let Some(volume) = gather::volume(pod, name) else {
            return Err(Trouble::Words(format!("the pod has no volume {name}")));
        };
        let claim = gather::claim(desk, pod, volume).await?;
        if let Some(claim) = &claim
            && self.into().is_none()
            && !self.is_new(pod, claim)
        {
            let claim = claim.claim["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Trouble::Words(format!(
                "claim {claim} was not made by this restore: only new volumes are written into"
            )));
        }
        let (node, directory) = gather::place(desk, pod, volume, claim.as_ref()).await?;
        let (path, proof) = gather::in_mover(&directory);
        let work = RestoreWork {
            snapshot: self.object.spec.snapshot_id.clone(),
            target: Target::Path { path, proof: Some(proof) },
            sparse: true,
            paths: self.note(files::PATH).into_iter().collect(),
            into: self.into(),
            // Nobody waits for files that come beside others.
            done_file: self
                .into()
                .is_none()
                .then(|| PathBuf::from(DONE_DIRECTORY).join(label(self.object, names::RESTORE_UID))),
        };
        Ok(Mission {
            work: task::Work::Restore(work),
            shown: json!({"node": node}),
            place: Where::NodeDirectory { node, directory: directory.mount, writable: true },
        })
    }

    fn note(&self, name: &str) -> Option<String> {
        self.object.annotations().get(name).cloned()
    }

    /// The directory for files that come beside what is there.
    fn into(&self) -> Option<String> {
        self.note(files::INTO)
    }

    /// Whether a claim is new: made by this restore, or with the pod.
    fn is_new(&self, pod: &Value, claim: &ClaimOf) -> bool {
        let meta = &claim.claim["metadata"];
        let restore = self.object.labels().get(names::RESTORE_NAME);
        let labelled = meta["labels"][names::RESTORE_NAME].as_str();
        let owners = meta["ownerReferences"].as_array().into_iter().flatten();
        let with_pod = owners.into_iter().any(|owner| owner["uid"] == pod["metadata"]["uid"]);
        with_pod || labelled.is_some() && labelled == restore.map(String::as_str)
    }

    async fn completed(&self, bytes: u64) -> Result<(), ApiError> {
        self.case.write(status::restored(bytes, self.case.now())).await?;
        self.case.clear().await
    }

    /// The very pod that is meant.
    async fn found_pod(&self) -> Result<Option<Value>, ApiError> {
        let pod = &self.object.spec.pod;
        let (namespace, name) = (pod.namespace.as_deref(), pod.name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let found = gather::pod(&self.case.desk, namespace, name).await?;
        Ok(found.filter(|found| found["metadata"]["uid"].as_str() == pod.uid.as_deref()))
    }

    /// As people call it.
    fn pod(&self) -> String {
        let pod = &self.object.spec.pod;
        let (namespace, name) = (pod.namespace.as_deref(), pod.name.as_deref());
        format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
    }
}
