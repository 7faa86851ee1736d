//! Snapshotters of a pass, and snapshots of backups that will never be one: those are deleted, because nothing would ever
//! name them again. What cannot be deleted is given back in words.

use std::time::Duration;

use lifeboat_plugin::host::Session;
use tokio::time::timeout;

use super::pass::Ready;
use crate::backup::journal::Journal;
use crate::backup::{SnapshotEntry, Snapshotters};
use crate::context::Context;
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

/// Deletes the snapshots that the journal has. Gives what may be left, in words.
pub(super) async fn discard(context: &Context, journal: &Journal) -> Vec<String> {
    let (entries, mut left) = match journal.snapshots().await {
        Ok(found) => found,
        Err(error) => return vec![format!("snapshots may be left behind: {error}")],
    };
    if entries.is_empty() {
        return left;
    }
    let session = context.acting_quietly().session;
    for entry in entries {
        match delete(context, &session, &entry).await {
            Ok(()) => journal.forget_snapshot(&entry).await,
            Err(words) => left.push(words),
        }
    }
    session.close().await;
    for words in &left {
        tracing::warn!(words, "a snapshot is left behind");
    }
    left
}

async fn delete(context: &Context, session: &Session, entry: &SnapshotEntry) -> Result<(), String> {
    let (volume, location) = (entry.volume(), &entry.snapshot.spec.location);
    let Some(id) = entry.id() else {
        return Err(format!(
            "a snapshot of volume {volume} in location {location} may be left behind: its tags are velero.io/backup={} and velero.io/pv={volume}",
            entry.snapshot.spec.backup_name
        ));
    };
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
