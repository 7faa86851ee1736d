//! Snapshots in the cluster whose Backup is gone: somebody deleted it while no server ran. Whether they are still a backup's
//! is asked where it was to be stored. Any doubt keeps them.

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::csi::{Orphan, orphan};
use lifeboat_plan::velero::deletion::Stored;

use crate::context::Context;
use crate::csi;
use crate::locations::{self, LocationError, stored_backup};

/// As long as a label's value can be: it may stand for a longer name.
const CUT: usize = 63;

/// What the snapshots of the backup with this UID are.
pub(in crate::backup) async fn of(context: &Context, uid: &str) -> Result<Orphan, ApiError> {
    let mut looked = Vec::new();
    for (name, location) in csi::origins(context, uid).await? {
        if name.is_empty() || name.len() >= CUT || location.len() >= CUT {
            let message =
                format!("its name '{name}' or that of its location '{location}' is not known in full");
            return Ok(Orphan::Unknown(message));
        }
        // Objects of older versions do not say where it was to be stored.
        let places = if location.is_empty() { all(context).await? } else { vec![location] };
        for place in places {
            let stored = stored(context, &place, &name).await?;
            looked.push((place, stored));
        }
    }
    Ok(orphan(uid, &looked))
}

/// What the backup with this UID is, where it is known by which name and in which location it was to be stored.
pub(in crate::backup) async fn at(
    context: &Context,
    uid: &str,
    places: &[(String, String)],
) -> Result<Orphan, ApiError> {
    let mut looked = Vec::new();
    for (name, location) in places.iter().filter(|(name, _)| !name.is_empty()) {
        looked.push((location.clone(), stored(context, location, name).await?));
    }
    Ok(orphan(uid, &looked))
}

async fn all(context: &Context) -> Result<Vec<String>, ApiError> {
    let resource = objects::resource_of::<BackupStorageLocation>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let listed = api.list(&ListParams::default()).await.attempt("list BackupStorageLocations")?;
    Ok(listed.items.iter().map(ResourceExt::name_any).collect())
}

async fn stored(context: &Context, location: &str, backup: &str) -> Result<Stored, ApiError> {
    match locations::open(context, location).await {
        Ok(location) => Ok(stored_backup(&location, backup).await),
        Err(LocationError::Api(error)) => Err(error),
        Err(error) => Ok(Stored::Unreadable(format!("cannot be read: {}", error.chain()))),
    }
}
