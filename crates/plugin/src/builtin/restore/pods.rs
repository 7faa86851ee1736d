//! Actions for pods: they remove what the scheduler and admission set, add the init containers of hooks, and add claims
//! as additional items.

use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_plan::restore::hooks::RestoreHooks;
use serde_json::Value;

use crate::actions::{ActionError, RestoreInput, RestoreOutcome};

use super::{items, remove, retain, text};

/// Removes the node, the priority and the token of the old pod; its PriorityClass is an additional item.
#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn pod(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut pod = input.item;
    remove(&mut pod, "/spec", "nodeName");
    remove(&mut pod, "/spec", "priority");
    // The API server accepts ephemeral containers only from `kubectl debug`, never in a new pod.
    remove(&mut pod, "/spec", "ephemeralContainers");
    let token = format!("{}-token-", text(&pod, "/spec/serviceAccountName"));
    let keep = |volume: &Value| !volume["name"].as_str().is_some_and(|name| name.starts_with(&token));
    retain(&mut pod, "/spec", "volumes", keep);
    for list in ["/spec/containers", "/spec/initContainers"] {
        for container in items(&mut pod, list) {
            retain(container, "", "volumeMounts", keep);
        }
    }
    let class = text(&pod, "/spec/priorityClassName");
    let additional_items = if class.is_empty() {
        Vec::new()
    } else {
        vec![ItemId::cluster(GroupResource::new("scheduling.k8s.io", "priorityclasses"), class)]
    };
    Ok(RestoreOutcome { additional_items, ..RestoreOutcome::item(pod) })
}

/// Adds init containers from the pod's annotations or the Restore's hooks.
pub(super) fn init_hooks(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let spec = &input.restore.spec;
    let hooks = RestoreHooks::new(spec).map_err(|error| ActionError::Failed(error.to_string()))?;
    let mut pod = input.item;
    let namespace = text(&pod, "/metadata/namespace").to_owned();
    let target = spec.namespace_mapping.as_ref().and_then(|mapping| mapping.get(&namespace));
    let unique = unique(input.from_backup);
    // Annotations of pods from untrusted locations were removed before.
    hooks.add_init_containers(&mut pod, target.unwrap_or(&namespace), &unique, true);
    Ok(RestoreOutcome::item(pod))
}

/// Adds the claims that a pod mounts as additional items.
#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn claims(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let namespace = text(&input.item, "/metadata/namespace");
    let volumes = input.item.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let names = volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str());
    let claim = |name| ItemId::namespaced(GroupResource::new("", "persistentvolumeclaims"), namespace, name);
    let additional_items = names.map(claim).collect();
    Ok(RestoreOutcome { additional_items, ..RestoreOutcome::item(input.item) })
}

/// The first eight digits of the old pod's UID, so that names are the same in every attempt.
fn unique(from_backup: &Value) -> String {
    let digits: String =
        text(from_backup, "/metadata/uid").chars().take_while(|letter| *letter != '-').collect();
    if digits.is_empty() { "deadfeed".to_owned() } else { digits }
}
