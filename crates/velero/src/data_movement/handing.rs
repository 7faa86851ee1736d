//! What a DataDownload records while its volume is handed over to the restored claim
//! ([`lifeboat_transfer::handover`]): the volume and its reclaim policy in annotations, before the handover; and its
//! end.

use std::time::Duration;

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::Restore;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::data_movement::{RECLAIM_POLICY, VOLUME, is_making};
use lifeboat_plan::velero::pod_volumes::status;
use lifeboat_transfer::attempts::{Steps, failed};
use lifeboat_transfer::handover::{Filled, HandedOver, Handover, HandoverRecord, STEP};
use serde_json::{Value, json};

use super::downloading::Downloading;

#[async_trait]
impl HandoverRecord for Downloading<'_> {
    async fn pods_may_come(&self) -> Result<bool, ApiError> {
        Ok(self.restore().await?.as_ref().is_some_and(is_making))
    }

    async fn filled(&self, filled: &Filled, bytes: u64) -> Result<bool, ApiError> {
        let notes = json!({VOLUME: filled.volume, RECLAIM_POLICY: filled.reclaim_policy});
        let record = json!({"metadata": {"annotations": notes},
            "status": {"progress": {"bytesDone": bytes, "totalBytes": bytes}}});
        self.record.write(record).await
    }
}

impl Downloading<'_> {
    pub(super) fn handover(&self) -> Handover<'_> {
        let target = &self.object.spec.target_volume;
        Handover {
            transfer: &self.transfer,
            record: self,
            claims: &self.claims,
            namespace: &target.namespace,
            claim: &target.pvc,
            step_limit: self.step_limit(),
        }
    }

    /// The volume that an earlier server recorded as filled.
    pub(super) fn on_record(&self) -> Option<Filled> {
        let note = |name: &str| self.object.annotations().get(name).cloned();
        let volume = note(VOLUME).filter(|volume| !volume.is_empty())?;
        Some(Filled { volume, reclaim_policy: note(RECLAIM_POLICY).unwrap_or_else(|| "Delete".to_owned()) })
    }

    /// Writes the result of the handover.
    pub(super) async fn handed_over(&self, handed: HandedOver) -> Result<(), ApiError> {
        match handed {
            HandedOver::Yes => {
                let mut end = status::restored(0, self.transfer.now());
                // The bytes are already recorded.
                if let Some(status) = end["status"].as_object_mut() {
                    status.remove("progress");
                }
                self.record.write(end).await.map(drop)
            }
            HandedOver::RecordGone => self.clean().await.map(drop),
            HandedOver::No(message) => failed(self, &message).await,
        }
    }

    /// The Restore that the object is part of, if it exists.
    async fn restore(&self) -> Result<Option<Value>, ApiError> {
        let owners = self.object.metadata.owner_references.iter().flatten();
        let Some(owner) = owners.into_iter().find(|owner| owner.kind == "Restore") else { return Ok(None) };
        let found = self.transfer.work.core.objects::<Restore>().get_opt(&owner.name).await;
        let found = found.attempt(format!("read Restore {}", owner.name))?;
        Ok(found.filter(|found| found.uid().as_ref() == Some(&owner.uid)).as_ref().map(objects::to_json))
    }

    fn step_limit(&self) -> Duration {
        let given = GoDuration::set(Some(self.object.spec.operation_timeout)).and_then(GoDuration::to_std);
        given.filter(|limit| !limit.is_zero()).unwrap_or(STEP)
    }
}
