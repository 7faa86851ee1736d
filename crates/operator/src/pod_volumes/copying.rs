//! One PodVolumeBackup from its first phase to its last: finds the volume's directory and the repository, sends a mover,
//! and believes nobody but the repository: the snapshot tagged with the task's UID is the copy. An error is the API's, and
//! worth another try from the beginning.

mod tidy;

use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::velero::{Backup, DataMovePhase, PodVolumeBackup, UploaderType, names};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::report::{BackedUp, Cause, Outcome};
use lifeboat_mover::task::{BackupWork, Limits, LockTerms, Source, Task, VERSION, Work};
use lifeboat_plan::movers::{Errand, Owner, Place as Where, SCRATCH};
use lifeboat_plan::pod_volumes::{
    ATTEMPT, ATTEMPTS, DEAD_OWNERS, DONE_DIRECTORY, attempt, host, report_key, status, stayed, task_uid,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::gather::{self, Trouble};
use super::hands::{Made, Reach};
use super::object::Place;
use super::shown::Shown;
use super::{Desk, left};
use crate::movers::{Assignment, Ended};

/// How often a repository or its storage that cannot be reached is tried again, and how long in all.
pub(crate) const REPOSITORY_PACE: u32 = 5;
pub(crate) const REPOSITORY_PATIENCE: u32 = 60;

/// The work on one object.
struct Copying<'a> {
    desk: &'a Desk,
    place: Place,
    object: &'a PodVolumeBackup,
    about: ObjectReference,
    deadline: Timestamp,
    /// Whether a mover may have been sent.
    begun: AtomicBool,
}

/// Where the source is, and how a mover is told.
struct Prepared {
    node: String,
    directory: String,
    path: String,
    source: Source,
    claim: Option<String>,
}

pub(crate) async fn run(
    desk: &Desk,
    object: &PodVolumeBackup,
    cancel: &CancellationToken,
) -> Result<(), ApiError> {
    let work = Copying {
        desk,
        place: Place::of(&desk.context, object),
        object,
        about: object.object_ref(&()),
        deadline: desk.deadline(&object.metadata),
        begun: AtomicBool::new(object.annotations().contains_key(ATTEMPT)),
    };
    work.run(cancel).await
}

