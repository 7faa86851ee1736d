//! One DataDownload: a claim like the one that is to be filled is made in the movers' namespace, for each attempt its own, so
//! that nobody who comes late writes into the volume of the next one: also a mover whose node is lost is followed by another. It
//! fills and verifies the claim, whose volume is then handed to the claim of the restore. From the moment when the volume is on
//! record the data is there, and only the handing over is repeated.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_api::velero::{DataDownload, Restore, names};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{self, RestoreWork, Target};
use lifeboat_plan::transfer::movers::{DATA, DEVICE, MoverPlace};
use lifeboat_plan::velero::data_movement::{
    Exposure, Wanted, exposed_name, for_target, is_built_in, waits_for_pods, wanted,
};
use lifeboat_transfer::attempts::{
    NotPrepared, Prepared, Steps, Transfer, WorkContext, carry, failed, misunderstood,
};
use lifeboat_transfer::claims::Claims;
use lifeboat_transfer::snapshots::Patience;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::repositories::RepositoryKey;
use crate::transfers::{Carried, ObjectRecord, Shows, Terms, transfer};

/// How long a pod is waited for that is there and that the scheduler has no node for.
const SCHEDULING: Duration = Duration::from_mins(1);
/// How long one step of the handing over may take, where the spec says nothing.
pub(super) const STEP: Duration = Duration::from_mins(10);

pub(super) struct Downloading<'a> {
    pub(super) transfer: Transfer,
    pub(super) record: Arc<ObjectRecord>,
    pub(super) object: &'a DataDownload,
    pub(super) claims: Claims,
}

impl Carried for DataDownload {
    const CONTROLLER: &'static str = "data-download";

    fn is_ours(&self) -> bool {
        is_built_in(self.spec.datamover.as_deref())
    }

    async fn carry(&self, work: &WorkContext, cancel: &CancellationToken) -> Result<(), ApiError> {
        let terms = Terms {
            key: RepositoryKey::new(
                LocationName::new(&self.spec.backup_storage_location),
                NamespaceName::new(&self.spec.source_namespace),
            ),
            make: false,
            group: self.labels().get(names::RESTORE_NAME).cloned().unwrap_or_default(),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
            shows: Shows { is_of_pod: false, node: true },
        };
        let (transfer, record) = transfer(work, self, terms);
        let claims = Claims::new(&work.core.client);
        carry(&Downloading { transfer, record, object: self, claims }, cancel).await
    }
}

#[async_trait]
impl Steps for Downloading<'_> {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    async fn settled(&self, _cancel: &CancellationToken) -> Result<bool, ApiError> {
        let Some(filled) = self.on_record() else { return Ok(false) };
        self.hand_over(&filled).await.map(|()| true)
    }

    /// The empty claim for the mover.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<Prepared, NotPrepared> {
        if self.transfer.is_late() {
            return Err(NotPrepared::Because(self.transfer.late()));
        }
        let target = self.target();
        let (claim, node) = self.consumed(cancel).await?;
        if claim["status"]["phase"] == "Bound" {
            return Err(NotPrepared::Because(format!(
                "claim {target} is bound to a volume already: only new volumes are written into"
            )));
        }
        let restore = self.object.labels().get(names::RESTORE_NAME).map(String::as_str);
        if restore.is_none() || claim["metadata"]["labels"][names::RESTORE_NAME].as_str() != restore {
            return Err(NotPrepared::Because(format!("claim {target} was not made by this restore")));
        }
        let (name, server) = (self.exposed(), &self.transfer.work.core.namespace);
        let uid = &self.record.uid;
        let wanted = for_target(Exposure { name: &name, namespace: self.movers(), uid, server }, &claim);
        self.claims.make(&wanted).await?;
        let block = wanted["spec"]["volumeMode"] == "Block";
        Ok(Prepared {
            work: task::Work::Restore(self.work(block)),
            place: MoverPlace::Claim { claim: self.exposed(), block, writable: true, node },
            shown: json!({}),
        })
    }

    /// The data is in the mover's volume and verified: from here on it is only handed over.
    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        match outcome {
            Outcome::Restored(restored) => self.filled(restored.bytes).await,
            other => misunderstood(self, &other).await,
        }
    }

    /// Nobody but the mover knows that the volume is whole.
    async fn unreported(&self, message: &str) -> Result<(), ApiError> {
        failed(self, message).await
    }

    async fn complaint(&self, message: String) -> String {
        match self.claims.complaint(self.movers(), &self.exposed()).await {
            Some(why) => format!("{message}; its volume: {why}"),
            None => message,
        }
    }

    /// What the dead one wrote goes with its volume.
    async fn discard(&self) -> Result<(), ApiError> {
        self.claims.delete_with_volume(self.movers(), &self.exposed()).await
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.transfer.clear().await?;
        for task in self.transfer.tasks() {
            self.claims.delete_with_volume(self.movers(), &exposed_name(&task)).await?;
        }
        Ok(format!("; claim {} stays without a volume", self.target()))
    }
}

