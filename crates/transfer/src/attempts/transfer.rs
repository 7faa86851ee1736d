//! One object that is carried to its end: what is the same for all four kinds, and the assignment of its mover.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{DataMovePhase, names};
use lifeboat_cluster::ApiError;
use lifeboat_mover::task::{self, Limits, LockTerms, Task, VERSION};
use lifeboat_plan::movers::{Errand, Owner, Place as Where, SCRATCH};
use lifeboat_plan::pod_volumes::{ATTEMPT, DEAD_OWNERS, attempt, dead_owners, status, task_uid};
use lifeboat_transfer::movers::Assignment;
use serde_json::{Value, json};

use super::{Desk, Place, Reach, left};
use crate::repositories::RepositoryKey;

/// How long after its time is over an object is still tried to be cleared up after.
const GRACE: Duration = Duration::from_mins(10);

/// What an object says of its work.
pub(crate) struct Terms<'a> {
    pub(crate) key: RepositoryKey,
    /// Where there is no repository, it is made.
    pub(crate) make: bool,
    /// The backup or restore that it is part of.
    pub(crate) group: String,
    pub(crate) phase: &'a DataMovePhase,
    /// When an earlier attempt began.
    pub(crate) started: Option<Timestamp>,
}

/// The work on one object.
pub(crate) struct Case {
    pub(crate) desk: Desk,
    pub(crate) place: Place,
    pub(crate) key: RepositoryKey,
    pub(crate) make: bool,
    pub(crate) group: String,
    pub(crate) started: Option<String>,
    about: ObjectReference,
    deadline: Timestamp,
    limit: Duration,
    is_new: bool,
    /// Owners of locks that earlier servers knew to be dead.
    pub(super) dead: Vec<String>,
    attempt: AtomicU64,
    begun: AtomicBool,
    /// The mover of this attempt may be at work, as far as is known: its end was not reported to this server.
    at_large: AtomicBool,
}

/// What a mover is sent for.
pub(crate) struct Mission {
    pub(crate) work: task::Work,
    pub(crate) place: Where,
    /// What the object's status shows of it, by field.
    pub(crate) shown: Value,
}

impl Case {
    pub(crate) fn new<K: Resource<DynamicType = ()>>(desk: &Desk, object: &K, terms: Terms<'_>) -> Self {
        let meta = object.meta();
        let note = |name: &str| meta.annotations.as_ref()?.get(name).map(String::as_str);
        let made = meta.creation_timestamp.as_ref().map_or_else(|| desk.context.now(), |time| time.0);
        let limit = desk.limit(meta);
        Self {
            desk: desk.clone(),
            place: Place::of(&desk.context, object),
            key: terms.key,
            make: terms.make,
            group: terms.group,
            started: terms.started.map(lifeboat_plan::time::seconds),
            about: object.object_ref(&()),
            deadline: made.checked_add(limit).unwrap_or(Timestamp::MAX),
            limit,
            is_new: matches!(terms.phase, DataMovePhase::New),
            dead: dead_owners(note(DEAD_OWNERS)),
            attempt: AtomicU64::new(attempt(note(ATTEMPT))),
            begun: AtomicBool::new(note(ATTEMPT).is_some()),
            at_large: AtomicBool::new(note(ATTEMPT).is_some()),
        }
    }

    /// The attempt that runs, counted from 1.
    pub(crate) fn attempt(&self) -> u64 {
        self.attempt.load(Ordering::Relaxed)
    }

    pub(super) fn set_attempt(&self, attempt: u64) {
        self.attempt.store(attempt, Ordering::Relaxed);
    }

    /// Whether a mover may have been sent.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// The task of this attempt.
    pub(crate) fn task(&self) -> String {
        task_uid(&self.place.uid, self.attempt())
    }

