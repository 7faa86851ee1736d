//! What becomes of a backup's snapshots in the cluster: the objects go when the backup has them in its archive; with their
//! data, where the backup came to nothing. Called by the controller of backups; every step can be repeated.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_cluster::ApiError;
use lifeboat_plan::csi::OF_BACKUP;
use serde_json::Value;

use super::objects::{Snapshots, text};
use crate::context::Context;

/// A backup has ended and its archive knows its snapshots: only the drivers keep them.
pub(crate) async fn release(context: &Context, uid: &str) -> Result<(), ApiError> {
    clear(&Snapshots::new(&context.client), uid, false, |_, _| true).await
}

/// A backup came to nothing: its snapshots go. Gives what is left, in words.
pub(crate) async fn discard(context: &Context, uid: &str) -> Vec<String> {
    let cleared = clear(&Snapshots::new(&context.client), uid, true, |_, _| true).await;
    told(cleared)
}

/// Snapshots of an interrupted attempt that the backup does not use go. `used`: namespaces and names.
pub(crate) async fn unused(
    snapshots: &Snapshots,
    uid: &str,
    used: &BTreeSet<(String, String)>,
) -> Vec<String> {
    let idle = |namespace: &str, name: &str| !used.contains(&(namespace.to_owned(), name.to_owned()));
    told(clear(snapshots, uid, true, idle).await)
}

/// One snapshot that will not be used.
pub(crate) async fn remove(context: &Context, namespace: &str, name: &str) -> Result<(), ApiError> {
    Snapshots::new(&context.client).take_away(namespace, name, None, true).await
}

fn told(cleared: Result<(), ApiError>) -> Vec<String> {
    let words = cleared.err().map(|error| format!("CSI snapshots may be left behind: {}", error.chain()));
    words.into_iter().collect()
}

async fn clear(
    snapshots: &Snapshots,
    uid: &str,
    everything: bool,
    which: impl Fn(&str, &str) -> bool,
) -> Result<(), ApiError> {
    if uid.is_empty() {
        return Ok(());
    }
    let mut contents: BTreeMap<(String, String), String> = BTreeMap::new();
    for content in snapshots.contents_of_backup(Some(uid)).await? {
        let of = |field: &str| text(&content, &format!("/spec/volumeSnapshotRef/{field}")).to_owned();
        contents.insert((of("namespace"), of("name")), text(&content, "/metadata/name").to_owned());
    }
    let mut places: BTreeSet<(String, String)> = contents.keys().cloned().collect();
    for snapshot in snapshots.of_backup(Some(uid)).await? {
        places.insert(place(&snapshot));
    }
    let mut first = Ok(());
    for (namespace, name) in places.iter().filter(|(namespace, name)| which(namespace, name)) {
        let content = contents.get(&(namespace.clone(), name.clone())).map(String::as_str);
        let done = snapshots.take_away(namespace, name, content, everything).await;
        first = first.and(done);
    }
    first
}

/// The UIDs of all backups that have snapshots in the cluster.
pub(crate) async fn backups(context: &Context) -> Result<BTreeSet<String>, ApiError> {
    let snapshots = Snapshots::new(&context.client);
    let mut found = snapshots.of_backup(None).await?;
    found.extend(snapshots.contents_of_backup(None).await?);
    let uid = |object: &Value| Some(object["metadata"]["labels"][OF_BACKUP].as_str()?.to_owned());
    Ok(found.iter().filter_map(uid).collect())
}

fn place(snapshot: &Value) -> (String, String) {
    (text(snapshot, "/metadata/namespace").to_owned(), text(snapshot, "/metadata/name").to_owned())
}