impl Downloading<'_> {
    fn work(&self, block: bool) -> RestoreWork {
        let target = if block {
            Target::BlockDevice { path: DEVICE.into() }
        } else {
            Target::Path { path: DATA.into(), proof: None }
        };
        let snapshot = self.object.spec.snapshot_id.clone();
        RestoreWork { sparse: true, ..RestoreWork::new(snapshot, target) }
    }

    /// Waits until the claim is there and, where its class makes volumes for pods, until a pod that is there or can still
    /// come says where it wants it. Gives the claim and the node.
    async fn consumed(&self, cancel: &CancellationToken) -> Result<(Value, Option<String>), NotPrepared> {
        let volume = &self.object.spec.target_volume;
        let limit = self.transfer.work.settings.prepare_timeout;
        // The claim comes after its action.
        let (coming, making, mut scheduling) = (Patience::new(STEP), Patience::new(limit), None);
        let mut said = String::new();
        loop {
            let missing = || NotPrepared::Because(format!("claim {} is not there", self.target()));
            let Some(claim) = self.claims.get(&volume.namespace, &volume.pvc).await? else {
                if cancel.is_cancelled() || !coming.pause().await {
                    return Err(missing());
                }
                continue;
            };
            let (patience, words) = match self.wanted(&claim).await? {
                Wanted::On(node) => return Ok((claim, Some(node))),
                Wanted::Anywhere => return Ok((claim, None)),
                Wanted::Perhaps => (
                    &making,
                    "waits for the pods of the restore: one may say on which node the volume is wanted"
                        .to_owned(),
                ),
                Wanted::WithPod(pod) => {
                    let patience: &Patience = scheduling.get_or_insert_with(|| Patience::new(SCHEDULING));
                    (patience, format!("waits for the node of pod {pod}, where the volume is wanted"))
                }
            };
            if words != said {
                self.transfer.record.waiting(&words).await?;
                said = words;
            }
            if cancel.is_cancelled() || !patience.pause().await {
                return Ok((claim, None));
            }
        }
    }

    /// Where the volume of the claim is wanted.
    async fn wanted(&self, claim: &Value) -> Result<Wanted, ApiError> {
        let class = match claim["spec"]["storageClassName"].as_str().filter(|class| !class.is_empty()) {
            Some(class) => self.claims.class(class).await?,
            None => None,
        };
        if !class.as_ref().is_some_and(waits_for_pods) {
            return Ok(wanted(claim, class.as_ref(), &[], None));
        }
        let pods = self.claims.pods(&self.object.spec.target_volume.namespace).await?;
        Ok(wanted(claim, class.as_ref(), &pods, self.restore().await?.as_ref()))
    }

    /// The Restore that the object is part of, where it is still there.
    async fn restore(&self) -> Result<Option<Value>, ApiError> {
        let owners = self.object.metadata.owner_references.iter().flatten();
        let Some(owner) = owners.into_iter().find(|owner| owner.kind == "Restore") else { return Ok(None) };
        let found = self.transfer.work.core.objects::<Restore>().get_opt(&owner.name).await;
        let found = found.attempt(format!("read Restore {}", owner.name))?;
        Ok(found.filter(|found| found.uid().as_ref() == Some(&owner.uid)).as_ref().map(objects::to_json))
    }

    /// The claim of this attempt's mover, in the namespace of movers.
    pub(super) fn exposed(&self) -> String {
        exposed_name(&self.transfer.task())
    }

    pub(super) fn movers(&self) -> &str {
        &self.transfer.work.settings.namespace
    }

    /// The claim that is to be filled, as people call it.
    pub(super) fn target(&self) -> String {
        let volume = &self.object.spec.target_volume;
        format!("{}/{}", volume.namespace, volume.pvc)
    }
}
