//! Actions for claims: they remove what the old cluster recorded about the volume, and add a bound volume as an
//! additional item.

use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_plan::restore::sanitise::remove_annotations;

use crate::actions::{ActionError, RestoreInput, RestoreOutcome};

use super::text;

const NOTES: [&str; 7] = [
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    "velero.io/volume-snapshot-name",
    "velero.io/data-upload-name",
];

#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn claim(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut claim = input.item;
    remove_annotations(&mut claim, &NOTES);
    let volume = text(input.from_backup, "/spec/volumeName");
    let additional_items = if text(input.from_backup, "/status/phase") == "Bound" && !volume.is_empty() {
        vec![ItemId::cluster(GroupResource::new("", "persistentvolumes"), volume)]
    } else {
        Vec::new()
    };
    Ok(RestoreOutcome { additional_items, ..RestoreOutcome::item(claim) })
}
