//! One PodVolumeRestore from its first phase to its last: waits until the restored pod waits for its data on a node, sends a
//! mover there that writes, verifies and leaves the file that lets the pod go on. An error is the API's, and worth another
//! try from the beginning.

use std::path::PathBuf;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{DataMovePhase, PodVolumeRestore, names};
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{Limits, LockTerms, RestoreWork, Target, Task, VERSION, Work};
use lifeboat_plan::movers::{Errand, Owner, Place as Where, SCRATCH};
use lifeboat_plan::pod_volumes::{
    ATTEMPT, ATTEMPTS, ClaimOf, DEAD_OWNERS, DONE_DIRECTORY, Directory, Standing, attempt, started, status,
    task_uid,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::gather::{self, Trouble};
use super::hands::Reach;
use super::object::Place;
use super::shown::Shown;
use super::{Desk, left};
use crate::movers::{Assignment, DeathCause, Ended};

struct Filling<'a> {
    desk: &'a Desk,
    place: Place,
    object: &'a PodVolumeRestore,
    about: ObjectReference,
    deadline: Timestamp,
}

/// What a look at the pod gives.
enum Ready {
    /// The directory to write into, on its node.
    On(String, Directory),
    /// The pod saw all of its data.
    Over,
}

pub(crate) async fn run(
    desk: &Desk,
    object: &PodVolumeRestore,
    cancel: &CancellationToken,
) -> Result<(), ApiError> {
    let work = Filling {
        desk,
        place: Place::of(&desk.context, object),
        object,
        about: object.object_ref(&()),
        deadline: desk.deadline(&object.metadata),
    };
    work.run(cancel).await
}

