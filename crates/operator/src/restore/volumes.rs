//! Volumes and claims within a restore: which volumes are restored as objects, which are made anew for their claims.

use lifeboat_plan::restore::sanitise;
use lifeboat_plan::restore::volumes::{DataIn, VolumePlan, plan};
use serde_json::Value;

use super::item::Subject;
use super::run::{Run, locked};

/// Whether a volume is restored as an object; other types always are.
pub(super) fn volume(run: &Run, subject: &Subject, object: &mut Value) -> bool {
    if !subject.is("persistentvolumes") {
        return true;
    }
    let data = run.volumes.get(&subject.id.name).copied().unwrap_or(DataIn::Nothing);
    match plan(object, data) {
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

/// A claim is bound anew; one whose volume is not restored as an object gets a new one.
pub(super) fn claim(run: &Run, subject: &Subject, object: &mut Value) {
    if subject.is("persistentvolumeclaims") {
        bind_anew(object, |volume| locked(&run.provisioned).contains(volume));
    }
}

/// `is_provisioned`: whether a volume is not restored as an object.
pub(super) fn bind_anew(claim: &mut Value, is_provisioned: impl Fn(&str) -> bool) {
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
