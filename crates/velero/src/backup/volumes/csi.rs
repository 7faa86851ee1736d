//! CSI snapshots within a pass: for which claims the action with upstream's name is called, and what it made, for the
//! list of volumes. Methods are tried in upstream's order: policies, file copies, `snapshotVolumes`; then the CSI
//! driver, and volume snapshotters for volumes without one.

pub(in crate::backup) mod ended;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::common::Time;
use lifeboat_archive::documents::{BackupOperation, BackupVolumeInfo, CsiSnapshotInfo, DataMovementInfo};
use lifeboat_cluster::ApiError;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::transfer::snapshots;
use lifeboat_plan::velero::csi::{self, SNAPSHOT_NAME};
use lifeboat_plugin::actions::{ActionError, BackupOutcome, Lookup};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::native::Unwanted;
use super::quiesced::MomentKey;
use crate::backup::journal::NotStarted;
use crate::backup::pass::{About, Pass};
use crate::csi::{Snapshots, Unusable, cancel_unused, unused};

/// How often the cluster's snapshot classes are read for one claim, and the pause after the first failure.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// The cluster's snapshot classes could not be read: they are read again for the next claim.
#[derive(Debug, thiserror::Error)]
pub(in crate::backup) enum ClassesError {
    #[error("cannot read the cluster's snapshot classes: {0}")]
    List(ActionError),
    #[error("cannot read the cluster's snapshot classes: {}", .0.message())]
    Api(ApiError),
}

/// Why the cluster can have no CSI snapshots at all.
#[derive(Debug, thiserror::Error)]
enum NoSnapshots {
    #[error("the cluster does not serve VolumeSnapshots")]
    NotServed,
    #[error("the cluster does not serve VolumeSnapshotContents")]
    NoContents,
    #[error("this installation is limited to namespaces and may not use VolumeSnapshotContents")]
    Limited,
    #[error("{0}")]
    Forbidden(String),
}

/// What all claims of a pass share.
#[derive(Default)]
pub(in crate::backup) struct Drivers {
    /// The snapshot classes, or why there can be no snapshots. Empty until the API server has answered.
    classes: OnceCell<Result<Vec<Value>, NoSnapshots>>,
    noted: OnceCell<Result<(), NotStarted>>,
}

/// The snapshots of a pass, by namespace and name of their claims.
#[derive(Default)]
pub(in crate::backup) struct CsiSnapshots {
    claims: BTreeMap<(String, String), ClaimSnapshot>,
    /// The pods that were quiet before the snapshot of a claim or of a volume group was taken, by UID.
    pub(super) moments: BTreeMap<MomentKey, BTreeSet<String>>,
}

#[derive(Clone, Debug, Default)]
struct ClaimSnapshot {
    /// The VolumeSnapshot; empty if none could be taken.
    snapshot: String,
    info: CsiSnapshotInfo,
    began: Option<Time>,
    /// The operation that moves its data.
    moved: Option<String>,
    /// Whether all pods that mount it were quiet when it was taken.
    quiesced: bool,
}

impl CsiSnapshots {
    /// Adds the details of a content that is written into the backup.
    pub(in crate::backup) fn add_content(&mut self, content: &Value) {
        let text = |pointer: &str| content.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = text("/spec/volumeSnapshotRef/namespace");
        let snapshot = text("/spec/volumeSnapshotRef/name");
        let known =
            self.claims.iter_mut().find(|((place, _), one)| place == namespace && one.snapshot == snapshot);
        let Some((_, one)) = known else { return };
        one.info = CsiSnapshotInfo {
            snapshot_handle: text("/status/snapshotHandle").to_owned(),
            size: csi::restore_size(content).unwrap_or_default(),
            driver: text("/spec/driver").to_owned(),
            vsc_name: text("/metadata/name").to_owned(),
            ready_to_use: Some(snapshots::is_ready(content)),
            volume_group_snapshot_handle: csi::group_handle(content),
            ..CsiSnapshotInfo::default()
        };
        one.began = text("/metadata/creationTimestamp").parse().ok().map(Time);
    }

    pub(in crate::backup) fn attempted(&self) -> usize {
        self.claims.values().filter(|one| one.moved.is_none()).count()
    }

    pub(in crate::backup) fn ready(&self) -> usize {
        self.claims.values().filter(|one| one.info.ready_to_use == Some(true)).count()
    }

