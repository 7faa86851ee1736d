//! The backup item actions. A claim whose volume is a CSI driver's gets a VolumeSnapshot, which is fixed in time before the
//! claim counts as finished; whether volumes can be made from it is asked for in the background. Whether a claim is to be
//! snapshotted at all was decided by whoever calls.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::ResourceExt;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{Backup, BackupPhase, names};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::csi::{self, OF_BACKUP, SNAPSHOT_NAME};
use lifeboat_plan::data_movement;
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, BackupItemAction, BackupOutcome, Lookup, OperationProgress,
};
use serde_json::{Value, json};

use super::movement;
use super::objects::{Snapshots, Taken, text};

/// How long a driver may take for a snapshot, where the spec says nothing.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Takes the snapshot of a claim's volume.
pub(super) struct ClaimAction(pub(super) Snapshots);

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
        let Some(volume) = csi::volume_of(&item) else { return Ok(unchanged(item)) };
        let Some(volume) = cluster.get(&volume).await? else { return Ok(unchanged(item)) };
        let Some(driver) = csi::driver_of(&volume) else { return Ok(unchanged(item)) };
        let moves = backup.spec.snapshot_move_data == Some(true);
        if moves {
            // An interrupted attempt may have begun it, and its snapshot may be copied and gone already.
            let operation = operation_of(&item, backup);
            let namespace = backup.namespace().unwrap_or_default();
            match movement::usable(self.0.client(), &namespace, &operation).await {
                Ok(Some(upload)) => return Ok(begun(item, &upload, operation, backup)),
                Ok(None) => {}
                Err(error) => {
                    let words = format!(
                        "claim {}/{} has no CSI snapshot: {}",
                        text(&item, "/metadata/namespace"),
                        text(&item, "/metadata/name"),
                        error.chain()
                    );
                    return Ok(BackupOutcome { errors: vec![words], ..unchanged(item) });
                }
            }
        }
        match self.take(&item, driver, backup, cluster).await {
            Ok(taken) if moves => self.moved(item, &taken, backup).await,
            Ok(taken) => Ok(with_snapshot(item, &taken, backup)),
            // The claim is as good without it: what is missing is an error, and the claim is kept.
            Err(words) => Ok(BackupOutcome { errors: vec![words], ..unchanged(item) }),
        }
    }

    async fn progress(&self, operation: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        let namespace = backup.namespace().unwrap_or_default();
        movement::progress(self.0.client(), &namespace, movement::UPLOAD, operation).await
    }

    async fn cancel(&self, operation: &str, backup: &Backup) -> Result<(), ActionError> {
        let namespace = backup.namespace().unwrap_or_default();
        movement::cancel(self.0.client(), &namespace, movement::UPLOAD, operation).await
    }
}

impl ClaimAction {
    /// Has the data of the snapshot moved into a repository, in the background.
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
        match movement::make(self.0.client(), movement::UPLOAD, &wanted).await {
            Ok(name) => wanted["metadata"]["name"] = json!(name),
            Err(error) => {
                let left = self.0.take_away(namespace, snapshot, None, true).await.err();
                let left = left.map(|error| format!("; its snapshot is left behind: {}", error.chain()));
                let words = format!(
                    "the data of claim {namespace}/{} is not moved: {}{}",
                    text(&claim, "/metadata/name"),
                    error.chain(),
                    left.unwrap_or_default()
                );
                return Ok(BackupOutcome { item: claim, errors: vec![words], ..BackupOutcome::default() });
            }
        }
        Ok(begun(claim, &wanted, operation, backup))
    }

    /// The snapshot, fixed in time. An error says why there is none; then nothing is left of it.
    async fn take(
        &self,
        claim: &Value,
        driver: &str,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<Taken, String> {
        let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        let failed = |words: String| format!("claim {namespace}/{name} has no CSI snapshot: {words}");
        let classes =
            cluster.list(&csi::classes(), None, "").await.map_err(|error| failed(error.to_string()))?;
        let class = csi::of_claim(&classes, driver, claim, backup.annotations());
        let class = class.map_err(|error| failed(error.to_string()))?;
        let class = text(class, "/metadata/name");
        let of_backup = (backup.name_any(), backup.uid().unwrap_or_default());
        let of_backup = (of_backup.0.as_str(), of_backup.1.as_str());
        let snapshot = csi::snapshot_name(name, text(claim, "/metadata/uid"), of_backup.1);
        let wanted = csi::snapshot(&snapshot, claim, class, of_backup);
        let limit = GoDuration::set(backup.spec.csi_snapshot_timeout).and_then(GoDuration::to_std);
        let taken = async {
            self.0.settled(namespace, &snapshot, limit.unwrap_or(TIMEOUT)).await?;
            self.0.make(&wanted).await.map_err(|error| error.chain())?;
            let mut taken = self.0.fixed(namespace, &snapshot, limit.unwrap_or(TIMEOUT)).await?;
            if let Some(patch) = csi::content_patch(&taken.content, of_backup) {
                let content = text(&taken.content, "/metadata/name").to_owned();
                self.0.change_content(&content, &patch).await.map_err(|error| error.chain())?;
                let changed = self.0.content(&content).await.map_err(|error| error.chain())?;
                taken.content = changed.ok_or_else(|| format!("VolumeSnapshotContent {content} is gone"))?;
            }
            Ok(taken)
        };
        let taken: Result<Taken, String> = taken.await;
        match taken {
            Ok(taken) => Ok(taken),
            Err(words) => {
                let words = format!("{words} (VolumeSnapshotClass {class}, driver {driver})");
                let left = self.0.take_away(namespace, &snapshot, None, true).await;
                let left = left.err().map(|error| format!("; it is left behind: {}", error.chain()));
                Err(failed(format!("{words}{}", left.unwrap_or_default())))
            }
        }
    }
}

