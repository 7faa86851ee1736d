//! Creates one claim of a restore from its VolumeSnapshot, and waits until it has its data, or until it only waits
//! for a pod that uses it. The claim is labelled with the UID of the restore, so that after a crash the next server
//! adopts only claims of this restore.

use std::time::Duration;

use lifeboat_api::common::Time;
use lifeboat_cluster::ApiError;
use lifeboat_control::Core;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::snapshotter::{
    Filling, LONGEST, RestoredClaimFacts, claim_from, filling, is_of_restore,
};
use lifeboat_plan::stash::state::WorkPhase;
use lifeboat_plan::stash::targets::NewClaim;
use lifeboat_transfer::claims::Claims;
use lifeboat_transfer::snapshots::Snapshots;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{FIRST_PAUSE, longer};
use crate::sessions::host_record::HostRecord;

/// One claim of a restore.
pub(in crate::sessions) struct RestoreClaim<'a> {
    pub(in crate::sessions) core: &'a Core,
    pub(in crate::sessions) record: &'a HostRecord,
    /// As its template has it.
    pub(in crate::sessions) claim: &'a NewClaim,
    /// The restore's `timeOut`. The restore ends when it has passed.
    pub(in crate::sessions) time_out: Option<Duration>,
}

impl RestoreClaim<'_> {
    fn claims(&self) -> Claims {
        Claims::new(&self.core.client)
    }

    fn namespace(&self) -> &str {
        &self.record.session.namespace
    }

    async fn read(&self) -> Result<Option<Value>, ApiError> {
        self.claims().get(self.namespace(), &self.claim.name).await
    }

    fn is_own(&self, claim: &Value) -> bool {
        is_of_restore(claim, &self.record.session.uid)
    }

    /// Brings the host to its end, unless it has ended.
    pub(in crate::sessions) async fn run(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        match self.fill(cancel).await {
            // A request that the API server will always refuse.
            Err(error) if !error.is_transient() && !error.is_conflict() => {
                self.record.failed(error.chain()).await.map(drop)
            }
            filled => filled,
        }
    }

    async fn fill(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        let state = self.record.state().await;
        if state.phase.has_ended() {
            return Ok(());
        }
        let Some(chosen) = state.paths.first().map(|path| path.snapshot.clone()) else {
            return self.record.failed("no VolumeSnapshot was chosen for the claim").await.map(drop);
        };
        if self.read().await?.is_none() {
            if cancel.is_cancelled() {
                return self.record.failed(CANCELLED).await.map(drop);
            }
            if !self.make(&chosen).await? {
                return Ok(());
            }
        }
        match self.wait(cancel).await? {
            Filling::Filled => self.filled().await,
            Filling::AwaitsPod => self.record.unknown(self.waits_for_pod(&chosen)).await.map(drop),
            Filling::Waits(message) | Filling::Failed(message) => {
                self.discard().await;
                self.record.failed(message).await.map(drop)
            }
        }
    }

    /// Creates the claim; its snapshot is recorded before. False if the host has ended, or the session no longer
    /// exists.
    async fn make(&self, chosen: &str) -> Result<bool, ApiError> {
        let snapshots = Snapshots::new(&self.core.client);
        let Some(snapshot) = snapshots.snapshot(self.namespace(), chosen).await? else {
            let message = format!("VolumeSnapshot {chosen} was deleted before the claim was made");
            return self.record.failed(message).await.map(|_| false);
        };
        let now = Time(self.record.session.now());
        let written = self.record.change(|host| {
            host.phase = WorkPhase::Running;
            host.run.start_time.get_or_insert(now);
            host.run.message = Some(format!("the claim is made from VolumeSnapshot {chosen}"));
        });
        if !written.await? {
            return Ok(false);
        }
        let wanted = claim_from(self.claim, &snapshot, &self.record.session.uid);
        self.claims().make(&wanted).await.map(|()| true)
    }

    /// Waits until the claim has its volume, has failed, or only waits for a pod.
    async fn wait(&self, cancel: &CancellationToken) -> Result<Filling, ApiError> {
        let (mut pause, mut shown) = (FIRST_PAUSE, String::new());
        loop {
            let claim = self.read().await?;
            if claim.as_ref().is_some_and(|claim| !self.is_own(claim)) {
                return Ok(Filling::Failed(exists(&self.claim.name)));
            }
            let waited = self.waited().await;
            let message = match self.look(claim.as_ref(), waited).await? {
                Filling::Waits(message) => format!("claim {}: {message}", self.claim.name),
                ended => return Ok(ended),
            };
            if cancel.is_cancelled() {
                return Ok(Filling::Failed(format!("{message}; {CANCELLED}")));
            }
            if self.time_out.is_none() && waited >= LONGEST {
                return Ok(Filling::Failed(format!("{message}; it took more than a day")));
            }
            if message != shown {
                let text = message.clone();
                if !self.record.change(|host| host.run.message = Some(text)).await? {
                    return Ok(Filling::Failed(CANCELLED.to_owned()));
                }
                shown = message;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = longer(pause),
                () = cancel.cancelled() => {}
            }
        }
    }

    async fn look(&self, claim: Option<&Value>, waited: Duration) -> Result<Filling, ApiError> {
        let claims = self.claims();
        let spec = |field: &str| claim.map(|claim| text(claim, field)).filter(|text| !text.is_empty());
        let volume = match spec("/spec/volumeName") {
            Some(volume) => claims.volume(volume).await?,
            None => None,
        };
        let is_bound = spec("/status/phase") == Some("Bound");
        let (mut class, mut pods, mut complaint) = (None, Vec::new(), None);
        if !is_bound {
            if let Some(name) = spec("/spec/storageClassName") {
                class = claims.class(name).await?;
            }
            pods = claims.pods(self.namespace()).await?;
            complaint = claims.complaint(self.namespace(), &self.claim.name).await;
        }
        Ok(filling(&RestoredClaimFacts {
            claim,
            volume: volume.as_ref(),
            class: class.as_ref(),
            pods: &pods,
            complaint: complaint.as_deref(),
            waited,
        }))
    }

    async fn waited(&self) -> Duration {
        let start = self.record.state().await.run.start_time;
        let passed = start.map(|start| self.record.session.now().duration_since(start.0));
        passed.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default()
    }

    async fn filled(&self) -> Result<(), ApiError> {
        let restored = self.record.change(|host| {
            for path in &mut host.paths {
                path.restored = true;
            }
        });
        if restored.await? { self.record.succeeded().await.map(drop) } else { Ok(()) }
    }

    fn waits_for_pod(&self, chosen: &str) -> String {
        format!(
            "claim {} is made from VolumeSnapshot {chosen}; its storage class makes volumes for the first pod that uses them \
             (WaitForFirstConsumer), so the data comes when a pod uses the claim",
            self.claim.name
        )
    }

    /// Deletes a claim that the restore gives up, unless it has a volume, so that the next restore can create it
    /// again. A failure is only logged.
    async fn discard(&self) {
        let discarded = async {
            let has_no_volume = |claim: &Value| {
                self.is_own(claim)
                    && text(claim, "/spec/volumeName").is_empty()
                    && text(claim, "/status/phase") != "Bound"
            };
            match self.read().await?.filter(has_no_volume) {
                Some(claim) => self.claims().delete_unchanged(&claim).await,
                None => Ok(()),
            }
        };
        if let Err(error) = discarded.await {
            let (namespace, claim, error) = (self.namespace(), &self.claim.name, error.chain());
            tracing::warn!(namespace, claim, error, "a claim of a restore that was given up may be left");
        }
    }
}

const CANCELLED: &str = "the restore was deleted, or its timeOut passed";

/// Why a claim is not created.
pub(in crate::sessions) fn exists(claim: &str) -> String {
    format!(
        "PersistentVolumeClaim {claim} exists, and a VolumeSnapshot is restored into a new claim only; delete the claim, or give the template \
         another name"
    )
}
