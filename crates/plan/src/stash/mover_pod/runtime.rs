//! runtimeSettings as fields of a pod and its container. They override the other settings of a mover's pod.

use lifeboat_api::stash::{ContainerRuntimeSettings, PodRuntimeSettings, RuntimeSettings};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::transfer::movers::PodOverrides;

/// The CPU priority of the mover. Its disk priority follows from it; `ionice` is not applied.
pub(super) fn nice(runtime: &RuntimeSettings) -> Option<i32> {
    runtime.container.as_ref()?.nice.as_ref()?.adjustment
}

pub(super) fn apply(runtime: &RuntimeSettings, overrides: &mut PodOverrides) {
    if let Some(pod) = &runtime.pod {
        overrides.labels.extend(pod.pod_labels.clone().unwrap_or_default());
        overrides.annotations.extend(pod.pod_annotations.clone().unwrap_or_default());
        overrides.security.extend(fields(pod.security_context.as_ref()));
        of_pod(pod, &mut overrides.spec);
    }
    if let Some(container) = &runtime.container {
        overrides.container_security.extend(fields(container.security_context.as_ref()));
        overrides.env.extend(container.env.iter().flatten().map(value));
        of_container(container, &mut overrides.container);
    }
}

fn of_pod(settings: &PodRuntimeSettings, spec: &mut Map<String, Value>) {
    let mut spec = Fields(spec);
    spec.set("nodeSelector", settings.node_selector.as_ref());
    spec.set("automountServiceAccountToken", settings.automount_service_account_token.as_ref());
    spec.set("nodeName", settings.node_name.as_ref());
    spec.set("imagePullSecrets", settings.image_pull_secrets.as_ref());
    spec.set("affinity", settings.affinity.as_ref());
    spec.set("schedulerName", settings.scheduler_name.as_ref());
    spec.set("tolerations", settings.tolerations.as_ref());
    spec.set("priorityClassName", settings.priority_class_name.as_ref());
    spec.set("priority", settings.priority.as_ref());
    spec.set("readinessGates", settings.readiness_gates.as_ref());
    spec.set("runtimeClassName", settings.runtime_class_name.as_ref());
    spec.set("enableServiceLinks", settings.enable_service_links.as_ref());
    spec.set("topologySpreadConstraints", settings.topology_spread_constraints.as_ref());
}

fn of_container(settings: &ContainerRuntimeSettings, container: &mut Map<String, Value>) {
    let mut container = Fields(container);
    container.set("resources", settings.resources.as_ref());
    container.set("livenessProbe", settings.liveness_probe.as_ref());
    container.set("readinessProbe", settings.readiness_probe.as_ref());
    container.set("lifecycle", settings.lifecycle.as_ref());
    container.set("envFrom", settings.env_from.as_ref());
}

struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn set<T: Serialize>(&mut self, name: &str, field: Option<&T>) {
        if let Some(field) = field {
            self.0.insert(name.to_owned(), value(field));
        }
    }
}

/// The fields of an object that are set.
fn fields<T: Serialize>(object: Option<&T>) -> Map<String, Value> {
    match object.map(value) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Types of Kubernetes always have a JSON form.
fn value<T: Serialize>(object: T) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