    fn used(&self) -> BTreeSet<(String, String)> {
        self.claims.iter().map(|((namespace, _), one)| (namespace.clone(), one.snapshot.clone())).collect()
    }

    /// Fills the entry of a claim's snapshot in the list of volumes. A snapshot that is not ready has no result yet.
    pub(in crate::backup) fn describe(
        &self,
        claim: &(String, String),
        operations: &[BackupOperation],
        mover: &str,
        info: &mut BackupVolumeInfo,
    ) {
        "CSISnapshot".clone_into(&mut info.backup_method);
        if let Some((one, operation)) = self.claims.get(claim).and_then(|one| Some((one, one.moved.clone()?)))
        {
            info.snapshot_data_moved = true;
            snapshots::consistency(one.quiesced).clone_into(&mut info.consistency);
            info.start_timestamp.clone_from(&one.began);
            info.snapshot_data_movement_info = Some(DataMovementInfo {
                data_mover: mover.to_owned(),
                uploader_type: "restic".to_owned(),
                operation_id: operation,
                phase: "New".to_owned(),
                ..DataMovementInfo::default()
            });
            return;
        }
        let Some(one) = self.claims.get(claim).filter(|one| !one.info.snapshot_handle.is_empty()) else {
            "failed".clone_into(&mut info.result);
            return;
        };
        snapshots::consistency(one.quiesced).clone_into(&mut info.consistency);
        let mut made = one.info.clone();
        let of_snapshot = operations.iter().find(|operation| {
            let item = &operation.spec.resource_identifier;
            operation.spec.backup_item_action == csi::SNAPSHOT_BACKUPPER
                && item.namespace == claim.0
                && item.name == one.snapshot
        });
        info.start_timestamp.clone_from(&one.began);
        if let Some(operation) = of_snapshot {
            made.operation_id.clone_from(&operation.spec.operation_id);
        } else {
            info.completion_timestamp.clone_from(&one.began);
            "succeeded".clone_into(&mut info.result);
        }
        info.csi_snapshot_info = Some(made);
    }
}

impl Pass {
    /// The snapshot classes of the cluster, or why there can be no snapshots at all. An error means that the API
    /// server did not answer.
    async fn csi_classes(&self) -> Result<&Result<Vec<Value>, NoSnapshots>, ClassesError> {
        self.csi.classes.get_or_try_init(|| self.ask_classes()).await
    }

    async fn ask_classes(&self) -> Result<Result<Vec<Value>, NoSnapshots>, ClassesError> {
        if self.catalogue.get(&snapshots::snapshots()).is_none() {
            return Ok(Err(NoSnapshots::NotServed));
        }
        let mut tries = 0;
        loop {
            let problem = match Snapshots::new(&self.client).usable().await {
                Ok(()) => match self.lookup.list(&snapshots::classes(), None, "").await {
                    Ok(classes) => return Ok(Ok(classes)),
                    Err(ActionError::Forbidden(message)) => return Ok(Err(NoSnapshots::Forbidden(message))),
                    Err(error) => ClassesError::List(error),
                },
                Err(Unusable::NotServed) => return Ok(Err(NoSnapshots::NoContents)),
                Err(Unusable::Forbidden) => return Ok(Err(NoSnapshots::Limited)),
                Err(Unusable::Api(error)) => ClassesError::Api(error),
            };
            tries += 1;
            if tries >= TRIES || self.stop.is_cancelled() {
                return Err(problem);
            }
            tokio::time::sleep(PAUSE * tries).await;
        }
    }

    /// Whether the CSI driver of a volume takes its snapshot, with its claim. An error means that the API server did
    /// not answer.
    pub(in crate::backup) async fn is_for_csi(&self, volume: &Value) -> Result<bool, ClassesError> {
        let Some(driver) = snapshots::driver_of(volume) else { return Ok(false) };
        if volume.pointer("/spec/claimRef/name").is_none() {
            return Ok(false);
        }
        let classes = self.csi_classes().await?;
        Ok(classes.as_ref().is_ok_and(|classes| !csi::classes_of(classes, driver).is_empty()))
    }

