//! Volumes and claims within a restore: which volumes are restored as objects, which are made from snapshots, which are made
//! anew for their claims.

use std::sync::Arc;

use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::restore::sanitise;
use lifeboat_plan::restore::volumes::{DataIn, VolumePlan, plan};
use lifeboat_plugin::actions::Lookup;
use serde_json::Value;

use super::lookup::ClusterLookup;
use super::native;
use super::report::Notes;
use crate::items::item::Subject;
use crate::items::run::{Run, locked};

/// Whether a volume is restored as an object; other types always are.
pub(crate) async fn volume(run: &Arc<Run>, subject: &Subject, object: &mut Value, notes: &mut Notes) -> bool {
    if !subject.is("persistentvolumes") {
        return true;
    }
    let data = run.volumes.get(&subject.id.name).copied().unwrap_or(DataIn::Nothing);
    match plan(object, data, run.valid.volumes) {
        VolumePlan::FromSnapshot => native::volume(run, subject, object, notes).await,
        VolumePlan::AsItIs => {
            sanitise::move_claim(object, &run.valid.mapping);
            sanitise::unbind(object);
            true
        }
        VolumePlan::Provision => {
            locked(&run.provisioned).insert(subject.id.name.clone());
            run.report.info("its claim gets a new volume", &subject.id);
            false
        }
    }
}

/// A claim is bound anew; one whose volume is not restored as an object gets a new one. So does one whose volume is nowhere:
/// it would wait for that name for ever.
pub(crate) async fn claim(run: &Run, subject: &Subject, object: &mut Value, notes: &mut Notes) {
    if !subject.is("persistentvolumeclaims") {
        return;
    }
    bind_anew(object, |volume| locked(&run.provisioned).contains(volume));
    let Some(volume) = bound_to(object) else { return };
    if let Some(name) = locked(&run.native).renamed.get(&volume.name) {
        object["spec"]["volumeName"] = Value::String(name.clone());
        return;
    }
    if locked(&run.native).failed.contains(&volume.name) {
        notes.warn(format!(
            "{} waits for volume {}, which could not be made from its snapshot; restore persistentvolumes again when that is mended",
            subject.resource_id(),
            volume.name
        ));
        return;
    }
    let restored = run.work_of(&volume).is_some_and(|work| run.exists(work));
    if !restored && is_nowhere(&run.lookup, &volume).await {
        notes.warn(unbound(&subject.resource_id(), &volume.name));
        bind_anew(object, |_| true);
    }
}

/// The volume that a claim names.
pub(crate) fn bound_to(claim: &Value) -> Option<ItemId> {
    let name = claim.pointer("/spec/volumeName").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    Some(ItemId::cluster(GroupResource::new("", "persistentvolumes"), name))
}

/// Whether the cluster has no such volume. One that cannot be looked for may be there.
pub(crate) async fn is_nowhere(lookup: &ClusterLookup, volume: &ItemId) -> bool {
    lookup.target(volume).is_some() && matches!(lookup.get(volume).await, Ok(None))
}

pub(crate) fn unbound(claim: &str, volume: &str) -> String {
    format!(
        "{claim} gets a new, empty volume: its volume {volume} is neither restored nor in the cluster; to keep it, restore persistentvolumes as well"
    )
}

/// `is_provisioned`: whether a volume is not restored as an object.
pub(crate) fn bind_anew(claim: &mut Value, is_provisioned: impl Fn(&str) -> bool) {
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
