//! Creates the Backup objects of backups in a bucket, and the objects of their volumes.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt, stream};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{Backup, PodVolumeBackup, Schedule, VolumePluginBackup};
use lifeboat_archive::{BackupFiles, documents};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::sync::{self, Incoming, Stored};
use serde_json::Value;

use super::SyncError;
use crate::context::Context;
use crate::locations::Location;

/// More than any Backup object can have: etcd limits objects to less than 2 MiB.
const METADATA_LIMIT: usize = 16 * 1024 * 1024;

/// How many backups are read at once.
const AT_ONCE: usize = 8;

/// Creates objects for those backups of `names` that are complete. A backup that cannot be synced does not hold up
/// the others; its problem is reported once.
pub(super) async fn bring(
    context: &Context,
    location: &Location,
    names: &[&String],
    reported: &mut BTreeMap<String, String>,
) -> Result<(), SyncError> {
    let schedules = schedules(context).await?;
    let mut tasks = Vec::new();
    for name in names {
        tasks.push(
            bring_one(context, location, name, &schedules).map(move |outcome| (*name, outcome)).boxed(),
        );
    }
    let outcomes: Vec<_> = stream::iter(tasks).buffer_unordered(AT_ONCE).collect().await;
    let mut came = 0;
    for (name, outcome) in outcomes {
        match outcome {
            Ok(brought) => {
                came += usize::from(brought);
                reported.remove(name);
            }
            Err(error) => {
                let problem = error.to_string();
                if reported.get(name) == Some(&problem) {
                    continue;
                }
                report(context, location, name, &problem).await;
                reported.insert(name.clone(), problem);
            }
        }
    }
    if came > 0 {
        tracing::info!(location = location.name, backups = came, "synced backups into the cluster");
    }
    Ok(())
}

async fn report(context: &Context, location: &Location, name: &str, problem: &str) {
    tracing::warn!(location = location.name, backup = name, problem, "a backup cannot be synced");
    let note = format!("backup '{name}' of the bucket cannot be synced: {problem}");
    context.events.warning(&location.object.object_ref(&()), "BackupNotSynced", &note).await;
}

/// Syncs one backup; true if its object was created.
async fn bring_one(
    context: &Context,
    location: &Location,
    name: &str,
    schedules: &BTreeSet<(String, String)>,
) -> Result<bool, SyncError> {
    let files = BackupFiles::new(name)?;
    let bytes = match location.store.get(&files.metadata(), METADATA_LIMIT).await {
        Ok(bytes) => bytes,
        // This file is written last: a backup without it is not complete yet, or never will be.
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let json: Value = serde_json::from_slice(&bytes).map_err(SyncError::Metadata)?;
    let (here, namespace) = (LocationName::new(&location.name), NamespaceName::new(&context.namespace));
    let stored = Stored { name, json: &json, location: &here, namespace: &namespace, schedules };
    let object = match sync::incoming(&stored, context.now()) {
        Incoming::Create(object) => *object,
        Incoming::NotYet => return Ok(false),
        Incoming::Refused(problem) => return Err(SyncError::Refused(problem)),
    };
    // Read before the object is created, because a backup whose object exists is not synced again.
    let mut volumes = read_list(location, &files.volume_copies(), "copies of volumes").await?;
    volumes.extend(read_list(location, &files.pod_volume_backups(), "pod volume backups").await?);
    let snapshots = read_list(location, &files.volume_plugin_backups(), "volume plugin backups").await?;
    let Some(backup) = create::<Backup>(context, object).await? else {
        return Ok(false);
    };
    let uid = BackupUid::new(backup.uid().unwrap_or_default());
    let mut problems = Vec::new();
    for object in volumes.iter().filter_map(|json| sync::pod_volume_backup(&stored, json, &uid)) {
        problems.extend(create::<PodVolumeBackup>(context, object).await.err());
    }
    for object in snapshots.iter().filter_map(|json| sync::volume_plugin_backup(&stored, json, &uid)) {
        problems.extend(create::<VolumePluginBackup>(context, object).await.err());
    }
    if problems.is_empty() { Ok(true) } else { Err(SyncError::Incomplete(problems)) }
}

async fn read_list(location: &Location, key: &str, what: &'static str) -> Result<Vec<Value>, SyncError> {
    let bytes = match location.store.get(key, documents::DOCUMENT_LIMIT).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    documents::decode_list(&bytes).map_err(|cause| SyncError::List { what, cause })
}

/// Creates an object; None if it exists already.
async fn create<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: Value,
) -> Result<Option<DynamicObject>, SyncError> {
    let api = objects::namespaced(&context.client, &context.namespace, &objects::resource_of::<K>());
    let object: DynamicObject = serde_json::from_value(object).map_err(SyncError::NoObject)?;
    let attempt = format!("create {} {}", K::kind(&()), object.name_any());
    match api.create(&PostParams::default(), &object).await.attempt(attempt) {
        Ok(made) => Ok(Some(made)),
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Name and UID of each Schedule.
async fn schedules(context: &Context) -> Result<BTreeSet<(String, String)>, ApiError> {
    let api: Api<Schedule> = Api::namespaced(context.client.clone(), &context.namespace);
    let listed = api.list_metadata(&ListParams::default()).await.attempt("list Schedules")?;
    Ok(listed.iter().map(|schedule| (schedule.name_any(), schedule.uid().unwrap_or_default())).collect())
}
