//! Snapshotters of a pass, and snapshots of backups that will never be one: those are deleted, because nothing would ever
//! name them again. What cannot be deleted is given back in words.

use std::time::Duration;

use lifeboat_archive::documents::{DOCUMENT_LIMIT, NativeSnapshot, decode_list, encode};
use lifeboat_archive::{BackupFiles, ObjectStore};
use lifeboat_plugin::host::Session;
use tokio::time::timeout;

use super::pass::{Ready, TIDYING};
use crate::backup::journal::Journal;
use crate::backup::{Snapshotters, chain};
use crate::context::Context;
use crate::csi;
use crate::snapshot_locations;
use crate::volume_plugin::{self, Kind};

/// How long the deletion of one snapshot may take: people wait for the end of the backup.
const DELETION: Duration = Duration::from_mins(1);

/// The snapshotters of a backup's locations, and what an interrupted attempt made with them.
pub(super) async fn open(context: &Context, session: &Session, ready: &Ready) -> Snapshotters {
    let leave_csi = context.settings.backup.has_feature("EnableCSI");
    let mut all = Snapshotters::new(&context.settings.namespace, leave_csi, ready.earlier.clone());
    for location in &ready.valid.snapshot_locations {
        let opened = snapshot_locations::open(context, session, location).await;
        all.add(location, opened.map_err(|error| error.chain()));
    }
    all
}

/// What is left of the snapshots of a backup that will never be one.
#[derive(Default)]
pub(super) struct Discarded {
    /// What may be left, in words.
    pub(super) words: Vec<String>,
    /// Those that are, and can be deleted later.
    kept: Vec<NativeSnapshot>,
    /// Whether there were any.
    any: bool,
}

/// Deletes the snapshots that the journal has.
pub(super) async fn discard(context: &Context, journal: &Journal) -> Discarded {
    let of_csi = csi::discard(context, journal.uid()).await;
    let (entries, mut words) = match journal.snapshots().await {
        Ok(found) => found,
        Err(error) => {
            let mut words = vec![format!("snapshots may be left behind: {error}")];
            words.extend(of_csi);
            return Discarded { words, ..Discarded::default() };
        }
    };
    words.extend(of_csi);
    let mut left = Discarded { words, any: !entries.is_empty(), ..Discarded::default() };
    if entries.is_empty() {
        return left;
    }
    let session = context.acting_quietly().session;
    for entry in entries {
        match delete(context, &session, &entry.snapshot).await {
            Ok(()) => journal.forget_snapshot(&entry).await,
            Err(words) => {
                left.words.push(words);
                left.kept.extend(entry.id().is_some().then_some(entry.snapshot));
            }
        }
    }
    session.close().await;
    for words in &left.words {
        tracing::warn!(words, "a snapshot is left behind");
    }
    left
}

impl Discarded {
    /// Makes the files of the failed backup say what is left, so that its deletion removes that and nothing twice.
    pub(super) async fn keep(&self, store: &dyn ObjectStore, files: &BackupFiles) {
        if !self.any {
            return;
        }
        let kept = async {
            store.delete(&[files.volume_info(), files.volume_plugin_backups()]).await?;
            match encode(&self.kept) {
                Ok(list) if !self.kept.is_empty() => store.put(&files.volume_snapshots(), list).await,
                _ => store.delete(&[files.volume_snapshots()]).await,
            }
        };
        match timeout(TIDYING, kept).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(backup = files.name(), %error, "cannot list what is left behind");
            }
            Err(_elapsed) => tracing::warn!(backup = files.name(), "cannot list what is left behind in time"),
        }
    }
}

/// Deletes the snapshots that storage lists for a backup that was deleted before its end. Gives what is left, in words.
pub(super) async fn discard_listed(
    context: &Context,
    store: &dyn ObjectStore,
    files: &BackupFiles,
    uid: &str,
) -> Vec<String> {
    let of_csi = csi::discard(context, uid).await;
    if !of_csi.is_empty() {
        return of_csi;
    }
    let listed = match store.get(&files.volume_snapshots(), DOCUMENT_LIMIT).await {
        Ok(bytes) => decode_list::<NativeSnapshot>(&bytes).map_err(|error| error.to_string()),
        Err(error) if error.is_not_found() => return Vec::new(),
        Err(error) => Err(chain(&error)),
    };
    let listed = match listed {
        Ok(listed) => listed,
        Err(words) => return vec![format!("snapshots may be left behind: {words}")],
    };
    let session = context.acting_quietly().session;
    let mut left = Vec::new();
    // Another backup of the same name may have written the list.
    for snapshot in listed.iter().filter(|one| one.spec.backup_uid == uid) {
        if !snapshot.status.provider_snapshot_id.is_empty() {
            left.extend(delete(context, &session, snapshot).await.err());
        }
    }
    session.close().await;
    left
}

async fn delete(context: &Context, session: &Session, snapshot: &NativeSnapshot) -> Result<(), String> {
    let (volume, location) = (&snapshot.spec.persistent_volume_name, &snapshot.spec.location);
    let id = snapshot.status.provider_snapshot_id.as_str();
    if id.is_empty() {
        return Err(format!(
            "a snapshot of volume {volume} in location {location} may be left behind: its tags are velero.io/backup={} and velero.io/pv={volume}",
            snapshot.spec.backup_name
        ));
    }
    let left = |words: String| {
        format!("snapshot {id} of volume {volume} in location {location} is left behind: {words}")
    };
    let open = snapshot_locations::open(context, session, location).await;
    let open = open.map_err(|error| left(error.chain()))?;
    match timeout(DELETION, open.snapshotter.delete_snapshot(id)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(left(error.to_string())),
        Err(_elapsed) => Err(left("the plugin does not answer".to_owned())),
    }
}

/// Ends what a backup that failed shows as running.
pub(super) async fn end_objects(context: &Context, uid: &str, words: &str) {
    volume_plugin::end_open(&context.client, Kind::Backup, &context.settings.namespace, uid, words).await;
}
