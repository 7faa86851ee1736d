//! Whether an earlier attempt of a backup has begun the snapshot of a claim, which is of an earlier moment then.

use kube::{Client, ResourceExt};
use lifeboat_api::velero::Backup;
use lifeboat_cluster::ApiError;
use lifeboat_plan::velero::backup::{ATTEMPT, attempt};
use lifeboat_plan::velero::csi::{self, VolumeGroup};
use serde_json::Value;

use super::backup::{of_backup, operation_of};
use super::group::GroupSnapshots;
use super::movement;
use super::objects::{Snapshots, text};

/// Whether the next snapshot of a claim may be one that an earlier attempt took.
pub(crate) async fn was_begun(client: &Client, claim: &Value, backup: &Backup) -> Result<bool, ApiError> {
    if attempt(backup.annotations().get(ATTEMPT).map(String::as_str)) <= 1 {
        return Ok(false);
    }
    let (snapshots, of_backup) = (Snapshots::new(client), of_backup(backup));
    let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
    let snapshot = csi::snapshot_name(name, text(claim, "/metadata/uid"), &of_backup.uid);
    if snapshots.snapshot(namespace, &snapshot).await?.is_some() {
        return Ok(true);
    }
    if backup.spec.snapshot_move_data == Some(true) {
        let operation = operation_of(claim, backup);
        let own = backup.namespace().unwrap_or_default();
        if movement::usable(client, &own, &operation).await?.is_some() {
            return Ok(true);
        }
    }
    let Some(group) = group_of(claim, backup) else { return Ok(false) };
    let Some(groups) = GroupSnapshots::open(&snapshots).await? else { return Ok(false) };
    Ok(groups.get(&group).await?.is_some())
}

/// The volume group of a claim, if it is in one.
pub(crate) fn group_of(claim: &Value, backup: &Backup) -> Option<VolumeGroup> {
    let key = backup.spec.volume_group_snapshot_label_key.as_deref();
    VolumeGroup::of(claim, key.unwrap_or(lifeboat_api::velero::names::VOLUME_GROUP), &of_backup(backup))
}
