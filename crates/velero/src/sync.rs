//! Syncs the backups of buckets with the cluster: each location is listed when it is due; backups without an object
//! get one, objects of their snapshots that were lost are created again, and objects whose backup is gone are deleted.
//! Nothing is concluded from a listing that failed.

mod bring;
mod look;
mod remove;
mod repair;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use lifeboat_api::velero::{Backup, BackupStorageLocation, BackupStorageLocationPhase, names};
use lifeboat_archive::documents::DocumentError;
use lifeboat_archive::{BackupFiles, NameError, StoreError, layout};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::locked;
use lifeboat_plan::velero::sync::{Absences, Turn, all_synced, turn};
use lifeboat_plan::{conditions, label, time};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;
use crate::locations::{self, Location, MetadataError};
use look::Looked;

/// Why a location, or one of its backups, was not synced.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error("{}", locations::message(.0))]
    Store(#[from] StoreError),
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    /// A name that cannot be part of a file name.
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("velero-backup.json {0}")]
    Metadata(#[from] MetadataError),
    /// `velero-backup.json` has content that must not be synced.
    #[error("{0}")]
    Refused(String),
    #[error("its list of {what} cannot be read: {cause}")]
    List { what: &'static str, cause: DocumentError },
    #[error("it is not an object: {0}")]
    NoObject(serde_json::Error),
    /// The Backup was created, but some objects of its volumes were not.
    #[error("some objects of its volumes were not created: {}", .0.iter().map(Self::to_string).collect::<Vec<_>>().join("; "))]
    Incomplete(Vec<Self>),
}

impl SyncError {
    /// Whether the content of the backup's files is the cause: the same files give the same problem.
    fn is_lasting(&self) -> bool {
        match self {
            Self::Metadata(error) => error.is_lasting(),
            Self::Store(error) => matches!(error, StoreError::TooLarge { .. }),
            Self::List { cause, .. } => !matches!(cause, DocumentError::Memory(_) | DocumentError::Stopped),
            Self::Api(error) => error.is_invalid(),
            Self::Name(_) | Self::Refused(_) | Self::NoObject(_) => true,
            Self::Incomplete(_) => false,
        }
    }
}

/// What outlives one sync.
struct State {
    resource: ApiResource,
    backups: reflector::Store<PartialObjectMeta<Backup>>,
    /// By the location's UID.
    past: Mutex<BTreeMap<String, Past>>,
}

#[derive(Clone, Default)]
struct Past {
    last: Option<Timestamp>,
    absences: Absences,
    /// Problems that were reported, by backup.
    reported: BTreeMap<String, String>,
    /// The directories without an object in the cluster.
    looked: BTreeMap<String, Looked>,
    /// The number of syncs.
    syncs: u64,
    /// The backup whose lost objects were looked for last.
    last_repaired: Option<String>,
    /// How many VolumePluginBackups a backup had after storage was read for it.
    repaired: BTreeMap<String, usize>,
}

/// The names of all Backup objects, and of those in one location.
struct InCluster {
    all: BTreeSet<String>,
    here: BTreeSet<String>,
}

impl State {
    fn past(&self) -> MutexGuard<'_, BTreeMap<String, Past>> {
        locked(&self.past)
    }

    fn in_cluster(&self, location: &str) -> InCluster {
        let backups = self.backups.state();
        let wanted = label::value(location);
        let here =
            backups.iter().filter(|backup| backup.labels().get(names::STORAGE_LOCATION) == Some(&wanted));
        InCluster {
            here: here.map(|backup| backup.name_any()).collect(),
            all: backups.iter().map(|backup| backup.name_any()).collect(),
        }
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<BackupStorageLocation>();
    let watches = context.watches(&resource).until(shutdown);
    // Only names and labels, without managed fields: thousands of backups need little memory and no listing.
    let (backups, writer) = reflector::store();
    let api: Api<PartialObjectMeta<Backup>> = Api::namespaced(context.client.clone(), &context.namespace);
    let watch = watcher(api, dynamic::watching())
        .default_backoff()
        .modify(|backup| {
            backup.managed_fields_mut().clear();
            backup.annotations_mut().clear();
        })
        .reflect(writer)
        .take_until(shutdown.clone().cancelled_owned())
        .for_each(|_| async { context.metrics.set_backup_total(backups.len()) });
    let state = Arc::new(State { resource, backups: backups.clone(), past: Mutex::default() });
    let drive = dynamic::drive("backup-sync", watches, context.clone(), state, reconcile);
    tokio::join!(watch, drive);
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    // The location's own controller reports what is wrong with an unreadable or unavailable location.
    let Ok(location) = objects::typed::<BackupStorageLocation>(&object) else {
        return Ok(Action::await_change());
    };
    let gone = object.metadata.deletion_timestamp.is_some();
    if gone || location.phase() != Some(&BackupStorageLocationPhase::Available) {
        return Ok(Action::await_change());
    }
    let uid = object.uid().unwrap_or_default();
    let mut past = state.past().get(&uid).cloned().unwrap_or_default();
    let default = context.settings.storage.sync_period;
    let own = location.spec.backup_sync_period.and_then(|period| u64::try_from(period.as_nanos()).ok());
    let own = own.map(Duration::from_nanos);
    match turn(own, default, past.last, context.now()) {
        Turn::Never => return Ok(Action::await_change()),
        Turn::In(rest) => return Ok(Action::requeue(rest)),
        Turn::Now => {}
    }
    if state.backups.wait_until_ready().await.is_err() {
        return Ok(Action::await_change());
    }
    let name = location.name_any();
    match locations::open_found(&context, location).await {
        Ok(location) => match sync(&context, &location, &state.in_cluster(&name), &mut past).await {
            Ok(()) => show(&context, &state, &object, &past).await,
            Err(error) => tracing::warn!(location = name, %error, "cannot sync backups"),
        },
        Err(error) => tracing::warn!(location = name, %error, "cannot sync backups"),
    }
    past.last = Some(context.now());
    state.past().insert(uid, past);
    Ok(Action::requeue(own.unwrap_or(default)))
}

/// Syncs one location.
async fn sync(
    context: &Context,
    location: &Location,
    in_cluster: &InCluster,
    past: &mut Past,
) -> Result<(), SyncError> {
    let listed = location.store.directories(layout::BACKUPS).await?;
    let listed: BTreeSet<String> = listed.into_iter().filter(|name| BackupFiles::new(name).is_ok()).collect();
    let missing: BTreeSet<&String> = listed.difference(&in_cluster.all).collect();
    look::bring(context, location, &missing, past).await?;
    repair::repair(context, location, &in_cluster.here, past).await;
    let absent = past.absences.observe(&listed, &in_cluster.here);
    remove::remove(context, location, &absent).await
}

/// Writes when the location was last synced, into the field that upstream's clients read, and a condition that names
/// the backups that cannot be synced. On a conflict nothing is written.
async fn show(context: &Context, state: &State, object: &DynamicObject, past: &Past) {
    let api = objects::namespaced(&context.client, &context.namespace, &state.resource);
    // The location's own controller may have written its result in the meantime.
    let Ok(Some(object)) = api.get_opt(&object.name_any()).await else { return };
    let now = context.now();
    let shown = object.data.pointer("/status/conditions").cloned().unwrap_or_default();
    let mut shown: Vec<Condition> = serde_json::from_value(shown).unwrap_or_default();
    for condition in conditions::merge(&shown, &[all_synced(&past.reported)], now) {
        conditions::set(&mut shown, condition);
    }
    let patch = json!({"status": {"lastSyncedTime": time::seconds(now), "conditions": shown}});
    if let Err(error) = objects::merge(&api, &object, patch).await
        && !error.is_conflict()
        && !error.is_not_found()
    {
        tracing::debug!(error = error.chain(), "cannot write when a location was synced");
    }
}
