//! Volumes and claims within a restore: which volumes are restored as objects, which are created from snapshots, and
//! which are newly provisioned for their claims.

use std::sync::Arc;

use lifeboat_cluster::lookup;
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::items::{sanitise, trust};
use lifeboat_plan::velero::csi::SNAPSHOT_NAME;
use lifeboat_plan::velero::data_movement::UPLOAD_NAME;
use lifeboat_plan::velero::restore::volumes::{DataIn, VolumePlan, plan};
use serde_json::Value;

use super::{VeleroHandler, native};
use lifeboat_control::locked;
use lifeboat_items::outcome::{ItemOutcome, Notes, SkipReason};
use lifeboat_items::pipeline::item::WorkItem;
use lifeboat_items::pipeline::run::Run;

/// Prepares a volume; an error ends one that is not restored as an object. Other types are not touched.
pub(super) async fn volume(
    handler: &VeleroHandler,
    run: &Arc<Run>,
    item: &WorkItem,
    object: &mut Value,
    notes: &mut Notes,
) -> Result<(), ItemOutcome> {
    if !item.is("persistentvolumes") {
        return Ok(());
    }
    let data = handler.volumes.get(&item.id.name).copied().unwrap_or(DataIn::Nothing);
    match plan(object, data, handler.wants_data) {
        VolumePlan::FromSnapshot => native::volume(handler, run, item, object, notes).await,
        VolumePlan::AsItIs => {
            sanitise::move_claim(object, &run.rules.mapping);
            sanitise::unbind(object);
            Ok(())
        }
        VolumePlan::Provision => {
            locked(&handler.provisioned).insert(item.id.name.clone());
            Err(ItemOutcome::Skipped(SkipReason::Provisioned))
        }
    }
}

/// Removes the marks of a claim's old binding. A claim whose volume is not restored as an object loses its volume's name
/// too, so that a new volume is provisioned; so does one whose volume does not exist anywhere, because the claim would wait
/// for it for ever.
pub(super) async fn claim(
    handler: &VeleroHandler,
    run: &Run,
    item: &WorkItem,
    object: &mut Value,
    notes: &mut Notes,
) {
    if !item.is("persistentvolumeclaims") {
        return;
    }
    if let Some(untrusted) = &run.untrusted {
        refuse_storage(handler, &untrusted.location, item, object, notes);
    }
    unbind(object, |volume| locked(&handler.provisioned).contains(volume));
    let Some(volume) = bound_to(object) else { return };
    if let Some(name) = locked(&handler.native).renamed.get(&volume.name) {
        object["spec"]["volumeName"] = Value::String(name.clone());
        return;
    }
    if locked(&handler.native).failed.contains(&volume.name) {
        notes.warn(format!(
            "{} waits for volume {}, which could not be created from its snapshot; restore persistentvolumes again when that is fixed",
            item.resource_id(),
            volume.name
        ));
        return;
    }
    let restored = run.work_of(&volume).is_some_and(|work| run.exists(work));
    if !restored && is_nowhere(run, &volume).await {
        notes.warn(unbound(&item.resource_id(), &volume.name));
        unbind(object, |_| true);
    }
}

/// A claim from an untrusted location gets a new volume: a volume or snapshot that the backup names may
/// belong to another tenant. Claims that are filled from a repository are not affected.
fn refuse_storage(
    handler: &VeleroHandler,
    location: &str,
    item: &WorkItem,
    claim: &mut Value,
    notes: &mut Notes,
) {
    let Some(volume) = bound_to(claim) else { return };
    if !matches!(handler.volumes.get(&volume.name), Some(DataIn::PodVolume | DataIn::MovedSnapshot)) {
        notes.warn(trust::data_left_out(&item.resource_id(), location));
    }
    unbind(claim, |_| true);
}

/// Hides from actions that a claim has a snapshot in the storage system, which only the backup vouches for. Data that was
/// moved into a repository stays.
pub(super) fn drop_snapshot(item: &WorkItem, claim: &mut Value) {
    if !item.is("persistentvolumeclaims") {
        return;
    }
    let annotations = claim.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations.filter(|all| !all.contains_key(UPLOAD_NAME)) {
        annotations.remove(SNAPSHOT_NAME);
    }
}

/// The volume that a claim is bound to.
pub(super) fn bound_to(claim: &Value) -> Option<ItemId> {
    let name = claim.pointer("/spec/volumeName").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    Some(ItemId::cluster(GroupResource::new("", "persistentvolumes"), name))
}

/// Whether the cluster has no such volume. If that cannot be checked, the volume may exist.
async fn is_nowhere(run: &Run, volume: &ItemId) -> bool {
    lookup::target(&run.catalogue, volume).is_some() && matches!(run.get(volume).await, Ok(None))
}

fn unbound(claim: &str, volume: &str) -> String {
    format!(
        "{claim} gets a new, empty volume: its volume {volume} is neither restored nor in the cluster; to keep it, restore persistentvolumes as well"
    )
}

/// Removes the marks of a claim's old binding, and the volume's name if `is_provisioned` says that a volume is newly
/// provisioned.
fn unbind(claim: &mut Value, is_provisioned: impl Fn(&str) -> bool) {
    let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().to_owned();
    if volume.is_empty() {
        return;
    }
    sanitise::unbind(claim);
    if is_provisioned(&volume)
        && let Some(spec) = claim.pointer_mut("/spec").and_then(Value::as_object_mut)
    {
        spec.remove("volumeName");
    }
}