/// The operation that moves the data of a claim.
fn operation_of(claim: &Value, backup: &Backup) -> String {
    data_movement::operation("du-", &backup.uid().unwrap_or_default(), text(claim, "/metadata/uid"))
}

/// The claim whose data a DataUpload moves in the background.
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

/// The claim as it is restored from its snapshot, which comes along.
fn with_snapshot(mut claim: Value, taken: &Taken, backup: &Backup) -> BackupOutcome {
    let snapshot = text(&taken.snapshot, "/metadata/name");
    let namespace = text(&taken.snapshot, "/metadata/namespace");
    csi::grown(&mut claim, taken.content["status"]["restoreSize"].as_i64());
    claim["metadata"]["annotations"][SNAPSHOT_NAME] = json!(snapshot);
    claim["metadata"]["annotations"][names::MUST_INCLUDE_ADDITIONAL_ITEMS] = json!("true");
    claim["metadata"]["labels"][SNAPSHOT_NAME] = json!(snapshot);
    claim["metadata"]["labels"][names::BACKUP_NAME] = json!(lifeboat_plan::label::value(&backup.name_any()));
    let additional_items = vec![ItemId::namespaced(csi::snapshots(), namespace, snapshot)];
    BackupOutcome { item: claim, additional_items, ..BackupOutcome::default() }
}

/// Notes in a VolumeSnapshot where its data is, and brings its content and class.
pub(super) struct SnapshotAction(pub(super) Snapshots);

#[async_trait]
impl BackupItemAction for SnapshotAction {
    fn name(&self) -> &'static str {
        csi::SNAPSHOT_BACKUPPER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["volumesnapshots.snapshot.storage.k8s.io"]))
    }

    async fn execute(
        &self,
        mut item: Value,
        backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        if is_finalizing(backup) {
            return Ok(BackupOutcome { item, ..BackupOutcome::default() });
        }
        let mut outcome = BackupOutcome::default();
        if let Some(class) = item["spec"]["volumeSnapshotClassName"].as_str() {
            outcome.additional_items.push(ItemId::cluster(csi::classes(), class));
        }
        // One of the users' own may be bound to nothing yet.
        let content = match csi::bound_content(&item) {
            Some(name) => self.0.content(name).await.map_err(failed)?,
            None => None,
        };
        if let Some(content) = &content {
            let name = text(content, "/metadata/name");
            outcome.additional_items.push(ItemId::cluster(csi::contents(), name));
            let notes = csi::snapshot_notes(content);
            let ours = item["metadata"]["labels"][OF_BACKUP].as_str() == backup.uid().as_deref();
            if ours {
                let (namespace, name) = (text(&item, "/metadata/namespace"), text(&item, "/metadata/name"));
                let patch = json!({"metadata": {"annotations": notes}});
                self.0.change(namespace, name, &patch).await.map_err(failed)?;
                if !csi::is_ready(content) {
                    outcome.operation_id = Some(operation(&item));
                    outcome.post_operation_items = vec![
                        ItemId::namespaced(csi::snapshots(), namespace, name),
                        ItemId::cluster(csi::contents(), text(content, "/metadata/name")),
                    ];
                }
            }
            for (key, value) in notes.as_object().into_iter().flatten() {
                item["metadata"]["annotations"][key] = value.clone();
            }
        }
        item["metadata"]["annotations"][names::MUST_INCLUDE_ADDITIONAL_ITEMS] = json!("true");
        Ok(BackupOutcome { item, ..outcome })
    }

    async fn progress(&self, operation: &str, _backup: &Backup) -> Result<OperationProgress, ActionError> {
        let (namespace, name, started) = parts(operation)?;
        let progress = OperationProgress { started: Some(started), ..OperationProgress::default() };
        let ended = |error: String| {
            let updated = Some(Timestamp::now());
            Ok(OperationProgress { completed: true, error, updated, ..progress.clone() })
        };
        let later = |error: lifeboat_cluster::ApiError| {
            if error.is_transient() { Ok(progress.clone()) } else { Err(failed(error)) }
        };
        let snapshot = match self.0.snapshot(namespace, name).await {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return ended(format!("somebody deleted VolumeSnapshot {namespace}/{name}")),
            Err(error) => return later(error),
        };
        let Some(content) = csi::bound_content(&snapshot) else { return Ok(progress) };
        match self.0.content(content).await {
            Ok(Some(content)) if csi::is_ready(&content) => ended(String::new()),
            // Drivers try again until the time of the operation is over; people see why meanwhile.
            Ok(Some(content)) => {
                let description = csi::trouble(&content).or_else(|| csi::trouble(&snapshot));
                Ok(OperationProgress { description: description.unwrap_or_default(), ..progress })
            }
            Ok(None) => ended(format!("somebody deleted VolumeSnapshotContent {content}")),
            Err(error) => later(error),
        }
    }
}

