//! One DataUpload from its first phase to its last: shows its snapshot to a mover, which copies it into the repository;
//! takes away what was made for that, and the snapshot. The snapshot in the repository that carries the task's UID is the
//! proof; it is on record in the object before anything is taken away. An error is the API's, and worth another try from
//! the beginning.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{DataMovePhase, DataUpload, names};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::report::{BackedUp, Outcome};
use lifeboat_mover::task::{BackupWork, Limits, LockTerms, Source, Task, VERSION, Work};
use lifeboat_plan::data_movement::{exposed_name, is_built_in};
use lifeboat_plan::movers::{DATA, DEVICE, Errand, Owner, Place as Where, SCRATCH};
use lifeboat_plan::pod_volumes::{ATTEMPT, ATTEMPTS, DEAD_OWNERS, attempt, report_key, status, task_uid};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::claims::Claims;
use super::exposing::{self, Exposed};
use super::is_hopeless;
use crate::csi::Snapshots;
use crate::movers::{Assignment, Ended};
use crate::pod_volumes::{
    Desk, Made, Place, REPOSITORY_PACE, REPOSITORY_PATIENCE, Reach, Shown, Trouble, Unusable, left,
};

struct Uploading<'a> {
    desk: &'a Desk,
    place: Place,
    object: &'a DataUpload,
    about: ObjectReference,
    deadline: Timestamp,
}

/// Whether the object is one for Lifeboat.
pub(crate) fn is_ours(object: &DataUpload) -> bool {
    is_built_in(object.spec.datamover.as_deref())
}

pub(crate) async fn run(
    desk: &Desk,
    object: &DataUpload,
    cancel: &CancellationToken,
) -> Result<(), ApiError> {
    let work = Uploading {
        desk,
        place: Place::of(&desk.context, object),
        object,
        about: object.object_ref(&()),
        deadline: desk.deadline(&object.metadata),
    };
    match work.run(cancel).await {
        Err(error) if is_hopeless(&error, work.deadline, desk.context.now()) => work.give_up(&error).await,
        ended => ended,
    }
}

