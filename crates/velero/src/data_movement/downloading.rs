//! One DataDownload: a claim similar to the restored one is created in the movers' namespace, one per attempt, so
//! that a mover that was given up never writes into the volume of the next attempt; therefore a mover on a lost node
//! is also followed by another. The mover fills and verifies the claim's volume, which is then handed over to the
//! restored claim. Once the volume is recorded the data is complete, and only the handover is repeated.

use std::sync::Arc;

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_api::velero::{DataDownload, names};
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{self, RestoreWork, Target};
use lifeboat_plan::transfer::movers::{DATA, DEVICE, MoverPlace};
use lifeboat_plan::velero::data_movement::is_built_in;
use lifeboat_plan::velero::uploader::{self, Writing};
use lifeboat_transfer::attempts::{
    NotPrepared, Prepared, Steps, Transfer, WorkContext, failed, run_transfer, wrong_result,
};
use lifeboat_transfer::claims::Claims;
use lifeboat_transfer::handover::{EmptyClaim, Unfilled};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::repositories;
use crate::transfers::{ObjectRecord, Shows, TransferKind, TransferRequest, transfer};

pub(super) struct Downloading<'a> {
    pub(super) transfer: Transfer,
    pub(super) record: Arc<ObjectRecord>,
    pub(super) object: &'a DataDownload,
    pub(super) claims: Claims,
}

impl TransferKind for DataDownload {
    const CONTROLLER: &'static str = "data-download";

    fn is_ours(&self) -> bool {
        is_built_in(self.spec.datamover.as_deref())
    }

    async fn run_transfer(&self, work: &WorkContext, cancel: &CancellationToken) -> Result<(), ApiError> {
        let request = TransferRequest {
            key: repositories::key(
                &LocationName::new(&self.spec.backup_storage_location),
                &NamespaceName::new(&self.spec.source_namespace),
            ),
            make: false,
            group: self.labels().get(names::RESTORE_NAME).cloned().unwrap_or_default(),
            phase: self.phase(),
            started: self.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0)),
            pod: None,
            shows: Shows { is_of_pod: false, node: true },
        };
        let (transfer, record) = transfer(work, self, request);
        let claims = Claims::new(&work.core.client);
        run_transfer(&Downloading { transfer, record, object: self, claims }, cancel).await
    }
}

#[async_trait]
impl Steps for Downloading<'_> {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    async fn settled(&self, _cancel: &CancellationToken) -> Result<bool, ApiError> {
        let Some(filled) = self.on_record() else { return Ok(false) };
        let handed = self.handover().go_on(&filled).await?;
        self.handed_over(handed).await.map(|()| true)
    }

    /// Creates the empty claim for the mover.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<Prepared, NotPrepared> {
        if self.transfer.is_late() {
            return Err(NotPrepared::Because(self.transfer.not_started()));
        }
        let settings = uploader::writing(self.object.spec.data_mover_config.as_ref());
        let Writing { threads, sparse } =
            settings.map_err(|error| NotPrepared::Because(error.to_string()))?;
        let handover = self.handover();
        let Unfilled { claim, node } = handover.unfilled(cancel).await?;
        let restore = self.object.labels().get(names::RESTORE_NAME).map(String::as_str);
        if restore.is_none() || claim["metadata"]["labels"][names::RESTORE_NAME].as_str() != restore {
            return Err(NotPrepared::Because(format!(
                "claim {} was not created by this restore",
                handover.target()
            )));
        }
        let EmptyClaim { name, block } = handover.make_empty(&claim).await?;
        let work = task::TaskWork::Restore(self.work(block, sparse));
        let place = MoverPlace::Claim { claim: name, block, writable: true, node };
        Ok(Prepared::single(&self.transfer, work, place, json!({})).with_threads(threads))
    }

    /// The data is in the mover's volume and verified: from here on it is only handed over.
    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        match outcome {
            Outcome::Restored(restored) => {
                let handed = self.handover().begin(restored.bytes).await?;
                self.handed_over(handed).await
            }
            other => wrong_result(self, &other).await,
        }
    }

    /// Only the mover knows whether the volume is complete, so a volume without a report is not used.
    async fn unreported(&self, message: &str) -> Result<(), ApiError> {
        failed(self, message).await
    }

    async fn complaint(&self, message: String) -> String {
        match self.handover().complaint().await {
            Some(why) => format!("{message}; its volume: {why}"),
            None => message,
        }
    }

    /// Deletes the volume with what the dead mover wrote.
    async fn discard(&self) -> Result<(), ApiError> {
        self.handover().discard().await
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.transfer.clear().await?;
        let handover = self.handover();
        handover.discard_all().await?;
        Ok(format!("; claim {} stays without a volume", handover.target()))
    }
}

impl Downloading<'_> {
    fn work(&self, block: bool, sparse: bool) -> RestoreWork {
        let target = if block {
            Target::BlockDevice { path: DEVICE.into() }
        } else {
            Target::Path { path: DATA.into(), proof: None }
        };
        let snapshot = self.object.spec.snapshot_id.clone();
        RestoreWork { sparse, ..RestoreWork::new(snapshot, target) }
    }
}
