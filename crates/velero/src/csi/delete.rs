//! The delete item action: deletes the snapshots of a backup with the backup, and reports whether the driver did it.
//! A snapshot whose deletion is not certain is a problem, and then the backup is kept.

use std::fmt::Display;
use std::time::Duration;

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::velero::{Backup, names};
use lifeboat_cluster::ApiError;
use lifeboat_plan::transfer::snapshots;
use lifeboat_plan::velero::csi;
use lifeboat_plugin::actions::{ActionError, AppliesTo, DeleteItemAction};
use serde_json::{Value, json};

use super::backup::failed;
use super::objects::{PollTimer, Snapshots, Unusable, text};

/// How long it may take until a driver's sidecar notices a content.
const HANDLED: Duration = Duration::from_mins(1);
/// How long a driver may take for a deletion; if it takes longer, the next try asks again.
const GONE: Duration = Duration::from_mins(5);

/// Why a snapshot may still exist.
#[derive(Debug, thiserror::Error)]
enum NotDeleted {
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    /// `left`: why its content cannot be removed either, or nothing.
    #[error(
        "no CSI driver of this cluster handles its content; is the driver installed, and is the node with the snapshot running?{left}"
    )]
    NotHandled { left: String },
    #[error("after {} s: {last}", GONE.as_secs())]
    Late { last: String },
}

/// Deletes the driver's snapshot of a content.
pub(super) struct ContentAction(pub(super) Snapshots);

#[async_trait]
impl DeleteItemAction for ContentAction {
    fn name(&self) -> &'static str {
        csi::CONTENT_DELETER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["volumesnapshotcontents.snapshot.storage.k8s.io"]))
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError> {
        if !csi::is_of_backup(item, &backup.name_any()) {
            return Ok(());
        }
        let Some(wanted) = csi::for_deletion(item) else { return Ok(()) };
        let remains = |message: &dyn Display| {
            let (driver, handle) = (text(item, "/spec/driver"), text(item, "/status/snapshotHandle"));
            ActionError::Failed(format!("snapshot '{handle}' of driver {driver} remains: {message}"))
        };
        match self.0.usable().await {
            Ok(()) => {}
            Err(Unusable::NotServed) => {
                let message = "the cluster does not serve VolumeSnapshotContents; delete the backup in a cluster of its driver";
                return Err(remains(&message));
            }
            Err(Unusable::Forbidden) => {
                return Err(remains(&"this installation may not create VolumeSnapshotContents"));
            }
            Err(Unusable::Api(error)) => return Err(failed(error)),
        }
        self.clear_restored(item, &backup.name_any()).await.map_err(failed)?;
        let name = text(&wanted, "/metadata/name").to_owned();
        self.0.make_content(&wanted).await.map_err(failed)?;
        if !self.is_handled(&name).await.map_err(|error| remains(&error))? {
            // The content was deleted in the meantime: the deletion of an earlier try has ended.
            return Ok(());
        }
        self.0.delete_content(&name).await.map_err(failed)?;
        self.is_gone(&name).await.map_err(|error| remains(&error))
    }
}

impl ContentAction {
    /// Removes the contents that restores made to reach the snapshot and whose VolumeSnapshot is gone.
    async fn clear_restored(&self, item: &Value, backup: &str) -> Result<(), ApiError> {
        let label = lifeboat_plan::label::value(backup);
        for content in self.0.labelled_contents(names::BACKUP_NAME, Some(&label)).await? {
            let Some((namespace, name)) = csi::restored_from(&content, item, backup) else { continue };
            if self.0.snapshot(namespace, name).await?.is_none() {
                self.0.delete_content(text(&content, "/metadata/name")).await?;
            }
        }
        Ok(())
    }

    /// Waits until the driver's sidecar has noticed the content, which shows in its status: only the sidecar deletes
    /// the snapshot. False if the content is gone.
    async fn is_handled(&self, name: &str) -> Result<bool, NotDeleted> {
        let timer = PollTimer::new(HANDLED);
        loop {
            match self.0.content(name).await {
                Ok(None) => return Ok(false),
                Ok(Some(content)) if content["status"].is_object() || snapshots::is_going(&content) => {
                    return Ok(true);
                }
                Err(error) if !error.is_transient() => return Err(error.into()),
                Ok(Some(_)) | Err(_) => {}
            }
            if !timer.pause().await {
                // No controller would ever remove its finalizer.
                let free = json!({"metadata": {"finalizers": null}});
                let left = match self.0.change_content(name, &free).await {
                    Ok(()) => self.0.delete_content(name).await.err(),
                    Err(error) => Some(error),
                };
                let left = left.map(|error| format!("; {}", error.chain())).unwrap_or_default();
                return Err(NotDeleted::NotHandled { left });
            }
        }
    }

    async fn is_gone(&self, name: &str) -> Result<(), NotDeleted> {
        let timer = PollTimer::new(GONE);
        loop {
            let last = match self.0.content(name).await {
                Ok(None) => return Ok(()),
                Ok(Some(content)) => snapshots::reported_error(&content).unwrap_or_else(|| {
                    "its CSI driver has not deleted it; is the driver installed, and is the node with the snapshot running?"
                        .to_owned()
                }),
                Err(error) if error.is_transient() => error.chain(),
                Err(error) => return Err(error.into()),
            };
            if !timer.pause().await {
                return Err(NotDeleted::Late { last });
            }
        }
    }
}
