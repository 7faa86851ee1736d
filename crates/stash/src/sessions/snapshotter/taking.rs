//! Takes the VolumeSnapshot of one claim, which is a host of a backup. The name is derived from the session and
//! recorded before the object is created; after a crash the next server adopts the existing snapshot. As soon as the
//! driver has taken the snapshot the hook after the host may run; the host has ended when the snapshot is ready to
//! use.

use std::time::Duration;

use lifeboat_api::common::Time;
use lifeboat_api::stash::SnapshotStats;
use lifeboat_cluster::ApiError;
use lifeboat_control::Core;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::session::TargetKey;
use lifeboat_plan::stash::snapshotter::{Choice, LONGEST, NotOurs, SnapshotOwner, SnapshotState, Stage};
use lifeboat_plan::stash::state::{HostState, WorkPhase};
use lifeboat_transfer::snapshots::Snapshots;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FIRST_PAUSE, longer};
use crate::sessions::host_record::{HostRecord, end_host};
use crate::sessions::sizes::minutes;

/// Why a snapshot was not started.
const NOT_MADE: &str = "the session was cancelled, or its timeOut passed, before its VolumeSnapshot was made";

/// One claim, and the session that takes a snapshot of it.
pub(in crate::sessions) struct Taking<'a> {
    pub(in crate::sessions) core: &'a Core,
    pub(in crate::sessions) record: &'a HostRecord,
    pub(in crate::sessions) owner: SnapshotOwner,
    pub(in crate::sessions) claim: &'a str,
    pub(in crate::sessions) class: &'a str,
    pub(in crate::sessions) target: Option<&'a TargetKey>,
    /// The invoker's `timeOut`. The session ends when it has passed.
    pub(in crate::sessions) time_out: Option<Duration>,
    /// Why no snapshot is started any more; a snapshot that was already started is followed to its end.
    pub(in crate::sessions) refusal: Option<String>,
}

/// How a wait for a stage ended.
enum Waited {
    Reached(Value),
    /// Another object has the name now.
    NotOurs,
    /// The reason, for people.
    Failed(String),
    /// The session no longer exists.
    Gone,
}

/// Whether a host's snapshot is recorded, which means that its driver has taken it.
pub(in crate::sessions) fn is_taken(host: &HostState) -> bool {
    !host.phase.has_ended() && !host.snapshots.is_empty()
}

