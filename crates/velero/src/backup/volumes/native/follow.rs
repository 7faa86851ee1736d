//! Snapshots that their plugins have not finished when CreateSnapshot returns: polled until all have ended or their
//! time is over. Their list is in storage beside the backup, so that the next leader can continue and a deleted
//! object is created again. Called by each poll of operations.

use jiff::Timestamp;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, Results};
use lifeboat_archive::{BackupFiles, ObjectStore};
use lifeboat_plan::items::waits::Waits;
use lifeboat_plan::json::text;
use lifeboat_plan::velero::volume_plugin::{
    OperationState, SNAPSHOT_LOCATION, is_over, operation_state, stored, waits,
};
use lifeboat_plugin::host::Session;
use serde_json::Value;

use crate::backup::pass::longest;
use crate::backup::problem::BackupProblem;
use crate::backup::storage::{list, put, read};
use crate::context::Context;
use crate::snapshot_locations::{self, SnapshotterError};
use crate::volume_plugin::{self, DatedClient, Kind};

/// The state of a backup's plugin snapshots.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::backup) struct Snapshots {
    pub(in crate::backup) open: usize,
    /// How many failed, now or before.
    pub(in crate::backup) failed: usize,
    /// Whether anything changed since the last poll.
    pub(in crate::backup) changed: bool,
    /// What the backup waits for.
    pub(in crate::backup) waits: Waits,
}

/// Polls all of them once.
pub(in crate::backup) async fn follow(
    context: &Context,
    backup: &Backup,
    store: &dyn ObjectStore,
    files: &BackupFiles,
) -> Result<Snapshots, BackupProblem> {
    let attempted = backup.status.as_ref().and_then(|status| status.volume_snapshots_attempted);
    if attempted.unwrap_or_default() == 0 {
        return Ok(Snapshots::default());
    }
    let key = files.volume_plugin_backups();
    let before: Vec<Value> = list(store, &key).await?;
    let mut objects = before.clone();
    let session = context.acting_quietly().session;
    let mut looked = Ok(());
    for object in objects.iter_mut().filter(|object| operation_state(object) == OperationState::Open) {
        match poll(context, &session, backup, object).await {
            Ok(now) => *object = stored(&now),
            Err(problem) => {
                looked = Err(problem);
                break;
            }
        }
    }
    session.close().await;
    looked?;
    let changed = objects != before;
    if changed {
        let failed: Vec<&Value> = objects
            .iter()
            .filter(|object| matches!(operation_state(object), OperationState::Failed(_)))
            .collect();
        // The list is written last: until then all of this is repeated.
        if !failed.is_empty() {
            add_failures(store, files, &failed).await?;
        }
        put(store, &key, &objects).await?;
    }
    let count = |wanted: fn(&OperationState) -> bool| {
        objects.iter().filter(|one| wanted(&operation_state(one))).count()
    };
    let since = started(backup).unwrap_or_else(|| context.now());
    Ok(Snapshots {
        waits: waits(&objects, since),
        open: count(|standing| *standing == OperationState::Open),
        failed: count(|standing| matches!(standing, OperationState::Failed(_))),
        changed,
    })
}

/// Polls one snapshot; it is given up if its time is over or its plugin cannot be used.
async fn poll(
    context: &Context,
    session: &Session,
    backup: &Backup,
    object: &Value,
) -> Result<Value, BackupProblem> {
    let location = object["metadata"]["labels"][SNAPSHOT_LOCATION].as_str().unwrap_or_default();
    let (open, over) = match snapshot_locations::open(context, session, location).await {
        Ok(open) => (Some(open), late(backup, object, context.now())),
        Err(SnapshotterError::Api(error)) => return Err(BackupProblem::Api(error)),
        Err(SnapshotterError::Unusable(reason)) => {
            (None, Some(format!("the progress of the snapshot cannot be read: {reason}")))
        }
    };
    let snapshotter = open.as_ref().map(|open| open.snapshotter.as_ref());
    let (client, namespace) = (DatedClient::of(context), &context.namespace);
    let looked =
        volume_plugin::follow(client, Kind::Backup, namespace, object, snapshotter, over.as_deref()).await;
    looked.map(|(now, _)| now).map_err(BackupProblem::Api)
}

/// Why a snapshot is given up, if its time is over.
fn late(backup: &Backup, object: &Value, now: Timestamp) -> Option<String> {
    is_over(object, started(backup), longest(backup), now)
        .then(|| "the snapshot did not end in time (spec.itemOperationTimeout)".to_owned())
}

fn started(backup: &Backup) -> Option<Timestamp> {
    backup.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0))
}

/// Adds snapshots that failed after their call to the results, the list of snapshots and the list of volumes.
async fn add_failures(
    store: &dyn ObjectStore,
    files: &BackupFiles,
    failed: &[&Value],
) -> Result<(), BackupProblem> {
    let mut results: Results = read(store, &files.results()).await?;
    let mut snapshots: Vec<NativeSnapshot> = list(store, &files.volume_snapshots()).await?;
    let mut volumes: Vec<BackupVolumeInfo> = list(store, &files.volume_info()).await?;
    for object in failed {
        let volume = text(object, "/spec/volume");
        for snapshot in snapshots.iter_mut().filter(|one| one.spec.persistent_volume_name == volume) {
            "Failed".clone_into(&mut snapshot.status.phase);
        }
        for info in volumes.iter_mut().filter(|info| info.pv_name == volume) {
            "failed".clone_into(&mut info.result);
            if let Some(native) = &mut info.native_snapshot_info {
                "Failed".clone_into(&mut native.phase);
            }
        }
        let reason = text(object, "/status/message");
        // A snapshot that failed in its call is in the results already.
        let known = |known: &str| known.contains(volume) && known.contains(reason);
        if !results.errors.all().any(|(_, text)| known(text)) {
            results.errors.add(None, format!("the snapshot of volume {volume} failed: {reason}"));
        }
    }
    put(store, &files.results(), &results).await?;
    put(store, &files.volume_snapshots(), &snapshots).await?;
    put(store, &files.volume_info(), &volumes).await
}
