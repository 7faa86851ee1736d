//! One DataDownload from its first phase to its last: a claim like the one that is to be filled is made in the movers'
//! namespace, a mover fills and verifies it, then its volume is handed to the claim of the restore. From the moment when
//! the volume is on record the data is there, and only the handing over is repeated. An error is the API's, and worth
//! another try from the beginning.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{DataDownload, DataMovePhase, names};
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{Limits, LockTerms, RestoreWork, Target, Task, VERSION, Work};
use lifeboat_plan::data_movement::{
    Bound, RECLAIM_POLICY, VOLUME, bound, claim_patch, exposed_name, for_target, is_built_in, volume_patch,
};
use lifeboat_plan::movers::{DATA, DEVICE, Errand, Owner, Place as Where, SCRATCH};
use lifeboat_plan::pod_volumes::{ATTEMPT, ATTEMPTS, DEAD_OWNERS, attempt, status, task_uid};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::claims::Claims;
use super::is_hopeless;
use crate::csi::Patience;
use crate::movers::{Assignment, Ended};
use crate::pod_volumes::{Desk, Place, Reach, Shown, Trouble, left};

/// How long a pod is waited for that says on which node the volume is wanted.
const CONSUMER: Duration = Duration::from_mins(1);
/// How long one step of the handing over may take, where the spec says nothing.
const STEP: Duration = Duration::from_mins(10);

struct Downloading<'a> {
    desk: &'a Desk,
    place: Place,
    object: &'a DataDownload,
    about: ObjectReference,
    deadline: Timestamp,
    claims: Claims,
}

/// The volume that was filled.
struct Filled {
    volume: String,
    reclaim_policy: String,
}

/// Whether the object is one for Lifeboat.
pub(crate) fn is_ours(object: &DataDownload) -> bool {
    is_built_in(object.spec.datamover.as_deref())
}

pub(crate) async fn run(
    desk: &Desk,
    object: &DataDownload,
    cancel: &CancellationToken,
) -> Result<(), ApiError> {
    let work = Downloading {
        desk,
        place: Place::of(&desk.context, object),
        object,
        about: object.object_ref(&()),
        deadline: desk.deadline(&object.metadata),
        claims: Claims::new(&desk.context.client),
    };
    match work.run(cancel).await {
        Err(error) if is_hopeless(&error, work.deadline, desk.context.now()) => work.give_up(&error).await,
        ended => ended,
    }
}