impl Uploading<'_> {
    async fn run(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        let mut attempt = attempt(self.note(ATTEMPT));
        let mut dead: Vec<String> =
            self.note(DEAD_OWNERS).unwrap_or_default().split(',').map(str::to_owned).collect();
        dead.retain(|one| !one.is_empty());
        // The copy was on record when a server died: only the rest is left to do.
        // Nobody wants it any more: it must not stay in the repository.
        if let Some(recorded) = self.recorded().filter(|_| !cancel.is_cancelled()) {
            return self.end(attempt, recorded).await;
        }
        if cancel.is_cancelled() {
            return self.cancelled(attempt).await;
        }
        loop {
            if self.desk.context.now() >= self.deadline {
                return self.failed(attempt, "it did not end in time (--fs-backup-timeout)").await;
            }
            let limit = self.desk.context.settings.movers.prepare_timeout;
            let exposed = match exposing::expose(self.desk, &self.place, self.object, limit, cancel).await {
                Ok(exposed) => exposed,
                Err(Trouble::Words(_)) if cancel.is_cancelled() => return self.cancelled(attempt).await,
                Err(Trouble::Words(words)) => return self.failed(attempt, &words).await,
                Err(Trouble::Api(error)) if error.is_invalid() || error.code() == Some(403) => {
                    return self.failed(attempt, &error.chain()).await;
                }
                Err(Trouble::Api(error)) => return Err(error),
            };
            let (location, namespace) = self.repository();
            let reach = match self.desk.reach(&self.place, (&location, &namespace), true, cancel).await {
                Ok(reach) => reach,
                Err(words) => return self.failed(attempt, &words).await,
            };
            if !self.accept(attempt, &exposed).await? {
                return self.clean(attempt).await.map(drop);
            }
            let assignment = self.assignment(attempt, &dead, reach, &exposed);
            let start = self.object.status.as_ref().and_then(|status| status.start_timestamp.as_ref());
            let start = start.map(|time| lifeboat_plan::time::seconds(time.0));
            let shown = Shown::new(&self.desk.context, self.place.clone(), start, true);
            match self.desk.hands.carry_out(assignment, &shown, cancel).await? {
                Ended::Left => return Ok(()),
                Ended::Cancelled => return self.cancelled(attempt).await,
                Ended::Told(result) => {
                    return match result.outcome {
                        Outcome::BackedUp(told) => self.copied(attempt, Some(told), "").await,
                        Outcome::Failed(failure) => self.copied(attempt, None, &failure.message).await,
                        other => {
                            self.failed(attempt, &format!("the mover answered another question: {other:?}"))
                                .await
                        }
                    };
                }
                Ended::Died(death) => {
                    let made = self.made(attempt).await.ok().flatten().is_some();
                    if made || !death.may_retry || attempt >= ATTEMPTS || cancel.is_cancelled() {
                        let words = self.with_complaint(&death.words).await;
                        return self.copied(attempt, None, &words).await;
                    }
                    dead.extend(death.dead_owner);
                    if !self.place.write(status::again(attempt + 1, &dead, &death.words)).await? {
                        return self.clean(attempt).await.map(drop);
                    }
                    self.tell("Retried", &death.words).await;
                    self.desk.hands.clear(&self.task(attempt)).await?;
                    attempt += 1;
                }
            }
        }
    }

    /// False where the object is gone.
    async fn accept(&self, attempt: u64, exposed: &Exposed) -> Result<bool, ApiError> {
        let mut patch = json!({"metadata": {"annotations": {ATTEMPT: attempt.to_string()}},
            "status": {"path": if exposed.block { DEVICE } else { DATA }}});
        if matches!(self.object.phase(), DataMovePhase::New) || attempt > 1 {
            patch["status"]["phase"] = json!("Accepted");
            patch["status"]["acceptedTimestamp"] =
                json!(lifeboat_plan::time::seconds(self.desk.context.now()));
        }
        self.place.write(patch).await
    }

    fn assignment(&self, attempt: u64, dead: &[String], reach: Reach, exposed: &Exposed) -> Assignment {
        let (location, namespace) = self.repository();
        let (uid, spec) = (self.task(attempt), &self.object.spec);
        let seconds = left(self.deadline, self.desk.context.now());
        let backup = self.object.labels().get(names::BACKUP_NAME).cloned().unwrap_or_default();
        let source = if exposed.block {
            Source::BlockDevice { path: DEVICE.into(), name: spec.source_pvc.clone() }
        } else {
            Source::Snapshot { path: DATA.into() }
        };
        let work = BackupWork {
            source,
            host: format!("{namespace}/{}", spec.source_pvc),
            // Upstream's, by which a person finds whose snapshot it is.
            tags: vec![
                format!("snapshot-requester=snapshot-data-upload-download"),
                format!("backup={backup}"),
                format!("ns={namespace}"),
                format!("pvc={}", spec.source_pvc),
            ],
            excludes: Vec::new(),
            report: Some(report_key(&backup, &uid)),
        };
        let task = Task {
            version: VERSION,
            uid: uid.clone(),
            work: Work::Backup(work),
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
            place: Where::Claim {
                claim: exposed.claim.clone(),
                block: exposed.block,
                // A file system that was snapshotted while it was used repairs itself when it is mounted.
                writable: false,
                node: exposed.node.clone(),
            },
            repository: format!("{location}/{namespace}"),
            group: backup,
            deadline_seconds: seconds,
        };
        Assignment { errand, task, files: reach.files }
    }

    /// The mover has ended. `told`: what it said of its snapshot; `words`: why it said nothing.
    async fn copied(&self, attempt: u64, told: Option<BackedUp>, words: &str) -> Result<(), ApiError> {
        let made = match self.made(attempt).await {
            Ok(made) => made,
            Err(trouble) => {
                return self
                    .failed(attempt, &format!("nobody can tell whether the snapshot was copied: {trouble}"))
                    .await;
            }
        };
        let Some(Made { mut snapshot, .. }) = made else {
            let words = match told {
                Some(told) => {
                    format!("the mover named snapshot {}, which is not in the repository", told.snapshot)
                }
                None => words.to_owned(),
            };
            return self.failed(attempt, &words).await;
        };
        if let Some(told) = told {
            snapshot.bytes = told.bytes;
            snapshot.bytes_added = told.bytes_added;
            snapshot.changed = told.changed.count;
            snapshot.unreadable = told.unreadable.count;
            snapshot.unreadable_first = told.unreadable.first;
        }
        let end = status::copied(&snapshot, self.desk.context.now());
        // The end is on record with the phase it will have; people and actions see that when all is cleared up.
        let mut record = json!({"metadata": {"annotations": {END: end.to_string()}}});
        record["status"]["snapshotID"] = json!(snapshot.id);
        if !self.place.write(record).await? {
            self.forget(&[snapshot.id]).await;
            return self.clean(attempt).await.map(drop);
        }
        self.end(attempt, end).await
    }

    fn recorded(&self) -> Option<Value> {
        serde_json::from_str(self.note(END)?).ok()
    }

    /// Clears up, and writes the end.
    async fn end(&self, attempt: u64, mut end: Value) -> Result<(), ApiError> {
        self.take_away(attempt).await?;
        end["metadata"]["annotations"][END] = Value::Null;
        self.place.write(end).await?;
        Ok(())
    }

    /// Movers, what was made for them, and the snapshot of the driver.
    async fn take_away(&self, attempt: u64) -> Result<(), ApiError> {
        for number in 1..=attempt {
            self.desk.hands.clear(&self.task(number)).await?;
        }
        exposing::hide(self.desk, &self.place.uid).await?;
        let Some(source) = &self.object.spec.csi_snapshot else { return Ok(()) };
        if self.is_shared(&source.volume_snapshot).await? {
            return Ok(());
        }
        let snapshots = Snapshots::new(&self.desk.context.client);
        let namespace = &self.object.spec.source_namespace;
        snapshots.take_away(namespace, &source.volume_snapshot, None, true).await
    }

    /// Whether another DataUpload still needs the snapshot of the driver: the next attempt of a backup makes one for the same
    /// snapshot where an earlier one was cancelled.
    async fn is_shared(&self, snapshot: &str) -> Result<bool, ApiError> {
        let all = self.place.api.list(&ListParams::default()).await.attempt("list DataUploads")?.items;
        let needs = |other: &&kube::api::DynamicObject| {
            let text =
                |pointer: &str| other.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            other.uid().as_ref() != Some(&self.place.uid)
                && text("/spec/csiSnapshot/volumeSnapshot") == snapshot
                && text("/spec/sourceNamespace") == self.object.spec.source_namespace
                && other.data["spec"]["cancel"] != true
                && other.metadata.deletion_timestamp.is_none()
                && !DataMovePhase::from(text("/status/phase")).is_terminal()
        };
        Ok(all.iter().find(needs).is_some())
    }

    /// Its end is written although not all could be taken away: nobody can do that. A copy that is on record is one.
    async fn give_up(&self, error: &ApiError) -> Result<(), ApiError> {
        let words = format!("{}; what was made for it may be left behind", error.chain());
        let found = self.place.api.get_opt(&self.place.name).await.attempt("read a DataUpload")?;
        let noted = |key: &str| found.as_ref().and_then(|found| found.annotations().get(key));
        let recorded = noted(END).and_then(|end| serde_json::from_str(end).ok());
        let now = self.desk.context.now();
        let mut end: Value = if let Some(recorded) = recorded {
            recorded
        } else {
            // What can be taken away goes.
            let _ = self.clean(attempt(noted(ATTEMPT).map(String::as_str))).await;
            status::failed(&words, now)
        };
        end["metadata"]["annotations"][END] = Value::Null;
        self.tell("NotCleared", &words).await;
        match self.place.write(end).await {
            Err(error) if !is_hopeless(&error, self.deadline, now) || error.is_transient() => Err(error),
            _ => Ok(()),
        }
    }

    /// The snapshot of an attempt; asked again while storage does not answer.
    async fn made(&self, attempt: u64) -> Result<Option<Made>, String> {
        let (location, namespace) = self.repository();
        let mut tries = 0;
        loop {
            match self.desk.hands.made(&location, &namespace, &self.task(attempt)).await {
                Ok(made) => return Ok(made),
                Err(Unusable { words, may_pass }) => {
                    tries += 1;
                    if !may_pass || tries >= REPOSITORY_PATIENCE {
                        return Err(words);
                    }
                }
            }
            tokio::time::sleep(self.desk.pace * REPOSITORY_PACE).await;
        }
    }

    /// Why the claim of a mover that never began has no volume.
    async fn with_complaint(&self, words: &str) -> String {
        let namespace = &self.desk.context.settings.movers.namespace;
        let claims = Claims::new(&self.desk.context.client);
        match claims.complaint(namespace, &exposed_name(&self.place.uid)).await {
            Some(complaint) => {
                format!("{words}; its volume could not be made from the snapshot: {complaint}")
            }
            None => words.to_owned(),
        }
    }

    async fn failed(&self, attempt: u64, words: &str) -> Result<(), ApiError> {
        let left = self.clean(attempt).await?;
        let words = format!("{words}{left}");
        self.place.write(status::failed(&words, self.desk.context.now())).await?;
        self.tell("Failed", &words).await;
        Ok(())
    }

    async fn cancelled(&self, attempt: u64) -> Result<(), ApiError> {
        self.place.write(status::canceling()).await?;
        let left = self.clean(attempt).await?;
        let words = format!("it was cancelled{left}");
        let mut end = status::canceled(&words, self.desk.context.now());
        end["metadata"]["annotations"][END] = Value::Null;
        if left.is_empty() {
            end["status"]["snapshotID"] = Value::Null;
        }
        self.place.write(end).await?;
        Ok(())
    }

    /// Nothing of it stays. Gives what may be left in the repository, in words.
    async fn clean(&self, attempt: u64) -> Result<String, ApiError> {
        self.take_away(attempt).await?;
        let (location, namespace) = self.repository();
        let mut made = Vec::new();
        if self.note(ATTEMPT).is_some() || !matches!(self.object.phase(), DataMovePhase::New) || attempt > 1 {
            for number in 1..=attempt {
                if let Ok(Some(found)) = self.desk.hands.made(&location, &namespace, &self.task(number)).await
                {
                    made.push(found.snapshot.id);
                }
            }
        }
        Ok(if made.is_empty() { String::new() } else { self.forget(&made).await })
    }

    async fn forget(&self, snapshots: &[String]) -> String {
        let (location, namespace) = self.repository();
        match self.desk.hands.forget(&location, &namespace, snapshots).await {
            Ok(()) => String::new(),
            Err(words) => format!("; snapshot {} is left in the repository: {words}", snapshots.join(", ")),
        }
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

    /// Location and namespace.
    fn repository(&self) -> (String, String) {
        (self.object.spec.backup_storage_location.clone(), self.object.spec.source_namespace.clone())
    }
}

/// Annotation: the end of the object, while it is cleared up.
const END: &str = "lifeboat.io/end";
