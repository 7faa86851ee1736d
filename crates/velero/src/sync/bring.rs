//! Creates the Backup objects of backups in a bucket, and the objects of their volumes. Users with write
//! access to the bucket decide what is read here: every file is bounded and weighed before it is parsed, and
//! lists are read element by element.

use std::collections::BTreeSet;

use bytes::Bytes;
use kube::api::{DynamicObject, PostParams};
use kube::{Resource, ResourceExt};
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{Backup, PodVolumeBackup, VolumePluginBackup};
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::{DocumentError, LoadError, check_list, decode_each, fetch_reserved, weigh};
use lifeboat_archive::memory::{Memory, NoMemory, Share};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::velero::ownership::OwnershipKeys;
use lifeboat_plan::velero::sync::{self, Incoming, Stored};
use serde_json::Value;
use tokio::sync::mpsc;

use super::SyncError;
use crate::context::Context;
use crate::locations::{Location, Metadata};

/// The largest stored size of a list: that of thirty thousand objects.
const LIST_LIMIT: usize = 4 * 1024 * 1024;

/// What is known about this cluster.
pub(super) struct Here {
    /// Name and UID of each Schedule.
    pub(super) schedules: BTreeSet<(String, String)>,
    /// Prove what this installation stored.
    pub(super) keys: OwnershipKeys,
}

/// What became of a directory.
pub(super) enum Brought {
    /// Its object was created.
    Created,
    /// Another server created the object at the same time.
    Exists,
    /// It has no `velero-backup.json`: it is not complete yet, or never will be.
    Incomplete,
    /// A server of another cluster still works on it.
    NotYet,
}

/// Syncs one backup.
pub(super) async fn bring_one(
    context: &Context,
    location: &Location,
    name: &str,
    here: &Here,
) -> Result<Brought, SyncError> {
    let Here { schedules, keys } = here;
    let files = BackupFiles::new(name)?;
    let Some(metadata) = Metadata::read(location, &files).await? else { return Ok(Brought::Incomplete) };
    let (here, namespace) = (LocationName::new(&location.name), NamespaceName::new(&context.namespace));
    {
        let (json, _memory) = metadata.parse(0).await?;
        let stored = Stored { name, json: &json, location: &here, namespace: &namespace, schedules, keys };
        match sync::incoming(&stored, context.now()) {
            Incoming::Create(_) => {}
            Incoming::NotYet => return Ok(Brought::NotYet),
            Incoming::Refused(problem) => return Err(SyncError::Refused(problem)),
        }
    }
    // Read before the object is created, because a backup whose object exists is not synced again.
    let lists = Lists::read(location, &files).await?;
    // Memory is taken once for all that is parsed: tasks that held a part and waited for the rest would not end.
    let (json, _memory) = metadata.parse(lists.weight).await?;
    let stored = Stored { name, json: &json, location: &here, namespace: &namespace, schedules, keys };
    let Incoming::Create(object) = sync::incoming(&stored, context.now()) else { return Ok(Brought::NotYet) };
    let Some(backup) = create::<Backup>(context, *object).await? else { return Ok(Brought::Exists) };
    let uid = BackupUid::new(backup.uid().unwrap_or_default());
    let mut problems = Vec::new();
    for list in lists.copies {
        let object = |json: &Value| sync::pod_volume_backup(&stored, json, &uid);
        create_all::<PodVolumeBackup>(context, list, object, &mut problems).await;
    }
    for list in lists.snapshots {
        let object = |json: &Value| sync::volume_plugin_backup(&stored, json, &uid);
        create_all::<VolumePluginBackup>(context, list, object, &mut problems).await;
    }
    if problems.is_empty() { Ok(Brought::Created) } else { Err(SyncError::Incomplete(problems)) }
}

/// The stored lists of a backup's volumes.
pub(super) struct Lists {
    copies: Vec<Bytes>,
    pub(super) snapshots: Vec<Bytes>,
    /// What the heaviest of them needs when it is parsed.
    pub(super) weight: usize,
    _stored: Share,
}

/// The key of a list, what it has, and whether that is copies of volumes.
type ListFile = (String, &'static str, bool);

impl Lists {
    async fn read(location: &Location, files: &BackupFiles) -> Result<Self, SyncError> {
        let copies = (files.volume_copies(), "copies of volumes", true);
        let of_pods = (files.pod_volume_backups(), "pod volume backups", true);
        Self::read_files(location, vec![copies, of_pods, of_snapshots(files)]).await
    }

    /// Reads only the list of VolumePluginBackups.
    pub(super) async fn of_snapshots(location: &Location, files: &BackupFiles) -> Result<Self, SyncError> {
        Self::read_files(location, vec![of_snapshots(files)]).await
    }

    async fn read_files(location: &Location, files: Vec<ListFile>) -> Result<Self, SyncError> {
        let share = Memory::of_process().stored.take(files.len() * LIST_LIMIT).await;
        let share = share.map_err(SyncError::memory)?;
        let mut lists = Self { copies: Vec::new(), snapshots: Vec::new(), weight: 0, _stored: share };
        for (key, what, is_copy) in files {
            let fetched = fetch_reserved(location.store.as_ref(), &key, LIST_LIMIT).await;
            let Some(stored) = fetched.map_err(|error| SyncError::list(what, error))? else { continue };
            let looked = {
                let stored = stored.clone();
                // It is read to its end once, so that a list that cannot be read keeps the backup out.
                tokio::task::spawn_blocking(move || {
                    let weight = weigh(&stored)?;
                    check_list(&stored).map(|()| weight)
                })
            };
            let weight = looked.await.unwrap_or(Err(DocumentError::Stopped));
            let weight = weight.map_err(|cause| SyncError::List { what, cause })?;
            lists.weight = lists.weight.max(weight);
            if is_copy { &mut lists.copies } else { &mut lists.snapshots }.push(stored);
        }
        Ok(lists)
    }
}

fn of_snapshots(files: &BackupFiles) -> ListFile {
    (files.volume_plugin_backups(), "volume plugin backups", false)
}

impl SyncError {
    /// The memory for a list is in use.
    pub(super) fn memory(error: NoMemory) -> Self {
        Self::list("volumes", error.into())
    }

    fn list(what: &'static str, error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => Self::Store(error),
            LoadError::Document(cause) => Self::List { what, cause },
        }
    }
}

/// Creates an object for each element of a list that gives one.
pub(super) async fn create_all<K: Resource<DynamicType = ()>>(
    context: &Context,
    list: Bytes,
    object: impl Fn(&Value) -> Option<Value>,
    problems: &mut Vec<SyncError>,
) {
    let (elements, mut read) = mpsc::channel(1);
    let reading = tokio::task::spawn_blocking(move || {
        decode_each(&list, |element| {
            // The receiver is gone when the sync was stopped.
            let _ = elements.blocking_send(element);
        })
    });
    while let Some(element) = read.recv().await {
        if let Some(object) = object(&element) {
            problems.extend(create::<K>(context, object).await.err());
        }
    }
    if let Err(cause) = reading.await.unwrap_or(Err(DocumentError::Stopped)) {
        problems.push(SyncError::List { what: "volumes", cause });
    }
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