impl Downloading<'_> {
    async fn run(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        let mut attempt = attempt(self.note(ATTEMPT));
        let mut dead: Vec<String> =
            self.note(DEAD_OWNERS).unwrap_or_default().split(',').map(str::to_owned).collect();
        dead.retain(|one| !one.is_empty());
        if let Some(filled) = self.recorded() {
            return self.hand_over(attempt, &filled).await;
        }
        if cancel.is_cancelled() {
            return self.cancelled(attempt).await;
        }
        loop {
            if self.desk.context.now() >= self.deadline {
                return self.failed(attempt, "it did not end in time (--fs-backup-timeout)").await;
            }
            let (block, node) = match self.prepare(cancel).await {
                Ok(prepared) => prepared,
                Err(Trouble::Words(_)) if cancel.is_cancelled() => return self.cancelled(attempt).await,
                Err(Trouble::Words(words)) => return self.failed(attempt, &words).await,
                Err(Trouble::Api(error)) if error.is_invalid() || error.code() == Some(403) => {
                    return self.failed(attempt, &error.chain()).await;
                }
                Err(Trouble::Api(error)) => return Err(error),
            };
            let spec = &self.object.spec;
            let repository = (spec.backup_storage_location.as_str(), spec.source_namespace.as_str());
            let reach = match self.desk.reach(&self.place, repository, false, cancel).await {
                Ok(reach) => reach,
                Err(words) => return self.failed(attempt, &words).await,
            };
            let mut patch = json!({"metadata": {"annotations": {ATTEMPT: attempt.to_string()}}});
            if matches!(self.object.phase(), DataMovePhase::New) || attempt > 1 {
                let now = lifeboat_plan::time::seconds(self.desk.context.now());
                patch["status"] = json!({"phase": "Accepted", "acceptedTimestamp": now});
            }
            if !self.place.write(patch).await? {
                return self.clean(attempt).await;
            }
            let assignment = self.assignment(attempt, &dead, reach, block, node);
            let start = self.object.status.as_ref().and_then(|status| status.start_timestamp.as_ref());
            let start = start.map(|time| lifeboat_plan::time::seconds(time.0));
            let shown = Shown::new(&self.desk.context, self.place.clone(), start, true);
            match self.desk.hands.carry_out(assignment, &shown, cancel).await? {
                Ended::Left => return Ok(()),
                Ended::Cancelled => return self.cancelled(attempt).await,
                Ended::Told(result) => {
                    return match result.outcome {
                        Outcome::Restored(told) if told.failed.count == 0 => {
                            self.filled(attempt, told.bytes).await
                        }
                        Outcome::Restored(told) => {
                            let words = format!(
                                "{} files could not be restored ({})",
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
                    if !death.may_retry || attempt >= ATTEMPTS || cancel.is_cancelled() {
                        let namespace = &self.desk.context.settings.movers.namespace;
                        let complaint = self.claims.complaint(namespace, &self.exposed()).await;
                        let complaint =
                            complaint.map(|words| format!("; its volume: {words}")).unwrap_or_default();
                        return self.failed(attempt, &format!("{}{complaint}", death.words)).await;
                    }
                    dead.extend(death.dead_owner);
                    if !self.place.write(status::again(attempt + 1, &dead, &death.words)).await? {
                        return self.clean(attempt).await;
                    }
                    self.tell("Retried", &death.words).await;
                    self.desk.hands.clear(&self.task(attempt)).await?;
                    // What the dead one wrote goes with its volume: only new ones are written into.
                    self.discard_claim().await?;
                    attempt += 1;
                }
            }
        }
    }

    /// The empty claim for the mover. Gives whether it is a device, and the node where it is wanted.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<(bool, Option<String>), Trouble> {
        let (namespace, name) = self.target();
        let (claim, node) = self.consumed(cancel).await?;
        if claim["status"]["phase"] == "Bound" {
            return Err(Trouble::Words(format!(
                "claim {namespace}/{name} is bound to a volume already: only new volumes are written into"
            )));
        }
        let restore = self.object.labels().get(names::RESTORE_NAME).map(String::as_str);
        if restore.is_none() || claim["metadata"]["labels"][names::RESTORE_NAME].as_str() != restore {
            return Err(Trouble::Words(format!("claim {namespace}/{name} was not made by this restore")));
        }
        let movers = &self.desk.context.settings.movers.namespace;
        let wanted = for_target(&self.exposed(), movers, &self.place.uid, &claim);
        self.claims.make(&wanted).await?;
        Ok((wanted["spec"]["volumeMode"] == "Block", node))
    }

    /// Waits until the claim is there and, where its class makes volumes for pods, a pod says where it wants it. Nobody
    /// may ever want it: then it is made anywhere.
    async fn consumed(&self, cancel: &CancellationToken) -> Result<(Value, Option<String>), Trouble> {
        let (namespace, name) = self.target();
        // The claim comes after its action.
        let (coming, consumer) = (Patience::new(STEP), Patience::new(CONSUMER));
        loop {
            let patience = match self.claims.get(namespace, name).await? {
                None => &coming,
                Some(claim) => {
                    let node =
                        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str();
                    if node.is_some() || !self.is_late(&claim).await? {
                        return Ok((claim.clone(), node.map(str::to_owned)));
                    }
                    if !consumer.pause().await {
                        return Ok((claim, None));
                    }
                    &coming
                }
            };
            if cancel.is_cancelled() || !patience.pause().await {
                return Err(Trouble::Words(format!("claim {namespace}/{name} is not there")));
            }
        }
    }

    /// Whether the class makes volumes only for pods.
    async fn is_late(&self, claim: &Value) -> Result<bool, ApiError> {
        let Some(class) = claim["spec"]["storageClassName"].as_str().filter(|class| !class.is_empty()) else {
            return Ok(false);
        };
        let class = self.claims.class(class).await?;
        Ok(class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer"))
    }

    fn assignment(
        &self,
        attempt: u64,
        dead: &[String],
        reach: Reach,
        block: bool,
        node: Option<String>,
    ) -> Assignment {
        let (uid, spec) = (self.task(attempt), &self.object.spec);
        let seconds = left(self.deadline, self.desk.context.now());
        let target = if block {
            Target::BlockDevice { path: DEVICE.into() }
        } else {
            Target::Path { path: DATA.into(), proof: None }
        };
        let work = RestoreWork {
            snapshot: spec.snapshot_id.clone(),
            target,
            sparse: true,
            paths: Vec::new(),
            into: None,
            done_file: None,
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
            place: Where::Claim { claim: self.exposed(), block, writable: true, node },
            repository: format!("{}/{}", spec.backup_storage_location, spec.source_namespace),
            group: self.object.labels().get(names::RESTORE_NAME).cloned().unwrap_or_default(),
            deadline_seconds: seconds,
        };
        Assignment { errand, task, files: reach.files }
    }

    /// The data is in the mover's volume and verified: from here on it is only handed over.
    async fn filled(&self, attempt: u64, bytes: u64) -> Result<(), ApiError> {
        let movers = &self.desk.context.settings.movers.namespace;
        let claim = self.claims.get(movers, &self.exposed()).await?.unwrap_or_default();
        let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
        let found = if volume.is_empty() { None } else { self.claims.volume(&volume).await? };
        let Some(found) = found else {
            return self.failed(attempt, "the volume that was filled is gone").await;
        };
        let policy = found["spec"]["persistentVolumeReclaimPolicy"].as_str().unwrap_or("Delete").to_owned();
        let record = json!({"metadata": {"annotations": {VOLUME: volume, RECLAIM_POLICY: policy}},
            "status": {"progress": {"bytesDone": bytes, "totalBytes": bytes}}});
        if !self.place.write(record).await? {
            return self.clean(attempt).await;
        }
        self.hand_over(attempt, &Filled { volume, reclaim_policy: policy }).await
    }

    fn recorded(&self) -> Option<Filled> {
        let volume = self.note(VOLUME).filter(|volume| !volume.is_empty())?.to_owned();
        let reclaim_policy = self.note(RECLAIM_POLICY).unwrap_or("Delete").to_owned();
        Some(Filled { volume, reclaim_policy })
    }

    /// As upstream does it: the volume outlives the mover's claim, is given to the restored one, and gets its policy back.
    async fn hand_over(&self, attempt: u64, filled: &Filled) -> Result<(), ApiError> {
        match self.steps(attempt, filled).await {
            Ok(()) => {
                let bytes = self.object.status.as_ref().and_then(|status| status.progress.as_ref());
                let bytes = bytes.and_then(|progress| progress.total_bytes).unwrap_or_default();
                let mut end =
                    status::restored(u64::try_from(bytes).unwrap_or_default(), self.desk.context.now());
                // What was counted is on record.
                if let Some(status) = end["status"].as_object_mut() {
                    status.remove("progress");
                }
                self.place.write(end).await?;
                Ok(())
            }
            Err(Trouble::Api(error)) => Err(error),
            Err(Trouble::Words(words)) => {
                self.claims.deletable(&filled.volume).await?;
                let words =
                    format!("volume {} was filled and could not be handed over: {words}", filled.volume);
                self.failed(attempt, &words).await
            }
        }
    }

    async fn steps(&self, attempt: u64, filled: &Filled) -> Result<(), Trouble> {
        let (namespace, name) = self.target();
        let (movers, limit) = (&self.desk.context.settings.movers.namespace, self.step_limit());
        let gone = || Trouble::Words(format!("volume {} is gone", filled.volume));
        let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
        self.claims.volume(&filled.volume).await?.ok_or_else(gone)?;
        self.claims.change_volume(&filled.volume, &policy("Retain")).await?;
        for number in 1..=attempt {
            self.desk.hands.clear(&self.task(number)).await?;
        }
        self.claims.delete(movers, &self.exposed()).await?;
        if !self.claims.is_gone(movers, &self.exposed(), limit).await? {
            return Err(Trouble::Words(format!(
                "claim {movers}/{} does not go: something uses it",
                self.exposed()
            )));
        }
        let missing = || Trouble::Words(format!("claim {namespace}/{name} is gone"));
        let claim = self.claims.get(namespace, name).await?.ok_or_else(missing)?;
        if let Bound::Other(words) = bound(&claim, &filled.volume) {
            return Err(Trouble::Words(words));
        }
        if claim["spec"]["volumeName"].as_str() != Some(filled.volume.as_str()) {
            self.claims.change(namespace, name, &claim_patch(&filled.volume)).await?;
        }
        let volume = self.claims.volume(&filled.volume).await?.ok_or_else(gone)?;
        if let Some(patch) = volume_patch(&volume, &claim) {
            self.claims.change_volume(&filled.volume, &patch).await?;
        }
        let patience = Patience::new(limit);
        loop {
            let claim = self.claims.get(namespace, name).await?.ok_or_else(missing)?;
            match bound(&claim, &filled.volume) {
                Bound::Yes => break,
                Bound::Other(words) => return Err(Trouble::Words(words)),
                Bound::NotYet if patience.pause().await => {}
                Bound::NotYet => {
                    return Err(Trouble::Words(format!(
                        "claim {namespace}/{name} was not bound to it in time"
                    )));
                }
            }
        }
        self.claims.change_volume(&filled.volume, &policy(&filled.reclaim_policy)).await?;
        Ok(())
    }

    fn step_limit(&self) -> Duration {
        let given = GoDuration::set(Some(self.object.spec.operation_timeout)).and_then(GoDuration::to_std);
        given.filter(|limit| !limit.is_zero()).unwrap_or(STEP)
    }

    /// The mover's claim goes with its volume.
    async fn discard_claim(&self) -> Result<(), ApiError> {
        let movers = &self.desk.context.settings.movers.namespace;
        self.claims.delete_with_volume(movers, &self.exposed()).await?;
        self.claims.is_gone(movers, &self.exposed(), STEP).await.map(drop)
    }

    async fn clean(&self, attempt: u64) -> Result<(), ApiError> {
        for number in 1..=attempt {
            self.desk.hands.clear(&self.task(number)).await?;
        }
        let movers = &self.desk.context.settings.movers.namespace;
        self.claims.delete_with_volume(movers, &self.exposed()).await
    }

    async fn failed(&self, attempt: u64, words: &str) -> Result<(), ApiError> {
        self.clean(attempt).await?;
        let (namespace, name) = self.target();
        let words = format!("{words}; claim {namespace}/{name} stays without a volume");
        self.place.write(status::failed(&words, self.desk.context.now())).await?;
        self.tell("Failed", &words).await;
        Ok(())
    }

    /// Its end is written although not all could be taken away: nobody can do that.
    async fn give_up(&self, error: &ApiError) -> Result<(), ApiError> {
        let (namespace, name) = self.target();
        let words = format!(
            "claim {namespace}/{name} does not get its volume: {}; what was made for it may be left behind",
            error.chain()
        );
        let now = self.desk.context.now();
        // What can be taken away goes.
        let _ = self.clean(attempt(self.note(ATTEMPT))).await;
        self.tell("Failed", &words).await;
        match self.place.write(status::failed(&words, now)).await {
            Err(error) if !is_hopeless(&error, self.deadline, now) || error.is_transient() => Err(error),
            _ => Ok(()),
        }
    }

    async fn cancelled(&self, attempt: u64) -> Result<(), ApiError> {
        self.place.write(status::canceling()).await?;
        self.clean(attempt).await?;
        let (namespace, name) = self.target();
        let words = format!("it was cancelled; claim {namespace}/{name} stays without a volume");
        self.place.write(status::canceled(&words, self.desk.context.now())).await?;
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

    fn exposed(&self) -> String {
        exposed_name(&self.place.uid)
    }

    /// Namespace and name of the claim that is to be filled.
    fn target(&self) -> (&str, &str) {
        (&self.object.spec.target_volume.namespace, &self.object.spec.target_volume.pvc)
    }
}