    /// Those of all attempts, the newest last.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = String> {
        (1..=self.attempt()).map(|number| task_uid(&self.place.uid, number))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.desk.context.now()
    }

    pub(crate) fn is_late(&self) -> bool {
        self.now() >= self.deadline
    }

    pub(crate) fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The time is over, and what gives more of it: only pod volumes get the annotation of their Backup or Restore.
    pub(crate) fn late(&self) -> String {
        let limit = GoDuration::from(self.limit);
        let flag = "--fs-backup-timeout";
        if self.is_of_pod() {
            let annotation = names::POD_VOLUME_TIMEOUT;
            return format!("it did not end within {limit} ({flag}, or annotation {annotation})");
        }
        format!("it did not end within {limit} (the server's {flag}, which holds for every volume)")
    }

    /// Whether an error keeps the object from its end for ever: another try would bring the same.
    pub(super) fn is_hopeless(&self, error: &ApiError) -> bool {
        is_refusal(error) || self.deadline.checked_add(GRACE).is_ok_and(|over| self.now() >= over)
    }

    /// Puts the attempt on record. False where the object is gone.
    pub(super) async fn accept(&self, reach: &Reach, mission: &Mission) -> Result<bool, ApiError> {
        // What another server brought further keeps its phase.
        let begins = self.is_new || self.attempt() > 1;
        let attempt = self.attempt();
        let mut patch = if begins { status::accepted(attempt, self.now()) } else { status::adopted(attempt) };
        if self.is_of_pod() {
            patch["spec"] = json!({"repoIdentifier": reach.identifier});
        }
        for (field, value) in mission.shown.as_object().into_iter().flatten() {
            patch["status"][field] = value.clone();
        }
        self.begun.store(true, Ordering::Relaxed);
        self.set_at_large(true);
        self.place.write(patch).await
    }

    pub(super) fn assignment(&self, dead: &[String], reach: Reach, mission: Mission) -> Assignment {
        let (uid, seconds) = (self.task(), left(self.deadline, self.now()));
        // Whoever waits for a lock in vain has the time to say whose it is.
        let wait_seconds = seconds - (seconds / 10).min(30);
        let task = Task {
            version: VERSION,
            uid: uid.clone(),
            work: mission.work,
            repository: reach.task,
            lock: LockTerms { cluster: reach.cluster, dead_owners: dead.to_vec(), wait_seconds },
            limits: Limits { scratch: Some(SCRATCH.into()), ..Limits::default() },
            deadline: Some(self.deadline),
        };
        let Place { kind, name, uid: of, .. } = self.place.clone();
        let errand = Errand {
            uid,
            owner: Owner { kind, name, uid: of },
            place: mission.place,
            repository: self.key.to_string(),
            group: self.group.clone(),
            deadline_seconds: seconds,
        };
        Assignment { errand, task, keys: reach.keys }
    }

    /// Whether the kind names its repository in its spec.
    fn is_of_pod(&self) -> bool {
        self.place.kind.starts_with("PodVolume")
    }

    /// Whether the kind shows the node in its status.
    pub(super) fn shows_node(&self) -> bool {
        self.place.kind != "PodVolumeBackup"
    }

    pub(crate) async fn write(&self, patch: Value) -> Result<bool, ApiError> {
        self.place.write(patch).await
    }

    pub(crate) async fn tell(&self, reason: &str, words: &str) {
        self.desk.context.events.warning(&self.about, reason, words).await;
    }

    /// Removes the movers of all attempts.
    pub(crate) async fn clear(&self) -> Result<(), ApiError> {
        for task in self.tasks() {
            self.desk.hands.clear(&task).await?;
        }
        Ok(())
    }

    pub(super) fn set_at_large(&self, is_at_large: bool) {
        self.at_large.store(is_at_large, Ordering::Relaxed);
    }

    /// Nobody waits for the mover of this attempt any more, which the object says next: what it may still store is forgotten
    /// when it comes.
    pub(super) async fn give_up(&self) {
        if self.at_large.swap(false, Ordering::Relaxed) {
            self.give_up_tasks([self.task()]).await;
        }
    }

    /// What these stored, or may still store, is forgotten when that can be done.
    pub(super) async fn give_up_tasks(&self, tasks: impl IntoIterator<Item = String>) {
        for task in tasks.into_iter().filter(|_| self.make) {
            let hands = &self.desk.hands;
            hands.give_up(&self.key, &task, self.deadline).await;
        }
    }

    /// A mover whose end was reported holds nobody up.
    pub(super) async fn unlock(&self, owner: Option<&str>) {
        if let Some(owner) = owner {
            self.desk.hands.unlock(&self.key, owner).await;
        }
    }
}

/// Whether the API server will never do it.
pub(super) fn is_refusal(error: &ApiError) -> bool {
    error.is_invalid() || error.code() == Some(403)
}