    /// Whether the action for CSI snapshots is called for a claim.
    pub(in crate::backup) async fn csi_wanted(&self, id: &ItemId, claim: &Value) -> bool {
        if self.catalogue.get(&snapshots::snapshots()).is_none() {
            return false;
        }
        let Some(volume_id) = snapshots::volume_of(claim) else { return false };
        let undecided = |message: &str| {
            self.report.error(&About::Item(id), "Cannot decide about a CSI snapshot", Some(message));
            false
        };
        let volume = match self.lookup.get(&volume_id).await {
            Ok(Some(volume)) => volume,
            Ok(None) => return false,
            Err(error) => return undecided(&error.to_string()),
        };
        let Some(driver) = snapshots::driver_of(&volume) else { return false };
        match self.wanted(&volume).await {
            Ok(()) => {}
            Err(Unwanted::Because(reason)) => {
                self.report.info_about(id, &format!("No CSI snapshot is taken: {reason}"));
                return false;
            }
            Err(Unwanted::Unknown(message)) => return undecided(&message),
        }
        match self.csi_classes().await {
            Ok(Ok(classes))
                if csi::classes_of(classes, driver).is_empty() && !self.snapshotters.is_empty() =>
            {
                let message =
                    format!("no VolumeSnapshotClass is for driver {driver}; volume snapshotters are asked");
                self.report.info_about(id, &format!("No CSI snapshot is taken: {message}"));
                return false;
            }
            Ok(Ok(_)) => {}
            Ok(Err(reason)) => {
                self.report.info_about(id, &format!("No CSI snapshot is taken: {reason}"));
                self.made().taken.unclaimed.entry(volume_id.name).or_insert_with(|| reason.to_string());
                return false;
            }
            Err(error) => {
                // The claim's entry in the list of volumes records that its data is missing.
                let claim = (id.namespace.clone().unwrap_or_default(), id.name.clone());
                self.made().book.add_csi(claim.clone());
                self.made().csi.claims.insert(claim, ClaimSnapshot::default());
                return undecided(&error.to_string());
            }
        }
        if self.backup.spec.snapshot_move_data == Some(true)
            && let Err(error) = self.note_repository(id.namespace.as_deref().unwrap_or_default()).await
        {
            return undecided(&error.to_string());
        }
        let note = || async { self.journal.note_csi().await.map_err(NotStarted) };
        if let Err(error) = self.csi.noted.get_or_init(note).await {
            return undecided(&error.to_string());
        }
        self.note_moment(claim).await;
        true
    }

    /// Records what the action made for a claim.
    pub(in crate::backup) async fn note_csi(&self, id: &ItemId, made: &BackupOutcome) {
        let snapshot = made.item["metadata"]["annotations"][SNAPSHOT_NAME].as_str();
        let began = !made.additional_items.is_empty() || made.operation_id.is_some();
        let snapshot = snapshot.filter(|_| made.errors.is_empty() && began);
        if snapshot.is_none() && made.errors.is_empty() {
            return;
        }
        let claim = (id.namespace.clone().unwrap_or_default(), id.name.clone());
        if let Some(snapshot) = snapshot {
            self.report.info_about(id, &format!("Took CSI snapshot {snapshot}"));
        }
        let one = ClaimSnapshot {
            snapshot: snapshot.unwrap_or_default().to_owned(),
            moved: made.operation_id.clone(),
            began: Some(Time(self.clock.now())),
            quiesced: snapshot.is_some() && self.was_quiesced(&made.item).await,
            ..ClaimSnapshot::default()
        };
        let mut all = self.made();
        all.book.add_csi(claim.clone());
        all.csi.claims.insert(claim, one);
    }

    /// Removes snapshots that an interrupted attempt took of claims that are gone in the meantime.
    pub(in crate::backup) async fn clear_unused_csi(&self) {
        if self.catalogue.get(&snapshots::snapshots()).is_none()
            || matches!(self.csi_classes().await, Ok(Err(_)))
        {
            return;
        }
        let (used, uid) = (self.made().csi.used(), self.backup.backup_uid());
        if self.backup.spec.snapshot_move_data == Some(true) {
            let moved = self.made().csi.claims.values().filter_map(|one| one.moved.clone()).collect();
            let namespace = self.backup.namespace().unwrap_or_default();
            if let Err(error) = cancel_unused(&self.client, &namespace, &uid, &moved).await {
                let message = "Data movements that an interrupted attempt started may still run";
                self.report.warning(&About::Server, message, Some(&error.chain()));
            }
        }
        for message in unused(&Snapshots::new(&self.client), &uid, &used).await {
            self.report.warning(&About::Server, &message, None);
        }
    }
}