/// `<namespace>/<name>/<time>`, as upstream; with the snapshot's own time, so that it is the same in every attempt.
fn operation(snapshot: &Value) -> String {
    let (namespace, name) = (text(snapshot, "/metadata/namespace"), text(snapshot, "/metadata/name"));
    let made = text(snapshot, "/metadata/creationTimestamp");
    let made = if made.is_empty() { "1970-01-01T00:00:00Z" } else { made };
    format!("{namespace}/{name}/{made}")
}

fn parts(operation: &str) -> Result<(&str, &str, Timestamp), ActionError> {
    let mut parts = operation.splitn(3, '/');
    let (namespace, name, time) = (parts.next(), parts.next(), parts.next());
    let time = time.and_then(|time| time.parse().ok());
    match (namespace, name, time) {
        (Some(namespace), Some(name), Some(time)) => Ok((namespace, name, time)),
        _ => Err(ActionError::Failed(format!("'{operation}' is no operation of this action"))),
    }
}

/// Brings the Secret with which a content's snapshot is deleted.
pub(super) struct ContentAction;

#[async_trait]
impl BackupItemAction for ContentAction {
    fn name(&self) -> &'static str {
        csi::CONTENT_BACKUPPER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["volumesnapshotcontents.snapshot.storage.k8s.io"]))
    }

    async fn execute(
        &self,
        item: Value,
        backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let secret = csi::deletion_secret(&item).filter(|_| !is_finalizing(backup));
        Ok(with_secret(item, secret))
    }
}

/// Brings the Secret with which a class's snapshots are listed.
pub(super) struct ClassAction;

#[async_trait]
impl BackupItemAction for ClassAction {
    fn name(&self) -> &'static str {
        csi::CLASS_BACKUPPER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["volumesnapshotclasses.snapshot.storage.k8s.io"]))
    }

    async fn execute(
        &self,
        item: Value,
        _backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let secret = csi::list_secret(&item);
        Ok(with_secret(item, secret))
    }
}

fn with_secret(mut item: Value, secret: Option<ItemId>) -> BackupOutcome {
    if secret.is_some() {
        item["metadata"]["annotations"][names::MUST_INCLUDE_ADDITIONAL_ITEMS] = json!("true");
    }
    BackupOutcome { item, additional_items: secret.into_iter().collect(), ..BackupOutcome::default() }
}

/// Items are read again then, and nothing is begun.
fn is_finalizing(backup: &Backup) -> bool {
    matches!(backup.phase(), BackupPhase::Finalizing | BackupPhase::FinalizingPartiallyFailed)
}

#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
pub(super) fn failed(error: lifeboat_cluster::ApiError) -> ActionError {
    match error.code() {
        Some(403) => ActionError::Forbidden(error.chain()),
        _ => ActionError::Failed(error.chain()),
    }
}
