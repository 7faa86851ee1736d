//! The delete item action: a snapshot that a backup took goes with it. Whoever deletes learns whether the driver did it;
//! what cannot be known to be gone is a problem, and then the backup stays.

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
use super::objects::{Patience, Snapshots, Unusable, text};

/// How long it may take until somebody looks after a content at all.
const TAKEN_ON: Duration = Duration::from_mins(1);
/// How long a driver may take for a deletion; what takes longer is asked for again at the next try.
const GONE: Duration = Duration::from_mins(5);

/// Deletes the snapshot of a content.
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
        let remains = |message: String| {
            let (driver, handle) = (text(item, "/spec/driver"), text(item, "/status/snapshotHandle"));
            ActionError::Failed(format!("snapshot '{handle}' of driver {driver} remains: {message}"))
        };
        match self.0.usable().await {
            Ok(()) => {}
            Err(Unusable::NotServed) => {
                let message = "the cluster does not serve VolumeSnapshotContents; delete the backup in a cluster of its driver";
                return Err(remains(message.to_owned()));
            }
            Err(Unusable::Forbidden) => {
                return Err(remains("this installation may not make VolumeSnapshotContents".to_owned()));
            }
            Err(Unusable::Api(error)) => return Err(failed(error)),
        }
        self.clear_restored(item, &backup.name_any()).await.map_err(failed)?;
        let name = text(&wanted, "/metadata/name").to_owned();
        self.0.make_content(&wanted).await.map_err(failed)?;
        if !self.is_taken_on(&name).await.map_err(remains)? {
            // It went while we looked: an earlier try's deletion has ended.
            return Ok(());
        }
        self.0.delete_content(&name).await.map_err(failed)?;
        self.is_gone(&name).await.map_err(remains)
    }
}

impl ContentAction {
    /// What restores made to reach the snapshot, and nobody can delete by its VolumeSnapshot any more.
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

    /// Waits until the driver's sidecar has noticed the content, which its status tells: nobody else deletes the snapshot.
    /// False where it is gone.
    async fn is_taken_on(&self, name: &str) -> Result<bool, String> {
        let patience = Patience::new(TAKEN_ON);
        loop {
            match self.0.content(name).await {
                Ok(None) => return Ok(false),
                Ok(Some(content)) if content["status"].is_object() || snapshots::is_going(&content) => {
                    return Ok(true);
                }
                Err(error) if !error.is_transient() => return Err(error.chain()),
                Ok(Some(_)) | Err(_) => {}
            }
            if !patience.pause().await {
                // Nobody would ever take its finalizer away.
                let free = json!({"metadata": {"finalizers": null}});
                let left = match self.0.change_content(name, &free).await {
                    Ok(()) => self.0.delete_content(name).await.err(),
                    Err(error) => Some(error),
                };
                let left = left.map(|error| format!("; {}", error.chain())).unwrap_or_default();
                return Err(format!(
                    "no driver of this cluster looks after its content; is it installed, and is the node there that has it?{left}"
                ));
            }
        }
    }

    async fn is_gone(&self, name: &str) -> Result<(), String> {
        let patience = Patience::new(GONE);
        loop {
            let last = match self.0.content(name).await {
                Ok(None) => return Ok(()),
                Ok(Some(content)) => snapshots::trouble(&content).unwrap_or_else(|| {
                    "its driver has not deleted it; is it installed, and is the node there that has it?"
                        .to_owned()
                }),
                Err(error) if error.is_transient() => error.chain(),
                Err(error) => return Err(error.chain()),
            };
            if !patience.pause().await {
                return Err(format!("after {} s: {last}", GONE.as_secs()));
            }
        }
    }
}
