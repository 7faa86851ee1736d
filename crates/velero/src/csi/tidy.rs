//! Removes a backup's snapshot objects from the cluster: only the objects if the archive contains them; also the
//! drivers' snapshots if the backup failed. Called by the controller of backups; every step can be repeated.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::common::{BackupUid, LocationName};
use lifeboat_api::velero::names;
use lifeboat_cluster::ApiError;
use lifeboat_plan::velero::csi::{LOCATION, OF_BACKUP, backups_of};
use serde_json::Value;

use super::group::GroupSnapshots;
use super::objects::{Snapshots, text};
use crate::context::Context;

/// Deletes the snapshot objects of a backup that has ended and whose archive contains them; the drivers keep their
/// snapshots.
pub(crate) async fn release(context: &Context, uid: &BackupUid) -> Result<(), ApiError> {
    clear(&Snapshots::new(&context.client), uid, false).await
}

/// Deletes the snapshots of a failed backup. Returns messages about what is left.
pub(crate) async fn discard(context: &Context, uid: &BackupUid) -> Vec<String> {
    messages(clear(&Snapshots::new(&context.client), uid, true).await)
}

/// Deletes snapshots of an interrupted attempt that the backup does not use. `used`: namespaces and names.
pub(crate) async fn unused(
    snapshots: &Snapshots,
    uid: &BackupUid,
    used: &BTreeSet<(String, String)>,
) -> Vec<String> {
    let cleared = async {
        clear_groups(snapshots, uid, false).await?;
        let idle = |namespace: &str, name: &str| !used.contains(&(namespace.to_owned(), name.to_owned()));
        clear_own(snapshots, uid, true, idle).await
    };
    messages(cleared.await)
}

/// Deletes one snapshot that is not used.
pub(crate) async fn remove(context: &Context, namespace: &str, name: &str) -> Result<(), ApiError> {
    Snapshots::new(&context.client).remove(namespace, name, None, true).await
}

fn messages(cleared: Result<(), ApiError>) -> Vec<String> {
    let message = cleared.err().map(|error| format!("CSI snapshots may be left behind: {}", error.chain()));
    message.into_iter().collect()
}

async fn clear(snapshots: &Snapshots, uid: &BackupUid, everything: bool) -> Result<(), ApiError> {
    // Groups first: the backup's own objects show which of their snapshots are kept.
    clear_groups(snapshots, uid, everything).await?;
    clear_own(snapshots, uid, everything, |_, _| true).await
}

/// Deletes what is left of group snapshots; with `everything` also the drivers' snapshots, unless the backup uses
/// them.
async fn clear_groups(snapshots: &Snapshots, uid: &BackupUid, everything: bool) -> Result<(), ApiError> {
    if uid.is_empty() {
        return Ok(());
    }
    let Some(groups) = GroupSnapshots::open(snapshots).await? else { return Ok(()) };
    let own = if everything {
        Vec::new()
    } else {
        snapshots.labelled_contents(OF_BACKUP, Some(uid.as_str())).await?
    };
    let handle = |content: &Value| Some(content.pointer("/spec/source/snapshotHandle")?.as_str()?.to_owned());
    groups.clear(uid, &own.iter().filter_map(handle).collect()).await
}

async fn clear_own(
    snapshots: &Snapshots,
    uid: &BackupUid,
    everything: bool,
    which: impl Fn(&str, &str) -> bool,
) -> Result<(), ApiError> {
    if uid.is_empty() {
        return Ok(());
    }
    let mut contents: BTreeMap<(String, String), String> = BTreeMap::new();
    for content in snapshots.labelled_contents(OF_BACKUP, Some(uid.as_str())).await? {
        let of = |field: &str| text(&content, &format!("/spec/volumeSnapshotRef/{field}")).to_owned();
        contents.insert((of("namespace"), of("name")), text(&content, "/metadata/name").to_owned());
    }
    let mut places: BTreeSet<(String, String)> = contents.keys().cloned().collect();
    for snapshot in snapshots.labelled(OF_BACKUP, Some(uid.as_str())).await? {
        places.insert(origin(&snapshot));
    }
    let mut first = Ok(());
    for (namespace, name) in places.iter().filter(|(namespace, name)| which(namespace, name)) {
        let content = contents.get(&(namespace.clone(), name.clone())).map(String::as_str);
        let done = snapshots.remove(namespace, name, content, everything).await;
        first = first.and(done);
    }
    first
}

/// The UIDs of all backups of this server that have snapshots in the cluster; those of another server may be running.
pub(crate) async fn backups(context: &Context) -> Result<BTreeSet<BackupUid>, ApiError> {
    let snapshots = Snapshots::new(&context.client);
    let mut found = snapshots.labelled(OF_BACKUP, None).await?;
    found.extend(snapshots.labelled_contents(OF_BACKUP, None).await?);
    let server = &context.namespace;
    let mut uids: BTreeSet<BackupUid> = backups_of(&found, OF_BACKUP, server).collect();
    if let Some(groups) = GroupSnapshots::open(&snapshots).await? {
        uids.extend(groups.backups(server).await?);
    }
    Ok(uids)
}

/// Name and storage location of the backup with this UID, from the labels of its snapshots; the location may be
/// empty.
pub(crate) async fn origins(
    context: &Context,
    uid: &BackupUid,
) -> Result<BTreeSet<(String, LocationName)>, ApiError> {
    let snapshots = Snapshots::new(&context.client);
    let mut found = snapshots.labelled(OF_BACKUP, Some(uid.as_str())).await?;
    found.extend(snapshots.labelled_contents(OF_BACKUP, Some(uid.as_str())).await?);
    let label =
        |object: &Value, key: &str| object["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
    let of = |object: &Value| (label(object, names::BACKUP_NAME), LocationName::new(label(object, LOCATION)));
    Ok(found.iter().map(of).collect())
}

fn origin(snapshot: &Value) -> (String, String) {
    (text(snapshot, "/metadata/namespace").to_owned(), text(snapshot, "/metadata/name").to_owned())
}
