//! Removes objects whose backup is gone from the bucket. Two listings did not contain it; now storage is asked for
//! its `velero-backup.json`, and only "not found" counts.

use kube::Resource;
use lifeboat_api::velero::Backup;
use lifeboat_archive::BackupFiles;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::sync::may_go;

use super::SyncError;
use crate::context::Context;
use crate::locations::Location;

pub(super) async fn remove(
    context: &Context,
    location: &Location,
    absent: &[String],
) -> Result<(), SyncError> {
    for name in absent {
        let files = BackupFiles::new(name)?;
        if !location.store.exists(&files.metadata()).await? {
            remove_one(context, location, name).await?;
        }
    }
    Ok(())
}

async fn remove_one(context: &Context, location: &Location, name: &str) -> Result<(), ApiError> {
    let resource = objects::resource_of::<Backup>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let Some(object) = api.get_opt(name).await.attempt(format!("read Backup {name}"))? else {
        return Ok(());
    };
    // The object may have been moved to another location, or belong to a backup that is just being written.
    let json = objects::to_json(&object);
    if json.pointer("/spec/storageLocation").and_then(serde_json::Value::as_str) != Some(&location.name)
        || !may_go(&json)
    {
        return Ok(());
    }
    tracing::info!(
        location = location.name,
        backup = name,
        "the backup is gone from the bucket: its object is removed"
    );
    let note = format!("its files are gone from location '{}': the object is removed", location.name);
    context.events.warning(&object.object_ref(&resource), "BackupGone", &note).await;
    objects::delete(&api, &object).await
}
