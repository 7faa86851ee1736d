//! Fills a new volume for a restored claim: waits until the node on which the volume is needed is known, creates a
//! similar claim in the movers' namespace (one per attempt), and hands the volume that a mover filled over to the
//! restored claim. The volume is kept when the mover's claim is deleted, is bound to the restored claim, and gets its
//! reclaim policy back. The volume's name is recorded before that, so that a server that starts after a crash
//! continues. Called by the controllers of objects whose data movers restore into new volumes.

use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_plan::transfer::consumer::{ConsumerNode, consumer_node, waits_for_pods};
use lifeboat_plan::transfer::exposed::{Exposure, exposed_name, for_target};
use lifeboat_plan::transfer::handover::{Bound, bound, claim_patch, volume_patch};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::attempts::{NotPrepared, Transfer};
use crate::claims::Claims;
use crate::snapshots::PollTimer;

/// How long to wait for a pod that exists but has no node yet.
const SCHEDULING: Duration = Duration::from_mins(1);
/// How long one step of the handover may take if the caller sets no limit.
pub const STEP: Duration = Duration::from_mins(10);

/// What the handover asks the object whose transfer fills the volume, and records in it.
#[async_trait]
pub trait HandoverRecord: Send + Sync {
    /// Whether pods that mount the claim may still be created: the node of such a pod decides where the volume is
    /// needed.
    async fn pods_may_come(&self) -> Result<bool, ApiError>;

    /// Records the filled volume, with the number of bytes in it, before the handover. False if the object is gone.
    async fn filled(&self, filled: &Filled, bytes: u64) -> Result<bool, ApiError>;
}

/// A volume that a mover filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    pub volume: String,
    /// The reclaim policy that the volume gets back after the handover.
    pub reclaim_policy: String,
}

/// The result of a handover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandedOver {
    Yes,
    /// The object with the record is gone, and the volume was not handed over.
    RecordGone,
    /// Why the claim does not get the volume, for people.
    No(String),
}

/// The claim that is to be filled, and the transfer that fills it.
pub struct Handover<'a> {
    pub transfer: &'a Transfer,
    pub record: &'a dyn HandoverRecord,
    pub claims: &'a Claims,
    /// The namespace of the claim that is to be filled.
    pub namespace: &'a str,
    pub claim: &'a str,
    /// How long one step of the handover may take.
    pub step_limit: Duration,
}

/// The claim that is to be filled, and the node on which its volume is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfilled {
    pub claim: Value,
    pub node: Option<String>,
}

