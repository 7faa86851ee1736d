//! Creates VolumePluginBackups that Backups of the cluster lack, because a server ended after it had created
//! the Backup and before it created them, or because they were deleted. Each sync checks some of the
//! location's backups in turn, and reads the bucket only for those that have fewer objects than snapshots.

use std::collections::BTreeSet;

use kube::Api;
use kube::api::ListParams;
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{Backup, VolumePluginBackup};
use lifeboat_archive::BackupFiles;
use lifeboat_archive::memory::Memory;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::sync::{Stored, next_in_turn, snapshots_with_objects, volume_plugin_backup};
use lifeboat_plan::velero::volume_plugin::Kind;
use serde_json::Value;

use super::bring::{Lists, create_all};
use super::{Past, SyncError};
use crate::context::Context;
use crate::locations::Location;
use crate::ownership;

/// How many backups one sync checks.
const LOOKED_AT: usize = 16;

/// Checks the next backups of the location. A backup that cannot be repaired does not hold up the others; it
/// is tried again when its turn comes.
pub(super) async fn repair(context: &Context, location: &Location, here: &BTreeSet<String>, past: &mut Past) {
    past.repaired.retain(|name, _| here.contains(name));
    for name in next_in_turn(here, past.last_repaired.as_deref(), LOOKED_AT) {
        if let Err(error) = repair_one(context, location, &name, past).await {
            tracing::warn!(location = location.name, backup = name, %error, "lost objects of volumes are not created");
        }
        past.last_repaired = Some(name);
    }
}

async fn repair_one(
    context: &Context,
    location: &Location,
    name: &str,
    past: &mut Past,
) -> Result<(), SyncError> {
    let resource = objects::resource_of::<Backup>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let found = api.get_opt(name).await.attempt(format!("read Backup {name}"))?;
    let Some(backup) = found.map(|found| objects::to_json(&found)) else { return Ok(()) };
    let expected = snapshots_with_objects(&backup, &LocationName::new(&location.name));
    if expected == 0 {
        return Ok(());
    }
    let uid = BackupUid::new(backup["metadata"]["uid"].as_str().unwrap_or_default());
    let there = count(context, &uid).await?;
    // If the bucket has no object for a snapshot, the count stays lower; storage is not read for that again.
    if there >= expected || past.repaired.get(name) == Some(&there) {
        return Ok(());
    }
    if let Err(error) = create_lost(context, location, &backup, &uid).await {
        if error.is_lasting() {
            past.repaired.insert(name.to_owned(), there);
        }
        return Err(error);
    }
    let now = count(context, &uid).await?;
    past.repaired.insert(name.to_owned(), now);
    if now > there {
        let objects = now - there;
        tracing::info!(location = location.name, backup = name, objects, "created lost VolumePluginBackups");
    }
    Ok(())
}

/// How many VolumePluginBackups a Backup has.
async fn count(context: &Context, uid: &BackupUid) -> Result<usize, ApiError> {
    let api: Api<VolumePluginBackup> = Api::namespaced(context.client.clone(), &context.namespace);
    let of_it = ListParams::default().labels(&Kind::Backup.uid_selector(uid.as_str()));
    Ok(api.list_metadata(&of_it).await.attempt("list VolumePluginBackups")?.items.len())
}

/// Creates the objects of the stored list that do not exist.
async fn create_lost(
    context: &Context,
    location: &Location,
    backup: &Value,
    uid: &BackupUid,
) -> Result<(), SyncError> {
    let name = backup["metadata"]["name"].as_str().unwrap_or_default();
    let lists = Lists::of_snapshots(location, &BackupFiles::new(name)?).await?;
    let _memory = Memory::of_process().work.take(lists.weight).await.map_err(SyncError::memory)?;
    let stored = Stored {
        name,
        json: backup,
        location: &LocationName::new(&location.name),
        namespace: &NamespaceName::new(&context.namespace),
        schedules: &BTreeSet::new(),
        keys: &ownership::keys(context).await?,
    };
    let mut problems = Vec::new();
    for list in lists.snapshots {
        let object = |json: &Value| volume_plugin_backup(&stored, json, uid);
        create_all::<VolumePluginBackup>(context, list, object, &mut problems).await;
    }
    if problems.is_empty() { Ok(()) } else { Err(SyncError::Incomplete(problems)) }
}