impl Taking<'_> {
    fn namespace(&self) -> &str {
        &self.owner.invoker.namespace
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::new(&self.core.client)
    }

    /// Takes the snapshot, unless it exists, and records it or the failure of the host.
    pub(in crate::sessions) async fn take(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        let state = self.record.state().await;
        if state.phase.has_ended() || is_taken(&state) {
            return Ok(());
        }
        loop {
            let (name, is_new) = match self.choose().await? {
                Ok(Choice::Take(name)) => (name, true),
                Ok(Choice::Adopt(name)) => (name, false),
                Err(error) => return self.record.failed(error.to_string()).await.map(drop),
            };
            if is_new && cancel.is_cancelled() {
                return self.record.failed(NOT_MADE).await.map(drop);
            }
            if is_new && let Some(refusal) = &self.refusal {
                return self.record.failed(refusal.as_str()).await.map(drop);
            }
            if !self.begin(&name).await? {
                return Ok(());
            }
            if is_new && let Err(error) = self.make(&name).await {
                if error.is_transient() {
                    return Err(error);
                }
                return self.record.failed(error.message()).await.map(drop);
            }
            match self.wait(&name, Stage::Taken, cancel).await? {
                Waited::Reached(found) => return self.note_taken(&name, &found).await,
                Waited::NotOurs => {}
                Waited::Failed(message) => {
                    self.discard(&name).await;
                    return self.record.failed(message).await.map(drop);
                }
                Waited::Gone => {
                    self.discard(&name).await;
                    return Ok(());
                }
            }
        }
    }

    /// Waits until the recorded snapshot is ready to use, which is the end of the host.
    pub(in crate::sessions) async fn settle(&self, cancel: &CancellationToken) -> Result<(), ApiError> {
        let state = self.record.state().await;
        let name = state.snapshots.first().and_then(|taken| taken.name.clone());
        let Some(name) = name.filter(|_| !state.phase.has_ended()) else { return Ok(()) };
        let message = match self.wait(&name, Stage::Ready, cancel).await? {
            Waited::Reached(found) => {
                let ready = self.stats(&name, &found, &state);
                let changed = self.record.change(|host| host.snapshots = vec![ready]).await?;
                return if changed { self.record.succeeded().await.map(drop) } else { Ok(()) };
            }
            Waited::NotOurs => format!("VolumeSnapshot {name} was replaced by another object"),
            Waited::Failed(message) => message,
            Waited::Gone => {
                self.discard(&name).await;
                return Ok(());
            }
        };
        self.discard(&name).await;
        // One write: a host without snapshot that has not ended would be given another one, of a pod that runs on by now.
        let now = self.record.session.now();
        let changed = self.record.change(|host| {
            host.snapshots.clear();
            end_host(host, Some(message), now);
        });
        changed.await.map(drop)
    }

    /// The name of the snapshot, and whether it exists.
    async fn choose(&self) -> Result<Result<Choice, NotOurs>, ApiError> {
        let mut found = Vec::new();
        for name in self.owner.names(self.claim) {
            found.extend(self.snapshots().snapshot(self.namespace(), &name).await?);
        }
        let find = |name: &str| found.iter().find(|one| text(one, "/metadata/name") == name);
        Ok(self.owner.choose(self.claim, find))
    }

    /// Records that the snapshot is taken now. False if the session no longer exists.
    async fn begin(&self, name: &str) -> Result<bool, ApiError> {
        let now = Time(self.record.session.now());
        let changed = self.record.change(|host| {
            host.phase = WorkPhase::Running;
            host.run.start_time.get_or_insert(now);
            host.run.message = Some(format!("VolumeSnapshot {name}: it is being taken"));
        });
        changed.await
    }

    async fn make(&self, name: &str) -> Result<(), ApiError> {
        let wanted = self.owner.snapshot(name, self.claim, self.class, self.target);
        self.snapshots().make(&wanted).await
    }

    /// Waits for a stage of the snapshot. The status shows what it waits for.
    async fn wait(&self, name: &str, until: Stage, cancel: &CancellationToken) -> Result<Waited, ApiError> {
        let (mut pause, mut since) = (FIRST_PAUSE, Instant::now());
        let mut last: Option<SnapshotState> = None;
        loop {
            let Some(found) = self.snapshots().snapshot(self.namespace(), name).await? else {
                return Ok(Waited::Failed(format!(
                    "VolumeSnapshot {name} was deleted while it was waited for"
                )));
            };
            if !self.owner.owns(&found, self.claim) {
                return Ok(Waited::NotOurs);
            }
            let state = SnapshotState::of(&found);
            if state.stage >= until {
                return Ok(Waited::Reached(found));
            }
            if !last.as_ref().is_some_and(|last| last.is_same_wait(&state)) {
                since = Instant::now();
            }
            let message = format!("VolumeSnapshot {name}: {}", state.message());
            if let Some(why) = self.end_of_patience(&state, since.elapsed(), cancel).await {
                return Ok(Waited::Failed(format!("{message}; {why}")));
            }
            if last.as_ref() != Some(&state) {
                let shown = message.clone();
                if !self.record.change(|host| host.run.message = Some(shown)).await? {
                    return Ok(Waited::Gone);
                }
            }
            last = Some(state);
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = longer(pause),
                () = cancel.cancelled() => {}
            }
        }
    }

    /// Why a snapshot is given up that has been in this state for some time; None if it is not.
    async fn end_of_patience(
        &self,
        state: &SnapshotState,
        same: Duration,
        cancel: &CancellationToken,
    ) -> Option<&'static str> {
        if state.stage == Stage::Deleted {
            return Some("the backup needs a snapshot that stays");
        }
        if cancel.is_cancelled() {
            return Some("the session was cancelled, or its timeOut passed");
        }
        if state.patience().is_some_and(|patience| same >= patience) {
            return Some("it stayed so for too long");
        }
        let start = self.record.state().await.run.start_time;
        let passed = start.map(|start| self.record.session.now().duration_since(start.0));
        let passed = passed.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default();
        // A session with a timeOut is cancelled when that has passed.
        (self.time_out.is_none() && passed >= LONGEST)
            .then_some("it took more than a day; set timeOut if that is normal")
    }

    async fn note_taken(&self, name: &str, found: &Value) -> Result<(), ApiError> {
        let stats = SnapshotStats { processing_time: None, ..self.stats(name, found, &HostState::default()) };
        let changed = self.record.change(|host| {
            host.snapshots = vec![stats];
            host.run.message = Some(format!("VolumeSnapshot {name}: {}", SnapshotState::of(found).message()));
        });
        changed.await.map(drop)
    }

    fn stats(&self, name: &str, found: &Value, state: &HostState) -> SnapshotStats {
        let size = text(found, "/status/restoreSize");
        let passed = state.run.start_time.as_ref().and_then(|start| {
            u64::try_from(self.record.session.now().duration_since(start.0).as_millis()).ok()
        });
        SnapshotStats {
            name: Some(name.to_owned()),
            total_size: Some(size.to_owned()).filter(|size| !size.is_empty()),
            processing_time: passed.map(minutes),
            ..SnapshotStats::default()
        }
    }

    /// Deletes a snapshot that the session gives up. A snapshot that is ready by now has data and is kept, and so is
    /// a snapshot of another owner. A failure is only logged, because the host has already failed.
    async fn discard(&self, name: &str) {
        let discarded = async {
            let found = self.snapshots().snapshot(self.namespace(), name).await?;
            let is_useless = |found: &Value| {
                self.owner.owns(found, self.claim) && SnapshotState::of(found).stage < Stage::Ready
            };
            match found.filter(is_useless) {
                Some(found) => self.snapshots().delete(&found).await,
                None => Ok(()),
            }
        };
        if let Err(error) = discarded.await {
            let (namespace, error) = (self.namespace(), error.chain());
            tracing::warn!(namespace, name, error, "a VolumeSnapshot that was given up may be left");
        }
    }
}
