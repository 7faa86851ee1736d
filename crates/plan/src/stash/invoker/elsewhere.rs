//! Members whose AppBinding is in another namespace: their mover's pod runs in that namespace, so the member may only
//! determine the node and the resources of that pod. The rights to use the AppBinding, and to run commands in its
//! namespace, are checked on admission.

use lifeboat_api::stash::{RuntimeSettings, TargetRef};
use serde_json::Value;

use super::problem::{MOST_ELSEWHERE, Problem};
use crate::stash::session::TargetKey;

/// The fields of runtimeSettings that may be set for a pod in another namespace. All others would give it an
/// identity, a user, files, programs, or labels that Services and policies of that namespace select.
const POD_FIELDS: [&str; 4] = ["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"];
const CONTAINER_FIELDS: [&str; 3] = ["resources", "nice", "ionice"];

/// What decides about the pod of a member.
pub(super) struct PodFields<'a> {
    pub(super) runtime: Option<&'a RuntimeSettings>,
    pub(super) has_interim_volume: bool,
}

/// Refuses the fields that a member in the namespace `own` may not set, because its target is elsewhere.
pub(super) fn pod_fields(
    place: &str,
    reference: Option<&TargetRef>,
    own: &str,
    fields: &PodFields<'_>,
    problems: &mut Vec<Problem>,
) {
    let key = reference.map(|reference| TargetKey::of(reference, own));
    let Some(key) = key.filter(|key| key.namespace != own) else { return };
    let mut refused: Vec<String> = Vec::new();
    let runtime = fields.runtime.and_then(|runtime| serde_json::to_value(runtime).ok()).unwrap_or_default();
    for (of, allowed) in [("pod", &POD_FIELDS[..]), ("container", &CONTAINER_FIELDS[..])] {
        let set = runtime.get(of).and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
        let more = set.filter(|name| !allowed.contains(&name.as_str()));
        refused.extend(more.map(|name| format!("runtimeSettings.{of}.{name}")));
    }
    if fields.has_interim_volume {
        refused.push("interimVolumeTemplate".to_owned());
    }
    if !refused.is_empty() {
        let (member, fields, own) = (place.to_owned(), refused.join(", "), own.to_owned());
        problems.push(Problem::PodElsewhere { member, fields, namespace: key.namespace, own });
    }
}

/// Refuses more AppBindings of other namespaces than are checked on admission.
pub(super) fn bounded<'a>(references: impl Iterator<Item = &'a TargetRef>, own: &str) -> Result<(), Problem> {
    let found = references.filter(|reference| TargetKey::of(reference, own).namespace != own).count();
    if found > MOST_ELSEWHERE { Err(Problem::Elsewhere { found }) } else { Ok(()) }
}
