//! The backup item action for claims. A claim whose volume belongs to a CSI driver gets a VolumeSnapshot, which the driver
//! has taken before the claim counts as finished; an operation waits until it is ready to use. The caller decides whether
//! a claim is snapshotted at all.

use std::time::Duration;

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::{GoDuration, LocationName, NamespaceName};
use lifeboat_api::velero::{Backup, BackupPhase, names};
use lifeboat_cluster::ApiError;
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::transfer::snapshots;
use lifeboat_plan::velero::csi::{self, ClassError, GROUP_SNAPSHOTS, OfBackup, SNAPSHOT_NAME, VolumeGroup};
use lifeboat_plan::velero::data_movement;
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, BackupItemAction, BackupOutcome, Lookup, OperationProgress,
};
use serde_json::{Value, json};

use super::earlier::group_of;
use super::movement::{self, Movement};
use super::objects::{NotTaken, Snapshots, Taken, TimeLimit, text};
use super::together::{GroupError, Groups, Origin};

/// How long a driver may take for a snapshot if the spec sets no timeout.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Takes the snapshot of a claim's volume.
pub(super) struct ClaimAction {
    snapshots: Snapshots,
    groups: Groups,
}

#[async_trait]
impl BackupItemAction for ClaimAction {
    fn name(&self) -> &'static str {
        csi::CLAIM_BACKUPPER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["persistentvolumeclaims"]))
    }

    async fn execute(
        &self,
        item: Value,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let unchanged = |item| BackupOutcome { item, ..BackupOutcome::default() };
        if is_finalizing(backup) {
            return Ok(unchanged(item));
        }
        let Some(volume) = snapshots::volume_of(&item) else { return Ok(unchanged(item)) };
        let Some(volume) = cluster.get(&volume).await? else { return Ok(unchanged(item)) };
        let Some(driver) = snapshots::driver_of(&volume) else { return Ok(unchanged(item)) };
        let moves = backup.spec.snapshot_move_data == Some(true);
        if moves {
            // An interrupted attempt may have created the DataUpload, and the snapshot may be moved and deleted already.
            let operation = operation_of(&item, backup);
            let namespace = backup.namespace().unwrap_or_default();
            match movement::usable(self.snapshots.client(), &namespace, &operation).await {
                Ok(Some(upload)) => return Ok(begun(item, &upload, operation, backup)),
                Ok(None) => {}
                Err(error) => {
                    let message = NoSnapshot::new(&item, SnapshotError::Api(error)).to_string();
                    return Ok(BackupOutcome { errors: vec![message], ..unchanged(item) });
                }
            }
        }
        match self.take(&item, driver, backup, cluster).await {
            Ok((taken, warnings)) => {
                let outcome = if moves {
                    self.moved(item, &taken, backup).await?
                } else {
                    with_snapshot(item, &taken, backup)
                };
                Ok(BackupOutcome { warnings, ..outcome })
            }
            // The claim itself is still backed up; the missing snapshot is an error of the backup.
            Err(error) => Ok(BackupOutcome { errors: vec![error.to_string()], ..unchanged(item) }),
        }
    }

    async fn progress(&self, operation: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        let namespace = backup.namespace().unwrap_or_default();
        movement::progress(self.snapshots.client(), &namespace, Movement::Upload, operation).await
    }

    async fn cancel(&self, operation: &str, backup: &Backup) -> Result<(), ActionError> {
        let namespace = backup.namespace().unwrap_or_default();
        movement::cancel(self.snapshots.client(), &namespace, Movement::Upload, operation).await
    }
}

impl ClaimAction {
    pub(super) fn new(snapshots: Snapshots) -> Self {
        Self { snapshots, groups: Groups::default() }
    }

    /// Creates the DataUpload that moves the data of the snapshot into a repository, as an operation.
    async fn moved(
        &self,
        claim: Value,
        taken: &Taken,
        backup: &Backup,
    ) -> Result<BackupOutcome, ActionError> {
        let operation = operation_of(&claim, backup);
        let of = serde_json::to_value(backup).map_err(|error| ActionError::Failed(error.to_string()))?;
        let mut wanted = data_movement::upload(&of, &claim, &taken.snapshot, &taken.content, &operation);
        let (namespace, snapshot) =
            (text(&taken.snapshot, "/metadata/namespace"), text(&taken.snapshot, "/metadata/name"));
        match movement::make(self.snapshots.client(), Movement::Upload, &wanted).await {
            Ok(name) => wanted["metadata"]["name"] = json!(name),
            Err(error) => {
                let left = self.snapshots.remove(namespace, snapshot, None, true).await.err();
                let left = left.map(|error| format!("; its snapshot is left behind: {}", error.chain()));
                let message = format!(
                    "the data of claim {namespace}/{} is not moved: {}{}",
                    text(&claim, "/metadata/name"),
                    error.chain(),
                    left.unwrap_or_default()
                );
                return Ok(BackupOutcome { item: claim, errors: vec![message], ..BackupOutcome::default() });
            }
        }
        Ok(begun(claim, &wanted, operation, backup))
    }

