//! Hands the volume that a mover filled to the claim of the restore, as upstream does it: the volume outlives the mover's
//! claim, is given to the restored one, and gets its policy back. Which volume it is is on record before, so that whoever
//! comes after a crash goes on with it.

use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::common::GoDuration;
use lifeboat_cluster::ApiError;
use lifeboat_plan::velero::data_movement::{
    Bound, RECLAIM_POLICY, VOLUME, bound, claim_patch, exposed_name, volume_patch,
};
use lifeboat_plan::velero::pod_volumes::status;
use lifeboat_transfer::attempts::{NotPrepared, Steps, failed};
use lifeboat_transfer::snapshots::Patience;
use serde_json::{Value, json};

use super::downloading::{Downloading, STEP};

/// The volume that was filled.
pub(super) struct Filled {
    volume: String,
    reclaim_policy: String,
}

impl Downloading<'_> {
    /// The volume is whole: puts it on record, and hands it over.
    pub(super) async fn filled(&self, bytes: u64) -> Result<(), ApiError> {
        let claim = self.claims.get(self.movers(), &self.exposed()).await?.unwrap_or_default();
        let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
        let found = if volume.is_empty() { None } else { self.claims.volume(&volume).await? };
        let Some(found) = found else {
            return failed(self, "the volume that was filled is gone").await;
        };
        let policy = found["spec"]["persistentVolumeReclaimPolicy"].as_str().unwrap_or("Delete").to_owned();
        let record = json!({"metadata": {"annotations": {VOLUME: volume, RECLAIM_POLICY: policy}},
            "status": {"progress": {"bytesDone": bytes, "totalBytes": bytes}}});
        if !self.record.write(record).await? {
            return self.clean().await.map(drop);
        }
        self.hand_over(&Filled { volume, reclaim_policy: policy }).await
    }

    /// The volume that an earlier server had filled.
    pub(super) fn on_record(&self) -> Option<Filled> {
        let note = |name: &str| self.object.annotations().get(name).cloned();
        let volume = note(VOLUME).filter(|volume| !volume.is_empty())?;
        Some(Filled { volume, reclaim_policy: note(RECLAIM_POLICY).unwrap_or_else(|| "Delete".to_owned()) })
    }

    pub(super) async fn hand_over(&self, filled: &Filled) -> Result<(), ApiError> {
        match self.steps(filled).await {
            Ok(()) => {
                let mut end = status::restored(0, self.transfer.now());
                // What was counted is on record.
                if let Some(status) = end["status"].as_object_mut() {
                    status.remove("progress");
                }
                self.record.write(end).await.map(drop)
            }
            Err(NotPrepared::Api(error)) => Err(error),
            Err(NotPrepared::Because(words)) => {
                self.claims.deletable(&filled.volume).await?;
                let words =
                    format!("volume {} was filled and could not be handed over: {words}", filled.volume);
                failed(self, &words).await
            }
        }
    }

    async fn steps(&self, filled: &Filled) -> Result<(), NotPrepared> {
        let (target, volume) = (&self.object.spec.target_volume, filled.volume.as_str());
        let (namespace, name) = (target.namespace.as_str(), target.pvc.as_str());
        let gone = || NotPrepared::Because(format!("volume {volume} is gone"));
        let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
        self.claims.volume(volume).await?.ok_or_else(gone)?;
        self.claims.change_volume(volume, &policy("Retain")).await?;
        self.transfer.clear().await?;
        self.release().await?;
        let claim = self.claims.get(namespace, name).await?.ok_or_else(|| self.missing())?;
        if let Bound::Other(words) = bound(&claim, volume) {
            return Err(NotPrepared::Because(words));
        }
        if claim["spec"]["volumeName"].as_str() != Some(volume) {
            self.claims.change(namespace, name, &claim_patch(volume)).await?;
        }
        let found = self.claims.volume(volume).await?.ok_or_else(gone)?;
        if let Some(patch) = volume_patch(&found, &claim) {
            self.claims.change_volume(volume, &patch).await?;
        }
        self.bind(volume).await?;
        self.claims.change_volume(volume, &policy(&filled.reclaim_policy)).await?;
        Ok(())
    }

    /// The mover's claim goes, and its volume stays; those of earlier attempts go with theirs.
    async fn release(&self) -> Result<(), NotPrepared> {
        let (movers, exposed) = (self.movers(), self.exposed());
        for earlier in self.transfer.tasks().map(|task| exposed_name(&task)).filter(|name| *name != exposed) {
            self.claims.delete_with_volume(movers, &earlier).await?;
        }
        self.claims.delete(movers, &exposed).await?;
        if self.claims.is_gone(movers, &exposed, self.step_limit()).await? {
            return Ok(());
        }
        Err(NotPrepared::Because(format!("claim {movers}/{exposed} does not go: something uses it")))
    }

    /// Waits until claim and volume have found each other.
    async fn bind(&self, volume: &str) -> Result<(), NotPrepared> {
        let target = &self.object.spec.target_volume;
        let patience = Patience::new(self.step_limit());
        loop {
            let claim: Option<Value> = self.claims.get(&target.namespace, &target.pvc).await?;
            match bound(&claim.ok_or_else(|| self.missing())?, volume) {
                Bound::Yes => return Ok(()),
                Bound::Other(words) => return Err(NotPrepared::Because(words)),
                Bound::NotYet if patience.pause().await => {}
                Bound::NotYet => {
                    return Err(NotPrepared::Because(format!(
                        "claim {} was not bound to it in time",
                        self.target()
                    )));
                }
            }
        }
    }

    fn missing(&self) -> NotPrepared {
        NotPrepared::Because(format!("claim {} is gone", self.target()))
    }

    fn step_limit(&self) -> Duration {
        let given = GoDuration::set(Some(self.object.spec.operation_timeout)).and_then(GoDuration::to_std);
        given.filter(|limit| !limit.is_zero()).unwrap_or(STEP)
    }
}
