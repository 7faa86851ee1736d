//! The newest snapshots of a host: complete ones only, and no safety copies. And the safety copies of a restore.

use std::collections::BTreeMap;

use super::{SAFETY_TAG, SnapshotFact, StoredData};
use crate::stash::hosts::HostName;
use crate::stash::targets::CleanPath;

/// The paths of a snapshot. A dump that was stored by a relative name counts from the root, where it is in the snapshot.
pub(super) fn paths_of(snapshot: &SnapshotFact) -> Vec<CleanPath> {
    let absolute = |path: &String| if path.starts_with('/') { path.clone() } else { format!("/{path}") };
    snapshot.paths.iter().filter_map(|path| CleanPath::stored(&absolute(path))).collect()
}

/// Whether a snapshot is newer than another; the ID decides between two snapshots with the same time, so that every
/// server chooses the same one.
pub(super) fn supersedes(snapshot: &SnapshotFact, other: &SnapshotFact) -> bool {
    (snapshot.time, &snapshot.id) > (other.time, &other.id)
}

fn newer<'a>(one: &'a SnapshotFact, other: &'a SnapshotFact) -> &'a SnapshotFact {
    if supersedes(other, one) { other } else { one }
}

/// The snapshots of a host that may be its newest.
fn of_host<'a>(snapshots: &'a [SnapshotFact], host: &HostName) -> impl Iterator<Item = &'a SnapshotFact> {
    snapshots.iter().filter(move |snapshot| snapshot.host == *host && snapshot.counts_as_latest())
}

/// The newest snapshot of a host.
pub(super) fn newest<'a>(snapshots: &'a [SnapshotFact], host: &HostName) -> Option<&'a SnapshotFact> {
    of_host(snapshots, host).reduce(newer)
}

/// The newest snapshot of each path of a host, by path: a directory comes before those below it.
pub(super) fn by_path<'a>(
    snapshots: &'a [SnapshotFact],
    host: &HostName,
) -> BTreeMap<CleanPath, &'a SnapshotFact> {
    let mut found: BTreeMap<CleanPath, &SnapshotFact> = BTreeMap::new();
    for snapshot in of_host(snapshots, host) {
        for path in paths_of(snapshot) {
            found.entry(path).and_modify(|best| *best = newer(best, snapshot)).or_insert(snapshot);
        }
    }
    found
}

/// The newest snapshot of a host that has a path: the path itself was backed up, or a directory above it. The content of a block volume is
/// one file, with nothing below it.
pub(super) fn covering<'a>(
    snapshots: &'a [SnapshotFact],
    host: &HostName,
    path: &CleanPath,
) -> Option<&'a SnapshotFact> {
    let covers = |snapshot: &&SnapshotFact| {
        let is_file = snapshot.data() == StoredData::Device;
        paths_of(snapshot).iter().any(|stored| path == stored || (!is_file && path.is_within(stored)))
    };
    of_host(snapshots, host).filter(covers).reduce(newer)
}

/// The newest content of a block volume above a path, with the path at which it is stored.
pub(super) fn device_above<'a>(
    snapshots: &'a [SnapshotFact],
    host: &HostName,
    path: &CleanPath,
) -> Option<(CleanPath, &'a SnapshotFact)> {
    let above =
        |snapshot: &SnapshotFact| paths_of(snapshot).into_iter().find(|stored| path.is_within(stored));
    let devices = of_host(snapshots, host).filter(|snapshot| snapshot.data() == StoredData::Device);
    let newest = devices.filter(|snapshot| above(snapshot).is_some()).reduce(newer)?;
    Some((above(newest)?, newest))
}

/// The IDs of the safety copies that belong to a restore, by path. `session`: its UID.
pub fn safety_copies(
    snapshots: &[SnapshotFact],
    host: &HostName,
    session: &str,
) -> BTreeMap<CleanPath, String> {
    let copies = oldest_copies(snapshots, host, session).into_iter();
    copies.map(|(path, copy)| (path, copy.id.clone())).collect()
}

/// The oldest safety copy of each path of a host that a restore made.
pub(super) fn oldest_copies<'a>(
    snapshots: &'a [SnapshotFact],
    host: &HostName,
    session: &str,
) -> BTreeMap<CleanPath, &'a SnapshotFact> {
    let mut found: BTreeMap<CleanPath, &SnapshotFact> = BTreeMap::new();
    let of_restore = |snapshot: &&SnapshotFact| {
        snapshot.host == *host && snapshot.has_tag(SAFETY_TAG) && snapshot.session() == Some(session)
    };
    for snapshot in snapshots.iter().filter(of_restore) {
        for path in paths_of(snapshot) {
            let oldest = found.entry(path).or_insert(snapshot);
            if supersedes(oldest, snapshot) {
                *oldest = snapshot;
            }
        }
    }
    found
}