impl Filling<'_> {
    async fn run(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        let mut attempt = attempt(self.note(ATTEMPT));
        let mut begun = self.note(ATTEMPT).is_some();
        let mut dead: Vec<String> = self
            .note(DEAD_OWNERS)
            .unwrap_or_default()
            .split(',')
            .filter(|one| !one.is_empty())
            .map(str::to_owned)
            .collect();
        loop {
            if cancel.is_cancelled() {
                return self.cancelled(attempt).await;
            }
            let (node, directory) = match self.ready(begun, cancel).await {
                Ok(Ready::On(node, directory)) => (node, directory),
                // The mover wrote its file and nobody heard it say so.
                Ok(Ready::Over) => {
                    let bytes = self.object.spec.snapshot_size.unwrap_or_default();
                    return self.completed(attempt, u64::try_from(bytes).unwrap_or_default()).await;
                }
                Err(Trouble::Words(_)) if cancel.is_cancelled() => return self.cancelled(attempt).await,
                Err(Trouble::Words(words)) => return self.failed(attempt, &words).await,
                Err(Trouble::Api(error)) => return Err(error),
            };
            let spec = &self.object.spec;
            let repository = (spec.backup_storage_location.as_str(), spec.source_namespace.as_str());
            let reach = match self.desk.reach(&self.place, repository, false, cancel).await {
                Ok(reach) => reach,
                Err(words) => return self.failed(attempt, &words).await,
            };
            let new = matches!(self.object.phase(), DataMovePhase::New) || attempt > 1;
            let mut patch = status::accepted(attempt, &reach.identifier, self.desk.context.now());
            if !new {
                patch["status"] = json!({});
            }
            patch["status"]["node"] = json!(node);
            if !self.place.write(patch).await? {
                return self.desk.hands.clear(&self.task(attempt)).await;
            }
            begun = true;
            let assignment = self.assignment(attempt, &dead, reach, &node, &directory);
            let start = self.object.status.as_ref().and_then(|status| status.start_timestamp.as_ref());
            let start = start.map(|time| lifeboat_plan::time::seconds(time.0));
            let shown = Shown::new(&self.desk.context, self.place.clone(), start, true);
            match self.desk.hands.carry_out(assignment, &shown, cancel).await? {
                Ended::Left => return Ok(()),
                Ended::Cancelled => return self.cancelled(attempt).await,
                Ended::Told(result) => {
                    return match result.outcome {
                        Outcome::Restored(told) if told.failed.count == 0 => {
                            self.completed(attempt, told.bytes).await
                        }
                        Outcome::Restored(told) => {
                            let words = format!(
                                "{} files could not be restored ({}); the pod stays in its init container",
                                told.failed.count,
                                told.failed.first.join(", ")
                            );
                            self.failed(attempt, &words).await
                        }
                        Outcome::Failed(failure) => self.failed(attempt, &failure.message).await,
                        other => {
                            self.failed(attempt, &format!("the mover answered another question: {other:?}"))
                                .await
                        }
                    };
                }
                Ended::Died(death) => {
                    // Whose end nobody reported may still write, and two movers must not write into one volume.
                    let is_over = death.dead_owner.is_some() || death.cause == DeathCause::Unschedulable;
                    if let Some(owner) = &death.dead_owner {
                        let spec = &self.object.spec;
                        let (location, namespace) = (&spec.backup_storage_location, &spec.source_namespace);
                        self.desk.hands.unlock(location, namespace, owner).await;
                    }
                    if !death.may_retry || attempt >= ATTEMPTS || !is_over {
                        let over = matches!(self.ready(true, cancel).await, Ok(Ready::Over));
                        if over {
                            continue;
                        }
                        let mut words = death.words;
                        if death.may_retry && !is_over {
                            words.push_str(
                                "; it is not tried again, because the mover may still be writing: delete the pod and its claims, and restore again",
                            );
                        }
                        return self.failed(attempt, &words).await;
                    }
                    dead.extend(death.dead_owner);
                    if !self.place.write(status::again(attempt + 1, &dead, &death.words)).await? {
                        return self.desk.hands.clear(&self.task(attempt)).await;
                    }
                    self.tell("Retried", &death.words).await;
                    self.desk.hands.clear(&self.task(attempt)).await?;
                    attempt += 1;
                }
            }
        }
    }

    /// Waits until the pod waits. `begun`: whether a mover may have been there.
    async fn ready(&self, begun: bool, cancel: &CancellationToken) -> Result<Ready, Trouble> {
        let pod = &self.object.spec.pod;
        let (namespace, name) =
            (pod.namespace.clone().unwrap_or_default(), pod.name.clone().unwrap_or_default());
        let patience = self.desk.context.settings.movers.prepare_timeout;
        let since =
            self.object.metadata.creation_timestamp.as_ref().map_or(self.desk.context.now(), |time| time.0);
        let until = since.checked_add(patience).unwrap_or(Timestamp::MAX).min(self.deadline);
        let mut said = String::new();
        loop {
            let found = gather::pod(self.desk, &namespace, &name).await?;
            let Some(found) = found.filter(|found| found["metadata"]["uid"].as_str() == pod.uid.as_deref())
            else {
                return Err(Trouble::Words(format!("pod {namespace}/{name} is gone")));
            };
            let words = match started(&found) {
                Standing::Waits(_) => return self.directory(&found).await,
                Standing::Over if begun => return Ok(Ready::Over),
                Standing::Over => {
                    let words = "the pod's init container had ended before anything was written: nobody may write into the volume of a running pod";
                    return Err(Trouble::Words(words.to_owned()));
                }
                Standing::Never(words) => return Err(Trouble::Words(words)),
                Standing::NotYet(words) => words,
            };
            if self.desk.context.now() >= until || cancel.is_cancelled() {
                return Err(Trouble::Words(format!(
                    "pod {namespace}/{name} did not come up in time: {words}"
                )));
            }
            if words != said {
                self.place.write(status::waits(&words)).await?;
                said = words;
            }
            tokio::select! {
                () = tokio::time::sleep(self.desk.pace) => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    async fn directory(&self, pod: &Value) -> Result<Ready, Trouble> {
        let name = &self.object.spec.volume;
        let Some(volume) = gather::volume(pod, name) else {
            return Err(Trouble::Words(format!("the pod has no volume {name}")));
        };
        let claim = gather::claim(self.desk, pod, volume).await?;
        if let Some(claim) = &claim
            && !self.is_ours(pod, claim)
        {
            let claim = claim.claim["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Trouble::Words(format!(
                "claim {claim} was not made by this restore: only new volumes are written into"
            )));
        }
        let (node, directory) = gather::place(self.desk, pod, volume, claim.as_ref()).await?;
        Ok(Ready::On(node, directory))
    }

    /// Whether a claim is new: made by this restore, or with the pod.
    fn is_ours(&self, pod: &Value, claim: &ClaimOf) -> bool {
        let meta = &claim.claim["metadata"];
        let restore = self.object.labels().get(names::RESTORE_NAME);
        let labelled = meta["labels"][names::RESTORE_NAME].as_str();
        let owners = meta["ownerReferences"].as_array().into_iter().flatten();
        let with_pod = owners.into_iter().any(|owner| owner["uid"] == pod["metadata"]["uid"]);
        with_pod || labelled.is_some() && labelled == restore.map(String::as_str)
    }

    fn assignment(
        &self,
        attempt: u64,
        dead: &[String],
        reach: Reach,
        node: &str,
        directory: &Directory,
    ) -> Assignment {
        let spec = &self.object.spec;
        let uid = self.task(attempt);
        let seconds = left(self.deadline, self.desk.context.now());
        let (path, proof) = gather::in_mover(directory);
        let label = |name: &str| self.object.labels().get(name).cloned().unwrap_or_default();
        let work = RestoreWork {
            snapshot: spec.snapshot_id.clone(),
            target: Target::Path { path, proof: Some(proof) },
            sparse: true,
            paths: Vec::new(),
            into: None,
            done_file: Some(PathBuf::from(DONE_DIRECTORY).join(label(names::RESTORE_UID))),
        };
        let task = Task {
            version: VERSION,
            uid: uid.clone(),
            work: Work::Restore(work),
            repository: reach.task,
            lock: LockTerms { cluster: reach.cluster, dead_owners: dead.to_vec(), wait_seconds: seconds },
            limits: Limits { scratch: Some(SCRATCH.into()), ..Limits::default() },
            deadline: Some(self.deadline),
        };
        let errand = Errand {
            uid,
            owner: Owner {
                kind: self.place.kind.clone(),
                name: self.place.name.clone(),
                uid: self.place.uid.clone(),
            },
            place: Where::NodeDirectory {
                node: node.to_owned(),
                directory: directory.mount.clone(),
                writable: true,
            },
            repository: format!("{}/{}", spec.backup_storage_location, spec.source_namespace),
            group: label(names::RESTORE_NAME),
            deadline_seconds: seconds,
        };
        Assignment { errand, task, files: reach.files }
    }

    async fn completed(&self, attempt: u64, bytes: u64) -> Result<(), ApiError> {
        self.place.write(status::restored(bytes, self.desk.context.now())).await?;
        self.desk.hands.clear(&self.task(attempt)).await
    }

    async fn failed(&self, attempt: u64, words: &str) -> Result<(), ApiError> {
        self.clear(attempt).await?;
        self.place.write(status::failed(words, self.desk.context.now())).await?;
        self.tell("Failed", words).await;
        Ok(())
    }

    async fn cancelled(&self, attempt: u64) -> Result<(), ApiError> {
        self.clear(attempt).await?;
        let words = "it was cancelled; the pod stays in its init container";
        self.place.write(status::canceled(words, self.desk.context.now())).await?;
        Ok(())
    }

    async fn clear(&self, attempt: u64) -> Result<(), ApiError> {
        for number in 1..=attempt {
            self.desk.hands.clear(&self.task(number)).await?;
        }
        Ok(())
    }

    async fn tell(&self, reason: &str, words: &str) {
        self.desk.context.events.warning(&self.about, reason, words).await;
    }

    fn note(&self, name: &str) -> Option<&str> {
        self.object.annotations().get(name).map(String::as_str)
    }

    fn task(&self, attempt: u64) -> String {
        task_uid(&self.place.uid, attempt)
    }
}