    /// Takes the snapshot of a claim, or adopts the one of an interrupted attempt, and returns it with warnings. If that
    /// fails, everything that was made for the snapshot is removed again.
    async fn take(
        &self,
        claim: &Value,
        driver: &str,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<(Taken, Vec<String>), NoSnapshot> {
        let none = |error: SnapshotError| NoSnapshot::new(claim, error);
        let classes = cluster.list(&snapshots::classes(), None, "").await;
        let classes = classes.map_err(|error| none(SnapshotError::Classes(error)))?;
        let class = csi::of_claim(&classes, driver, claim, backup.annotations());
        let class = class.map_err(|error| none(SnapshotError::NoClass(error)))?;
        let class = text(class, "/metadata/name");
        let of_backup = of_backup(backup);
        let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        let snapshot = csi::snapshot_name(name, text(claim, "/metadata/uid"), &of_backup.uid);
        let wanted = csi::snapshot(&snapshot, claim, class, &of_backup);
        match self.take_alone_or_grouped(&wanted, claim, backup, &of_backup, cluster).await {
            Ok(taken) => Ok(taken),
            Err(error) => {
                let left = self.snapshots.remove(namespace, &snapshot, None, true).await.err();
                let left = left.map(|error| format!("; it is left behind: {}", error.chain()));
                let details =
                    format!(" (VolumeSnapshotClass {class}, driver {driver}){}", left.unwrap_or_default());
                Err(NoSnapshot { details, ..none(error) })
            }
        }
    }

    /// Takes the snapshot together with its volume group, if the claim is in one and the cluster serves group snapshots;
    /// otherwise alone.
    async fn take_alone_or_grouped(
        &self,
        wanted: &Value,
        claim: &Value,
        backup: &Backup,
        of_backup: &OfBackup,
        cluster: &dyn Lookup,
    ) -> Result<(Taken, Vec<String>), SnapshotError> {
        let (namespace, snapshot) = (text(wanted, "/metadata/namespace"), text(wanted, "/metadata/name"));
        let limit = GoDuration::set(backup.spec.csi_snapshot_timeout).and_then(GoDuration::to_std);
        let limit = TimeLimit { time: limit.unwrap_or(TIMEOUT), setting: "spec.csiSnapshotTimeout" };
        let group = group_of(claim, backup);
        let origin = match &group {
            Some(group) => {
                self.snapshots.settled(namespace, snapshot, limit).await?;
                self.groups.take(&self.snapshots, group, claim, backup, cluster, limit.time).await?
            }
            None => Origin::Alone,
        };
        let mut warnings = Vec::new();
        let taken = if origin == Origin::Alone {
            warnings.extend(group.as_ref().map(alone));
            self.snapshots.take(wanted, limit).await?
        } else {
            self.snapshots.fixed(namespace, snapshot, limit).await?
        };
        Ok((self.marked(taken, of_backup).await?, warnings))
    }

    /// Labels the content as the backup's, and keeps the driver's snapshot when the VolumeSnapshot is deleted.
    async fn marked(&self, mut taken: Taken, backup: &OfBackup) -> Result<Taken, SnapshotError> {
        if let Some(patch) = csi::content_patch(&taken.content, backup) {
            let content = text(&taken.content, "/metadata/name").to_owned();
            self.snapshots.change_content(&content, &patch).await?;
            let changed = self.snapshots.content(&content).await?;
            taken.content = changed.ok_or(SnapshotError::ContentGone(content))?;
        }
        Ok(taken)
    }
}

/// A claim that has no CSI snapshot, and why.
#[derive(Debug, thiserror::Error)]
#[error("claim {claim} has no CSI snapshot: {error}{details}")]
struct NoSnapshot {
    claim: String,
    error: SnapshotError,
    /// The class and the driver, and what is left behind; empty if nothing was made.
    details: String,
}

impl NoSnapshot {
    fn new(claim: &Value, error: SnapshotError) -> Self {
        let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        Self { claim: format!("{namespace}/{name}"), error, details: String::new() }
    }
}

/// Why the snapshot of a claim was not taken.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    /// The cluster's VolumeSnapshotClasses cannot be listed.
    #[error("{0}")]
    Classes(ActionError),
    /// No VolumeSnapshotClass can be chosen.
    #[error("{0}")]
    NoClass(ClassError),
    #[error("{0}")]
    NotTaken(#[from] NotTaken),
    #[error("{0}")]
    Group(#[from] GroupError),
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error("VolumeSnapshotContent {0} is gone")]
    ContentGone(String),
}

/// The warning for a claim of a group that is snapshotted alone.
fn alone(group: &VolumeGroup) -> String {
    format!(
        "The {} is snapshotted claim by claim, not at one moment: the cluster does not serve {GROUP_SNAPSHOTS}; stop the writes of \
         its pods with hooks, or install the snapshot controller with VolumeGroupSnapshots and a driver that takes them",
        group.title()
    )
}

/// What the snapshots of a backup record of it.
pub(super) fn of_backup(backup: &Backup) -> OfBackup {
    OfBackup {
        name: backup.name_any(),
        uid: backup.backup_uid(),
        location: LocationName::new(backup.spec.storage_location.as_deref().unwrap_or_default()),
        namespace: NamespaceName::new(backup.namespace().unwrap_or_default()),
    }
}

/// The ID of the operation that moves the data of a claim.
pub(super) fn operation_of(claim: &Value, backup: &Backup) -> String {
    data_movement::operation("du-", &backup.uid().unwrap_or_default(), text(claim, "/metadata/uid"))
}

/// The outcome for a claim whose data a DataUpload moves.
fn begun(mut claim: Value, upload: &Value, operation: String, backup: &Backup) -> BackupOutcome {
    let (place, name) = (backup.namespace().unwrap_or_default(), text(upload, "/metadata/name"));
    let snapshot = text(upload, "/spec/csiSnapshot/volumeSnapshot");
    claim["metadata"]["annotations"][data_movement::UPLOAD_NAME] = json!(format!("{place}/{name}"));
    claim["metadata"]["annotations"][SNAPSHOT_NAME] = json!(snapshot);
    claim["metadata"]["labels"][SNAPSHOT_NAME] = json!(snapshot);
    claim["metadata"]["labels"][names::BACKUP_NAME] = json!(lifeboat_plan::label::value(&backup.name_any()));
    let uploads = GroupResource::new("velero.io", "datauploads");
    BackupOutcome {
        item: claim,
        operation_id: Some(operation),
        post_operation_items: vec![ItemId::namespaced(uploads, place, name)],
        ..BackupOutcome::default()
    }
}

/// The outcome for a claim with a snapshot, which is added as an additional item.
fn with_snapshot(mut claim: Value, taken: &Taken, backup: &Backup) -> BackupOutcome {
    let snapshot = text(&taken.snapshot, "/metadata/name");
    let namespace = text(&taken.snapshot, "/metadata/namespace");
    snapshots::grown(&mut claim, csi::restore_size(&taken.content));
    claim["metadata"]["annotations"][SNAPSHOT_NAME] = json!(snapshot);
    claim["metadata"]["annotations"][names::MUST_INCLUDE_ADDITIONAL_ITEMS] = json!("true");
    claim["metadata"]["labels"][SNAPSHOT_NAME] = json!(snapshot);
    claim["metadata"]["labels"][names::BACKUP_NAME] = json!(lifeboat_plan::label::value(&backup.name_any()));
    let additional_items = vec![ItemId::namespaced(snapshots::snapshots(), namespace, snapshot)];
    BackupOutcome { item: claim, additional_items, ..BackupOutcome::default() }
}

/// Whether the backup is being finalized: items are then only read again, and actions start nothing.
pub(super) fn is_finalizing(backup: &Backup) -> bool {
    matches!(backup.phase(), BackupPhase::Finalizing | BackupPhase::FinalizingPartiallyFailed)
}

#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
pub(super) fn failed(error: ApiError) -> ActionError {
    match error.code() {
        Some(403) => ActionError::Forbidden(error.message()),
        _ => ActionError::Failed(error.message()),
    }
}
