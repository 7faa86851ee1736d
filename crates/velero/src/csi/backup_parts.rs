//! The backup item actions for VolumeSnapshots, their contents and classes. Each one adds the annotations that a
//! restore or a deletion needs, and the additional items that belong to the object.

use async_trait::async_trait;
use jiff::Timestamp;
use kube::ResourceExt;
use lifeboat_api::velero::{Backup, names};
use lifeboat_control::Clock;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::transfer::snapshots;
use lifeboat_plan::velero::csi::{self, OF_BACKUP};
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, BackupItemAction, BackupOutcome, Lookup, OperationProgress,
};
use serde_json::{Value, json};

use super::backup::{failed, is_finalizing};
use super::objects::{Snapshots, text};

/// Records in a VolumeSnapshot where its data is, and adds its content and class.
pub(super) struct SnapshotAction(pub(super) Snapshots, pub(super) Clock);

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
            outcome.additional_items.push(ItemId::cluster(snapshots::classes(), class));
        }
        // A user's own VolumeSnapshot may not be bound yet.
        let content = match snapshots::bound_content(&item) {
            Some(name) => self.0.content(name).await.map_err(failed)?,
            None => None,
        };
        if let Some(content) = &content {
            let name = text(content, "/metadata/name");
            outcome.additional_items.push(ItemId::cluster(snapshots::contents(), name));
            let notes = csi::snapshot_notes(content);
            let ours = item["metadata"]["labels"][OF_BACKUP].as_str() == backup.uid().as_deref();
            if ours {
                let (namespace, name) = (text(&item, "/metadata/namespace"), text(&item, "/metadata/name"));
                let patch = json!({"metadata": {"annotations": notes}});
                self.0.change(namespace, name, &patch).await.map_err(failed)?;
                if !snapshots::is_ready(content) {
                    outcome.operation_id = Some(operation(&item));
                    outcome.post_operation_items = vec![
                        ItemId::namespaced(snapshots::snapshots(), namespace, name),
                        ItemId::cluster(snapshots::contents(), text(content, "/metadata/name")),
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
            let updated = Some(self.1.now());
            Ok(OperationProgress { completed: true, error, updated, ..progress.clone() })
        };
        let later = |error: lifeboat_cluster::ApiError| {
            if error.is_transient() { Ok(progress.clone()) } else { Err(failed(error)) }
        };
        let snapshot = match self.0.snapshot(namespace, name).await {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return ended(format!("VolumeSnapshot {namespace}/{name} was deleted")),
            Err(error) => return later(error),
        };
        let Some(content) = snapshots::bound_content(&snapshot) else { return Ok(progress) };
        match self.0.content(content).await {
            Ok(Some(content)) if snapshots::is_ready(&content) => ended(String::new()),
            // Drivers retry until the operation's time is over; the progress shows the reason in the meantime.
            Ok(Some(content)) => {
                let description =
                    snapshots::reported_error(&content).or_else(|| snapshots::reported_error(&snapshot));
                Ok(OperationProgress { description: description.unwrap_or_default(), ..progress })
            }
            Ok(None) => ended(format!("VolumeSnapshotContent {content} was deleted")),
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
        _ => Err(ActionError::Failed(format!("'{operation}' is not an operation of this action"))),
    }
}

/// Adds the Secret with which a content's snapshot is deleted.
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
        let secret = snapshots::deletion_secret(&item).filter(|_| !is_finalizing(backup));
        Ok(with_secret(item, secret))
    }
}

/// Adds the Secret with which a class's snapshots are listed.
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
        let secret = snapshots::list_secret(&item);
        Ok(with_secret(item, secret))
    }
}

fn with_secret(mut item: Value, secret: Option<ItemId>) -> BackupOutcome {
    if secret.is_some() {
        item["metadata"]["annotations"][names::MUST_INCLUDE_ADDITIONAL_ITEMS] = json!("true");
    }
    BackupOutcome { item, additional_items: secret.into_iter().collect(), ..BackupOutcome::default() }
}
