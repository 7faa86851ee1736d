//! CSI snapshots in the cluster whose Backup is gone, because it was deleted while no server ran. Storage is asked
//! whether the backup's files exist. Any doubt keeps the snapshots.

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::common::{BackupUid, LocationName};
use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::csi::{Orphan, orphan};
use lifeboat_plan::velero::deletion::Stored;

use crate::context::Context;
use crate::csi;
use crate::locations::{self, LocationError, stored_backup};

/// The longest value of a label: a value of this length may be a longer name, cut.
const CUT: usize = 63;

/// Whether the snapshots of the backup with this UID are still needed.
pub(in crate::backup) async fn of(context: &Context, uid: &BackupUid) -> Result<Orphan, ApiError> {
    let mut looked = Vec::new();
    for (name, location) in csi::origins(context, uid).await? {
        if name.is_empty() || name.len() >= CUT || location.as_str().len() >= CUT {
            let message =
                format!("its name '{name}' or that of its location '{location}' is not known in full");
            return Ok(Orphan::Unknown(message));
        }
        // Objects of older versions do not name the location: all locations are asked.
        let places = if location.is_empty() { all(context).await? } else { vec![location] };
        for place in places {
            let stored = stored(context, &place, &name).await?;
            looked.push((place, stored));
        }
    }
    Ok(orphan(uid, &looked))
}

/// Whether the backup with this UID exists in storage, if its name and location are known.
pub(in crate::backup) async fn at(
    context: &Context,
    uid: &BackupUid,
    places: &[(String, LocationName)],
) -> Result<Orphan, ApiError> {
    let mut looked = Vec::new();
    for (name, location) in places.iter().filter(|(name, _)| !name.is_empty()) {
        looked.push((location.clone(), stored(context, location, name).await?));
    }
    Ok(orphan(uid, &looked))
}

async fn all(context: &Context) -> Result<Vec<LocationName>, ApiError> {
    let resource = objects::resource_of::<BackupStorageLocation>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let listed = api.list(&ListParams::default()).await.attempt("list BackupStorageLocations")?;
    Ok(listed.items.iter().map(|one| LocationName::new(one.name_any())).collect())
}

async fn stored(context: &Context, location: &LocationName, backup: &str) -> Result<Stored, ApiError> {
    match locations::open(context, location.as_str()).await {
        Ok(location) => Ok(stored_backup(&location, backup).await),
        Err(LocationError::Api(error)) => Err(error),
        Err(error) => Ok(Stored::Unreadable(format!("cannot be read: {}", error.chain()))),
    }
}
