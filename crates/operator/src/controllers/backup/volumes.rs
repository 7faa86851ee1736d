//! Snapshots that their plugins go on with after CreateSnapshot: looked at until all have ended or their time is over. Their
//! list is in storage beside the backup, so that whoever leads can go on and a deleted object is made again. Called with the
//! look at operations.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, Results};
use lifeboat_archive::{BackupFiles, ObjectStore};
use lifeboat_plan::json::text;
use lifeboat_plan::volume_plugin::{SNAPSHOT_LOCATION, Standing, standing, stored};
use lifeboat_plugin::host::Session;
use serde_json::Value;

use super::finalize::Trouble;
use super::storage::{list, put, read};
use crate::context::Context;
use crate::snapshot_locations::{self, SnapshotterError};
use crate::volume_plugin::{self, Kind};

/// How long a snapshot may take, where the spec says nothing.
const TIMEOUT: Duration = Duration::from_hours(4);

/// How the snapshots of a backup stand.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshots {
    pub(super) open: usize,
    /// Those that failed, now or before.
    pub(super) failed: usize,
    /// Whether anything changed since the last look.
    pub(super) changed: bool,
}

/// One look at all of them.
pub(super) async fn follow(
    context: &Context,
    backup: &Backup,
    store: &dyn ObjectStore,
    files: &BackupFiles,
) -> Result<Snapshots, Trouble> {
    let attempted = backup.status.as_ref().and_then(|status| status.volume_snapshots_attempted);
    if attempted.unwrap_or_default() == 0 {
        return Ok(Snapshots::default());
    }
    let key = files.volume_plugin_backups();
    let before: Vec<Value> = list(store, &key).await?;
    let mut objects = before.clone();
    let session = context.acting_quietly().session;
    let mut looked = Ok(());
    for object in objects.iter_mut().filter(|object| standing(object) == Standing::Open) {
        match look(context, &session, backup, object).await {
            Ok(now) => *object = stored(&now),
            Err(trouble) => {
                looked = Err(trouble);
                break;
            }
        }
    }
    session.close().await;
    looked?;
    let changed = objects != before;
    if changed {
        let failed: Vec<&Value> =
            objects.iter().filter(|object| matches!(standing(object), Standing::Failed(_))).collect();
        // The list last: until it is written, all of this is done again.
        if !failed.is_empty() {
            tell(store, files, &failed).await?;
        }
        put(store, &key, &objects).await?;
    }
    let count = |wanted: fn(&Standing) -> bool| objects.iter().filter(|one| wanted(&standing(one))).count();
    Ok(Snapshots {
        open: count(|standing| *standing == Standing::Open),
        failed: count(|standing| matches!(standing, Standing::Failed(_))),
        changed,
    })
}

/// One look at one of them; where nobody will bring it to its end, that is written.
async fn look(
    context: &Context,
    session: &Session,
    backup: &Backup,
    object: &Value,
) -> Result<Value, Trouble> {
    let (client, namespace) = (&context.client, &context.settings.namespace);
    let name = text(object, "/metadata/name").to_owned();
    let location = object["metadata"]["labels"][SNAPSHOT_LOCATION].as_str().unwrap_or_default();
    let give_up = async |words: String| {
        let given_up = volume_plugin::give_up(client, Kind::Backup, namespace, &name, &words).await;
        Ok(given_up.map_err(Trouble::Api)?.unwrap_or_else(|| {
            let mut ended = object.clone();
            let patch = lifeboat_plan::volume_plugin::given_up(&words, context.now());
            for (field, value) in patch["status"].as_object().into_iter().flatten() {
                ended["status"][field] = value.clone();
            }
            ended
        }))
    };
    let open = match snapshot_locations::open(context, session, location).await {
        Ok(open) => open,
        Err(SnapshotterError::Api(error)) => return Err(Trouble::Api(error)),
        Err(SnapshotterError::Unusable(words)) => {
            return give_up(format!("nobody can tell how far the snapshot is: {words}")).await;
        }
    };
    let looked =
        volume_plugin::look(client, Kind::Backup, namespace, object, open.snapshotter.as_ref()).await;
    let (now, how) = match looked {
        Ok(looked) => looked,
        Err(error) if error.is_conflict() => (object.clone(), Standing::Open),
        Err(error) => return Err(Trouble::Api(error)),
    };
    if how == Standing::Open && is_over(backup, &now, context.now()) {
        return give_up("the snapshot did not end in time (spec.itemOperationTimeout)".to_owned()).await;
    }
    Ok(now)
}

fn is_over(backup: &Backup, object: &Value, now: Timestamp) -> bool {
    let limit = GoDuration::set(backup.spec.item_operation_timeout).and_then(GoDuration::to_std);
    let given = text(object, "/status/startTimestamp").parse::<Timestamp>().ok();
    let start = given.or_else(|| backup.status.as_ref()?.start_timestamp.as_ref().map(|time| time.0));
    let end = start.and_then(|start| start.checked_add(limit.unwrap_or(TIMEOUT)).ok());
    end.is_some_and(|end| now > end)
}

/// Snapshots that failed after their call: in the results, the list of snapshots and that of volumes.
async fn tell(store: &dyn ObjectStore, files: &BackupFiles, failed: &[&Value]) -> Result<(), Trouble> {
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
        let words = format!("the snapshot of volume {volume} failed: {}", text(object, "/status/message"));
        let message = text(object, "/status/message");
        // One that failed in its call is there already.
        let known = |known: &str| known.contains(volume) && known.contains(message);
        if !results.errors.all().any(|(_, text)| known(text)) {
            results.errors.add(None, words);
        }
    }
    put(store, &files.results(), &results).await?;
    put(store, &files.volume_snapshots(), &snapshots).await?;
    put(store, &files.volume_info(), &volumes).await
}