impl Handover<'_> {
    /// Waits until the claim exists and, if its class has WaitForFirstConsumer, until a pod that exists or may still
    /// be created shows the node. A claim that is bound already is refused.
    pub async fn unfilled(&self, cancel: &CancellationToken) -> Result<Unfilled, NotPrepared> {
        let found = self.consumed(cancel).await?;
        if found.claim["status"]["phase"] == "Bound" {
            return Err(NotPrepared::Because(format!(
                "claim {} is bound to a volume already: data is restored only into new volumes",
                self.target()
            )));
        }
        Ok(found)
    }

    async fn consumed(&self, cancel: &CancellationToken) -> Result<Unfilled, NotPrepared> {
        let limit = self.transfer.work.settings.prepare_timeout;
        // The claim may be created after the object that asks for its data.
        let (coming, making, mut scheduling) = (PollTimer::new(STEP), PollTimer::new(limit), None);
        let mut written = String::new();
        loop {
            let Some(claim) = self.claims.get(self.namespace, self.claim).await? else {
                if cancel.is_cancelled() || !coming.pause().await {
                    return Err(NotPrepared::Because(format!("claim {} does not exist", self.target())));
                }
                continue;
            };
            let (timer, message) = match self.wanted(&claim).await? {
                ConsumerNode::On(node) => return Ok(Unfilled { claim, node: Some(node) }),
                ConsumerNode::Anywhere => return Ok(Unfilled { claim, node: None }),
                ConsumerNode::Perhaps => (
                    &making,
                    "waits for the pods of the restore, which decide the node of the volume".to_owned(),
                ),
                ConsumerNode::WithPod(pod) => {
                    let timer: &PollTimer = scheduling.get_or_insert_with(|| PollTimer::new(SCHEDULING));
                    (timer, format!("waits until pod {pod}, which mounts the volume, has a node"))
                }
            };
            if message != written {
                self.transfer.record.waiting(&message).await?;
                written = message;
            }
            if cancel.is_cancelled() || !timer.pause().await {
                return Ok(Unfilled { claim, node: None });
            }
        }
    }

    /// The node on which the claim's volume is needed.
    async fn wanted(&self, claim: &Value) -> Result<ConsumerNode, ApiError> {
        let class = match claim["spec"]["storageClassName"].as_str().filter(|class| !class.is_empty()) {
            Some(class) => self.claims.class(class).await?,
            None => None,
        };
        if !class.as_ref().is_some_and(waits_for_pods) {
            return Ok(consumer_node(claim, class.as_ref(), &[], false));
        }
        let pods = self.claims.pods(self.namespace).await?;
        Ok(consumer_node(claim, class.as_ref(), &pods, self.record.pods_may_come().await?))
    }

    /// Creates the empty claim for the mover of this attempt, similar to the restored one.
    pub async fn make_empty(&self, target: &Value) -> Result<EmptyClaim, ApiError> {
        let (name, server) = (self.exposed(), &self.transfer.work.core.namespace);
        let uid = &self.transfer.owner().uid;
        let wanted = for_target(Exposure { name: &name, namespace: self.movers(), uid, server }, target);
        self.claims.make(&wanted).await?;
        let block = wanted["spec"]["volumeMode"] == "Block";
        Ok(EmptyClaim { name, block })
    }

    /// The last warning of the provisioner about the claim of this attempt's mover.
    pub async fn complaint(&self) -> Option<String> {
        self.claims.complaint(self.movers(), &self.exposed()).await
    }

    /// Deletes the volume of this attempt with the data that its mover wrote.
    pub async fn discard(&self) -> Result<(), ApiError> {
        self.claims.delete_with_volume(self.movers(), &self.exposed()).await
    }

    /// Deletes the volumes of all attempts.
    pub async fn discard_all(&self) -> Result<(), ApiError> {
        for task in self.transfer.tasks() {
            self.claims.delete_with_volume(self.movers(), &exposed_name(task.as_str())).await?;
        }
        Ok(())
    }

    /// Called when the mover has filled and verified its volume: records the volume and hands it over.
    pub async fn begin(&self, bytes: u64) -> Result<HandedOver, ApiError> {
        let claim = self.claims.get(self.movers(), &self.exposed()).await?.unwrap_or_default();
        let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
        let found = if volume.is_empty() { None } else { self.claims.volume(&volume).await? };
        let Some(found) = found else {
            return Ok(HandedOver::No("the volume that was filled is gone".to_owned()));
        };
        let policy = found["spec"]["persistentVolumeReclaimPolicy"].as_str().unwrap_or("Delete");
        let filled = Filled { volume, reclaim_policy: policy.to_owned() };
        if !self.record.filled(&filled, bytes).await? {
            return Ok(HandedOver::RecordGone);
        }
        self.go_on(&filled).await
    }

    /// Hands over a volume that is recorded. Every step can be repeated.
    pub async fn go_on(&self, filled: &Filled) -> Result<HandedOver, ApiError> {
        match self.steps(filled).await {
            Ok(()) => Ok(HandedOver::Yes),
            Err(NotPrepared::Api(error)) => Err(error),
            Err(NotPrepared::Because(message)) => {
                self.claims.set_delete_policy(&filled.volume).await?;
                Ok(HandedOver::No(format!(
                    "volume {} was filled and could not be handed over: {message}",
                    filled.volume
                )))
            }
        }
    }

    async fn steps(&self, filled: &Filled) -> Result<(), NotPrepared> {
        let volume = filled.volume.as_str();
        let gone = || NotPrepared::Because(format!("volume {volume} is gone"));
        let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
        self.claims.volume(volume).await?.ok_or_else(gone)?;
        self.claims.change_volume(volume, &policy("Retain")).await?;
        self.transfer.clear().await?;
        self.release().await?;
        let claim =
            self.claims.get(self.namespace, self.claim).await?.ok_or_else(|| self.target_is_gone())?;
        if let Bound::Other(message) = bound(&claim, volume) {
            return Err(NotPrepared::Because(message));
        }
        if claim["spec"]["volumeName"].as_str() != Some(volume) {
            self.claims.change(self.namespace, self.claim, &claim_patch(volume)).await?;
        }
        let found = self.claims.volume(volume).await?.ok_or_else(gone)?;
        if let Some(patch) = volume_patch(&found, &claim) {
            self.claims.change_volume(volume, &patch).await?;
        }
        self.bind(volume).await?;
        self.claims.change_volume(volume, &policy(&filled.reclaim_policy)).await?;
        Ok(())
    }

    /// Deletes the mover's claim and keeps its volume; claims of earlier attempts are deleted with their volumes.
    async fn release(&self) -> Result<(), NotPrepared> {
        let (movers, exposed) = (self.movers(), self.exposed());
        for earlier in
            self.transfer.tasks().map(|task| exposed_name(task.as_str())).filter(|name| *name != exposed)
        {
            self.claims.delete_with_volume(movers, &earlier).await?;
        }
        self.claims.delete(movers, &exposed).await?;
        if self.claims.is_gone(movers, &exposed, self.step_limit).await? {
            return Ok(());
        }
        Err(NotPrepared::Because(format!("claim {movers}/{exposed} is not deleted: a pod still uses it")))
    }

    /// Waits until claim and volume are bound to each other.
    async fn bind(&self, volume: &str) -> Result<(), NotPrepared> {
        let timer = PollTimer::new(self.step_limit);
        loop {
            let claim = self.claims.get(self.namespace, self.claim).await?;
            match bound(&claim.ok_or_else(|| self.target_is_gone())?, volume) {
                Bound::Yes => return Ok(()),
                Bound::Other(message) => return Err(NotPrepared::Because(message)),
                Bound::NotYet if timer.pause().await => {}
                Bound::NotYet => {
                    return Err(NotPrepared::Because(format!(
                        "claim {} was not bound to the volume in time",
                        self.target()
                    )));
                }
            }
        }
    }

    fn target_is_gone(&self) -> NotPrepared {
        NotPrepared::Because(format!("claim {} is gone", self.target()))
    }

    /// The name of the claim of this attempt's mover, in the movers' namespace.
    fn exposed(&self) -> String {
        exposed_name(self.transfer.task().as_str())
    }

    fn movers(&self) -> &str {
        &self.transfer.work.settings.namespace
    }

    /// The claim that is to be filled, for people.
    pub fn target(&self) -> String {
        format!("{}/{}", self.namespace, self.claim)
    }
}

/// The claim that the mover of one attempt fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyClaim {
    /// The claim's name, in the movers' namespace.
    pub name: String,
    pub block: bool,
}
