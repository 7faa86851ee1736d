//! Reads a location and opens its bucket: for one request after the other, or for a backup or restore, which waits while
//! storage is away.

use std::sync::Arc;

use kube::{Client, ResourceExt};
use lifeboat_api::velero::{BackupStorageLocation, BackupStorageLocationPhase};
use lifeboat_archive::{Bounded, ObjectStore};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_store::{Outage, RetryPolicy, Tuning};

use super::{Location, LocationError, Opening, opening, problem, secrets, unreadable_problem};
use crate::context::Context;
use crate::plugin_store::PluginOpening;
use crate::storage_problem::Problem;

/// Archives come out of one compressor: two parts in flight keep up with it and need little memory. S3 accepts no
/// parts below 5 MiB.
const PART: usize = 5 * 1024 * 1024;
const PARTS_AT_ONCE: usize = 2;

/// Reads the location called `name`.
pub(crate) async fn find(context: &Context, name: &str) -> Result<BackupStorageLocation, LocationError> {
    find_in(&context.client, &context.namespace, name).await
}

pub(super) async fn find_in(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<BackupStorageLocation, LocationError> {
    let resource = objects::resource_of::<BackupStorageLocation>();
    let api = objects::namespaced(client, namespace, &resource);
    let missing = || LocationError::NotFound(name.to_owned());
    if name.is_empty() {
        return Err(missing());
    }
    let found = api.get_opt(name).await.attempt(format!("read BackupStorageLocation {name}"))?;
    let object = found.ok_or_else(missing)?;
    objects::typed(&object).map_err(|error| unavailable(name, unreadable_problem(&error)))
}

/// Opens the location called `name`: it must exist, be Available, and have usable settings.
pub(crate) async fn open(context: &Context, name: &str) -> Result<Location, LocationError> {
    open_found(context, find(context, name).await?).await
}

/// Opens a location for a backup or restore, whose requests wait while storage is away, as `outage` shows.
pub(crate) async fn open_patient(
    context: &Context,
    name: &str,
    outage: &Outage,
) -> Result<Location, LocationError> {
    let limit = context.settings.storage.outage_timeout;
    let retry = RetryPolicy::default().with_outage(limit);
    Box::pin(open_with(context, find(context, name).await?, retry, outage)).await
}

/// Opens a location that was already read.
pub(crate) async fn open_found(
    context: &Context,
    object: BackupStorageLocation,
) -> Result<Location, LocationError> {
    Box::pin(open_with(context, object, RetryPolicy::default(), &Outage::default())).await
}

async fn open_with(
    context: &Context,
    object: BackupStorageLocation,
    retry: RetryPolicy,
    outage: &Outage,
) -> Result<Location, LocationError> {
    let name = object.name_any();
    if object.phase() != Some(&BackupStorageLocationPhase::Available) {
        let message = object.status.as_ref().and_then(|status| status.message.clone());
        let message =
            message.filter(|text| !text.is_empty()).unwrap_or_else(|| "it was not validated yet".into());
        return Err(LocationError::Unavailable { name, message });
    }
    let secrets = secrets(context, &object).await?;
    let opening =
        opening(&object, &secrets, &context.plugins).map_err(|problem| unavailable(&name, problem))?;
    let (outage, waits) = (outage.clone(), retry.outage.unwrap_or_default());
    let store: Arc<dyn ObjectStore> = match opening {
        Opening::BuiltIn(config) => {
            let tuning = Tuning {
                retry,
                part_size: PART,
                upload_concurrency: PARTS_AT_ONCE,
                outage: outage.clone(),
                ..Tuning::default()
            };
            let store = lifeboat_store::open(&config, &context.settings.cloud, tuning).await;
            Arc::new(store.map_err(|error| unavailable(&name, problem(&error)))?)
        }
        Opening::Plugin(opening) => {
            open_plugin(context, &opening).map_err(|problem| unavailable(&name, problem))?
        }
    };
    let store = Arc::new(Bounded::new(store).waiting_for(waits));
    Ok(Location { name, object, store, outage })
}

/// The store of a location that uses a plugin.
pub(crate) fn open_plugin(
    context: &Context,
    opening: &PluginOpening,
) -> Result<Arc<dyn ObjectStore>, Problem> {
    context.stores.open(&context.plugins, &context.settings.storage.spool_directory, opening)
}

pub(super) fn unavailable(name: &str, problem: Problem) -> LocationError {
    LocationError::Unavailable { name: name.to_owned(), message: problem.message }
}
