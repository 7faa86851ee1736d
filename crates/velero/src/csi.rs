//! CSI snapshots: the built-in actions that take, restore and delete them, and the code that removes those of failed
//! backups. The actions have upstream's names; their decisions are in `lifeboat_plan::velero::csi`. A VolumeSnapshot
//! has the same name in every attempt of a backup and the backup's UID as a label, so that the next attempt finds it.

mod backup;
mod backup_parts;
mod delete;
mod earlier;
mod group;
mod movement;
mod objects;
mod restore;
mod tidy;
mod together;

use std::sync::Arc;

use kube::Client;
use lifeboat_control::Clock;
use lifeboat_plugin::actions::{BackupItemAction, DeleteItemAction, RestoreItemAction};

pub(crate) use earlier::{group_of, was_begun};
pub(crate) use movement::{cancel_unused, upload_of};
pub(crate) use objects::{Snapshots, Unusable};
pub(crate) use tidy::{backups, discard, origins, release, remove, unused};

/// The backup item actions, in the order in which they run.
pub(crate) fn backup_actions(client: &Client, clock: &Clock) -> Vec<Arc<dyn BackupItemAction>> {
    let snapshots = Snapshots::new(client);
    vec![
        Arc::new(backup::ClaimAction::new(snapshots.clone())),
        Arc::new(backup_parts::SnapshotAction(snapshots, clock.clone())),
        Arc::new(backup_parts::ContentAction),
        Arc::new(backup_parts::ClassAction),
    ]
}

/// The restore item actions.
pub(crate) fn restore_actions(client: &Client) -> Vec<Arc<dyn RestoreItemAction>> {
    let snapshots = Snapshots::new(client);
    vec![
        Arc::new(restore::ClaimAction(snapshots)),
        Arc::new(restore::PartAction::Snapshot),
        Arc::new(restore::PartAction::Content),
        Arc::new(restore::PartAction::Class),
    ]
}

/// The delete item actions.
pub(crate) fn delete_actions(client: &Client) -> Vec<Arc<dyn DeleteItemAction>> {
    vec![Arc::new(delete::ContentAction(Snapshots::new(client)))]
}

#[cfg(test)]
mod tests;