impl Copying<'_> {
    async fn run(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        let mut attempt = attempt(self.note(ATTEMPT));
        let mut dead: Vec<String> = self
            .note(DEAD_OWNERS)
            .unwrap_or_default()
            .split(',')
            .filter(|one| !one.is_empty())
            .map(str::to_owned)
            .collect();
        if cancel.is_cancelled() {
            return self.cancelled(attempt, "it was cancelled (spec.cancel)").await;
        }
        if let Some(words) = self.unwanted().await? {
            return self.cancelled(attempt, &words).await;
        }
        if matches!(self.object.spec.uploader_type, Some(UploaderType::Kopia)) {
            return self
                .failed(attempt, "uploaderType kopia is not supported: Lifeboat writes restic's format")
                .await;
        }
        loop {
            let prepared = match self.prepare().await {
                Ok(prepared) => prepared,
                Err(Trouble::Words(words)) => return self.unprepared(attempt, &words).await,
                Err(Trouble::Api(error)) => return Err(error),
            };
            let (location, namespace) = self.repository();
            let reach = match self.desk.reach(&self.place, (&location, &namespace), true, cancel).await {
                Ok(reach) => reach,
                Err(words) => return self.failed(attempt, &words).await,
            };
            if !self.accept(attempt, &reach, &prepared).await? {
                return self.cancelled(attempt, "the object is gone").await;
            }
            let assignment = self.assignment(attempt, &dead, reach, &prepared);
            let start = self.object.status.as_ref().and_then(|status| status.start_timestamp.as_ref());
            let start = start.map(|time| lifeboat_plan::time::seconds(time.0));
            let shown = Shown::new(&self.desk.context, self.place.clone(), start, false);
            match self.desk.hands.carry_out(assignment, &shown, cancel).await? {
                Ended::Left => return Ok(()),
                Ended::Cancelled => return self.cancelled(attempt, "it was cancelled").await,
                Ended::Told(_) if cancel.is_cancelled() => {
                    return self.cancelled(attempt, "it was cancelled").await;
                }
                Ended::Told(result) => {
                    return match result.outcome {
                        Outcome::BackedUp(told) => self.copied(attempt, Some(told), "").await,
                        Outcome::Failed(failure) if failure.cause == Cause::Deadline => {
                            self.copied(attempt, None, &self.late()).await
                        }
                        Outcome::Failed(failure) => self.copied(attempt, None, &failure.message).await,
                        other => {
                            let words = format!("the mover answered another question: {other:?}");
                            self.failed(attempt, &words).await
                        }
                    };
                }
                Ended::Died(death) => {
                    // Also before another attempt, which takes a lock beside it.
                    self.unlock(death.dead_owner.as_deref()).await;
                    if cancel.is_cancelled() {
                        return self.cancelled(attempt, "it was cancelled").await;
                    }
                    // Where nobody can tell what it made, nobody makes it again.
                    let nothing = matches!(self.made(attempt).await, Ok(None));
                    if !nothing || !death.may_retry || attempt >= ATTEMPTS {
                        return self.copied(attempt, None, &death.words).await;
                    }
                    dead.extend(death.dead_owner);
                    // The next attempt is on record before anything of it exists.
                    if !self.place.write(status::again(attempt + 1, &dead, &death.words)).await? {
                        return self.cancelled(attempt, "the object is gone").await;
                    }
                    self.tell("Retried", &death.words).await;
                    self.desk.hands.clear(&self.task(attempt)).await?;
                    attempt += 1;
                }
            }
        }
    }

    /// Why nobody wants the copy any more.
    async fn unwanted(&self) -> Result<Option<String>, ApiError> {
        let label = |name: &str| self.object.labels().get(name).cloned();
        let owners = self.object.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.kind == "Backup");
        let (Some(owner), Some(uid)) = (owner, label(names::BACKUP_UID)) else { return Ok(None) };
        let context = &self.desk.context;
        let backups: Api<Backup> = Api::namespaced(context.client.clone(), &context.settings.namespace);
        let found =
            backups.get_metadata_opt(&owner.name).await.attempt(format!("read Backup {}", owner.name))?;
        let same = found.is_some_and(|found| found.uid().as_deref() == Some(uid.as_str()));
        Ok((!same).then(|| format!("its Backup {} is gone", owner.name)))
    }

    /// It cannot be copied any more; the mover of an earlier server may have done it before.
    async fn unprepared(&self, attempt: u64, words: &str) -> Result<(), ApiError> {
        if self.begun.load(Ordering::Relaxed) && matches!(self.made(attempt).await, Ok(Some(_))) {
            return self.copied(attempt, None, words).await;
        }
        self.failed(attempt, words).await
    }

    async fn prepare(&self) -> Result<Prepared, Trouble> {
        let spec = &self.object.spec;
        let (namespace, name) = self.pod_name();
        if self.desk.context.now() >= self.deadline {
            return Err(Trouble::Words(self.late()));
        }
        let found = gather::pod(self.desk, &namespace, &name).await?;
        let pod = found.filter(|pod| pod["metadata"]["uid"] == self.pod_uid());
        let Some(pod) = pod else {
            return Err(Trouble::Words(format!("pod {namespace}/{name} is gone")));
        };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return Err(Trouble::Words(format!("pod {namespace}/{name} is being deleted")));
        }
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if phase != "Running" {
            return Err(Trouble::Words(format!(
                "pod {namespace}/{name} does not run (phase {phase}): only volumes of running pods are whole"
            )));
        }
        let Some(volume) = gather::volume(&pod, &spec.volume) else {
            return Err(Trouble::Words(format!("pod {namespace}/{name} has no volume {}", spec.volume)));
        };
        let claim = gather::claim(self.desk, &pod, volume).await?;
        let (node, directory) = gather::place(self.desk, &pod, volume, claim.as_ref()).await?;
        let (path, proof) = gather::in_mover(&directory);
        Ok(Prepared {
            node,
            path: format!("{}/{}", directory.mount.trim_end_matches('/'), directory.path),
            directory: directory.mount,
            source: Source::Path { path, proof: Some(proof) },
            claim: claim.and_then(|claim| claim.claim["metadata"]["name"].as_str().map(str::to_owned)),
        })
    }

    /// False where the object is gone.
    async fn accept(&self, attempt: u64, reach: &Reach, prepared: &Prepared) -> Result<bool, ApiError> {
        // What another server brought further keeps its phase.
        let new = matches!(self.object.phase(), DataMovePhase::New) || attempt > 1;
        let mut patch = status::accepted(attempt, &reach.identifier, self.desk.context.now());
        if !new {
            patch["status"] = json!({});
        }
        patch["status"]["path"] = json!(prepared.path);
        self.begun.store(true, Ordering::Relaxed);
        self.place.write(patch).await
    }

    fn assignment(&self, attempt: u64, dead: &[String], reach: Reach, prepared: &Prepared) -> Assignment {
        let (spec, now) = (&self.object.spec, self.desk.context.now());
        let (location, namespace) = self.repository();
        let backup = self.backup();
        let uid = self.task(attempt);
        let seconds = left(self.deadline, now);
        let tags = spec.tags.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let work = BackupWork {
            source: prepared.source.clone(),
            host: host(&namespace, &self.pod_name().1, &spec.volume, prepared.claim.as_deref()),
            tags: tags.collect(),
            excludes: vec![format!("/{DONE_DIRECTORY}")],
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
            place: Where::NodeDirectory {
                node: prepared.node.clone(),
                directory: prepared.directory.clone(),
                writable: false,
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
                let words = format!("nobody can tell whether the volume was copied: {trouble}");
                return self.failed(attempt, &words).await;
            }
        };
        let Some(Made { mut snapshot, end }) = made else {
            let words = match told {
                Some(told) => {
                    format!("the mover named snapshot {}, which is not in the repository", told.snapshot)
                }
                None => words.to_owned(),
            };
            return self.failed(attempt, &words).await;
        };
        let now = self.desk.context.now();
        let (namespace, name) = self.pod_name();
        let pod = gather::pod(self.desk, &namespace, &name).await?;
        if let Err(words) = stayed(pod.as_ref(), &self.pod_uid(), end.unwrap_or(now)) {
            return self.failed(attempt, &format!("{namespace}/{name}: {words}")).await;
        }
        if let Some(told) = told {
            snapshot.bytes = told.bytes;
            snapshot.bytes_added = told.bytes_added;
            snapshot.changed = told.changed.count;
            snapshot.unreadable = told.unreadable.count.max(snapshot.unreadable);
            snapshot.unreadable_first = told.unreadable.first;
        }
        self.forget_earlier(attempt).await;
        if self.place.write(status::copied(&snapshot, now)).await? {
            if snapshot.unreadable > 0 {
                self.tell("Incomplete", &status::incomplete(&snapshot)).await;
            }
        } else {
            self.forget(&[snapshot.id]).await;
        }
        self.desk.hands.clear(&self.task(attempt)).await
    }

    /// Nothing of it can be used: no mover goes on, no snapshot stays.
    async fn failed(&self, attempt: u64, words: &str) -> Result<(), ApiError> {
        let left = self.clean(attempt).await?;
        let words = format!("{words}{left}");
        self.place.write(status::failed(&words, self.desk.context.now())).await?;
        self.tell("Failed", &words).await;
        Ok(())
    }

    async fn cancelled(&self, attempt: u64, words: &str) -> Result<(), ApiError> {
        let left = self.clean(attempt).await?;
        self.place.write(status::canceled(&format!("{words}{left}"), self.desk.context.now())).await?;
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

    fn late(&self) -> String {
        let limit = self.desk.limit(&self.object.metadata);
        let limit = lifeboat_api::common::GoDuration::from(limit);
        format!(
            "it did not end within {limit} (--fs-backup-timeout, or annotation {})",
            names::POD_VOLUME_TIMEOUT
        )
    }

    fn backup(&self) -> String {
        let tags = self.object.spec.tags.as_ref();
        let label = || self.object.labels().get(names::BACKUP_NAME).cloned();
        tags.and_then(|tags| tags.get("backup").cloned()).or_else(label).unwrap_or_default()
    }

    /// Location and namespace.
    fn repository(&self) -> (String, String) {
        (self.object.spec.backup_storage_location.clone(), self.pod_name().0)
    }

    fn pod_name(&self) -> (String, String) {
        let pod = &self.object.spec.pod;
        (pod.namespace.clone().unwrap_or_default(), pod.name.clone().unwrap_or_default())
    }

    fn pod_uid(&self) -> String {
        self.object.spec.pod.uid.clone().unwrap_or_default()
    }
}
