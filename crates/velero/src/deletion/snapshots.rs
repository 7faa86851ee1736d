//! Deletes the plugin snapshots of a backup before its files, because only the files list them. Snapshots that cannot
//! be deleted are named, and then the backup is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot};
use lifeboat_plugin::ActionError;
use lifeboat_plugin::host::{ServerLog, Session};
use tokio::time::timeout;

use super::owned::Owner;
use crate::context::Context;
use crate::snapshot_locations::{self, OpenSnapshotter, SnapshotterError};

/// The result of deleting snapshots.
#[derive(Default)]
pub(super) struct SnapshotsDeleted {
    /// What could not be deleted, for people.
    pub(super) problems: Vec<String>,
    /// What is left because nothing proves that it is the backup's, for people.
    pub(super) left: Vec<String>,
    /// Whether any snapshot was deleted.
    pub(super) any: bool,
}

/// Deletes those that are the backup's own.
pub(super) async fn delete(context: &Context, owner: &Owner) -> SnapshotsDeleted {
    let Ok(files) = BackupFiles::new(&owner.name) else { return SnapshotsDeleted::default() };
    let problems = unlisted(&owner.natives, &owner.volumes, &files.volume_snapshots());
    let own: Vec<&NativeSnapshot> = owner.natives.iter().filter(|one| owner.owns_native(one)).collect();
    let session = context.plugins.session(Arc::new(ServerLog));
    let mut gone = SnapshotsDeleted { problems, ..SnapshotsDeleted::default() };
    delete_all(context, &session, &own, &mut gone).await;
    session.close().await;
    gone
}

/// Deletes all snapshots or, if a location cannot be opened, none: every location is opened first.
async fn delete_all(
    context: &Context,
    session: &Session,
    listed: &[&NativeSnapshot],
    gone: &mut SnapshotsDeleted,
) {
    let remains = |snapshot: &NativeSnapshot, message: &str| {
        let (id, place) = (&snapshot.status.provider_snapshot_id, &snapshot.spec.location);
        let volume = &snapshot.spec.persistent_volume_name;
        format!("snapshot '{id}' of volume '{volume}' in location '{place}' remains: {message}")
    };
    let mut seen = BTreeSet::new();
    // A snapshot without a provider's ID was never taken; one that is listed twice is deleted once.
    let made = listed.iter().copied().filter(|one| !one.status.provider_snapshot_id.is_empty());
    let made: Vec<_> = made
        .filter(|one| seen.insert((one.spec.location.as_str(), one.status.provider_snapshot_id.as_str())))
        .collect();
    let mut opened: BTreeMap<&str, Result<OpenSnapshotter, SnapshotterError>> = BTreeMap::new();
    for snapshot in &made {
        let place = snapshot.spec.location.as_str();
        if !opened.contains_key(place) {
            opened.insert(place, snapshot_locations::open(context, session, place).await);
        }
        if let Some(Err(error)) = opened.get(place) {
            gone.problems.push(remains(snapshot, &error.chain()));
        }
    }
    if !gone.problems.is_empty() {
        return;
    }
    for snapshot in made {
        let Some(Ok(location)) = opened.get(snapshot.spec.location.as_str()) else { continue };
        match delete_one(context, location, &snapshot.status.provider_snapshot_id).await {
            Ok(()) => gone.any = true,
            Err(error) => gone.problems.push(remains(snapshot, &error.to_string())),
        }
    }
}

/// Why a plugin did not delete a snapshot.
#[derive(Debug, thiserror::Error)]
enum PluginFailure {
    #[error(transparent)]
    Failed(#[from] ActionError),
    #[error("its plugin did not answer in time (--resource-timeout)")]
    Late,
}

async fn delete_one(context: &Context, location: &OpenSnapshotter, id: &str) -> Result<(), PluginFailure> {
    let limit = context.settings.backup.defaults.resource_timeout;
    match timeout(limit, location.snapshotter.delete_snapshot(id)).await {
        Ok(deleted) => Ok(deleted?),
        Err(_elapsed) => Err(PluginFailure::Late),
    }
}

/// Messages about snapshots that only the volume info lists, which does not name their snapshot location.
fn unlisted(listed: &[NativeSnapshot], volumes: &[BackupVolumeInfo], list: &str) -> Vec<String> {
    let known: BTreeSet<&str> =
        listed.iter().map(|snapshot| snapshot.status.provider_snapshot_id.as_str()).collect();
    let native = volumes.iter().filter(|volume| !volume.skipped).filter_map(|volume| {
        let handle = volume.native_snapshot_info.as_ref()?.snapshot_handle.as_str();
        (!handle.is_empty() && !known.contains(handle)).then_some((handle, &volume.pv_name))
    });
    native
        .map(|(handle, volume)| {
            format!("snapshot '{handle}' of volume '{volume}' remains: '{list}' does not say in which location it is")
        })
        .collect()
}
