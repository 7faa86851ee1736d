//! The init container that keeps a restored pod from starting before its data is there. The restore pipeline marks a
//! pod with the volumes to wait for; the action `velero.io/pod-volume-restore` turns the mark into the container, so
//! that it has upstream's position: before the containers of hooks. [`started`] reads from a pod whether the
//! container runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::text;

/// The container's name.
pub const CONTAINER: &str = "restore-wait";
/// The container's name in old versions of Velero.
const OLD_CONTAINER: &str = "restic-wait";
/// Annotation of a pod between the pipeline and the action; no pod is created with it.
const MARK: &str = "lifeboat.io/restore-wait";
/// Requests and limits if the action's ConfigMap sets none: upstream's.
const CPU: &str = "100m";
const MEMORY: &str = "128Mi";

/// The volumes that a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub image: String,
    /// The UID of the Restore.
    pub restore: String,
    /// The volumes' names in the pod.
    pub volumes: Vec<String>,
}

/// Marks the pod with the volumes to wait for. Wait containers of earlier restores are removed.
pub fn mark(pod: &mut Value, wait: Option<&Wait>) {
    if let Some(list) = pod.pointer_mut("/spec/initContainers").and_then(Value::as_array_mut) {
        list.retain(|one| !matches!(text(one, "/name"), CONTAINER | OLD_CONTAINER));
    }
    let note =
        wait.map(|wait| json!({"image": wait.image, "restore": wait.restore, "volumes": wait.volumes}));
    match note {
        Some(note) => {
            if !pod["metadata"]["annotations"].is_object() {
                pod["metadata"]["annotations"] = json!({});
            }
            pod["metadata"]["annotations"][MARK] = json!(note.to_string());
        }
        None => drop(take_mark(pod)),
    }
}

/// Removes and returns the mark.
pub fn take_mark(pod: &mut Value) -> Option<Wait> {
    let annotations = pod.pointer_mut("/metadata/annotations")?.as_object_mut()?;
    let note = annotations.remove(MARK)?;
    if annotations.is_empty() {
        pod["metadata"].as_object_mut()?.remove("annotations");
    }
    let note: Value = serde_json::from_str(note.as_str()?).ok()?;
    let volumes = note["volumes"].as_array()?.iter().filter_map(|name| name.as_str().map(str::to_owned));
    Some(Wait {
        image: text(&note, "/image").to_owned(),
        restore: text(&note, "/restore").to_owned(),
        volumes: volumes.collect(),
    })
}

/// The container. `config`: the content of the action's ConfigMap.
pub fn wait_container(pod: &Value, wait: &Wait, config: &BTreeMap<String, String>) -> Value {
    let set = |key: &str| config.get(key).map(String::as_str).filter(|text| !text.is_empty());
    let mounts: Vec<Value> = wait
        .volumes
        .iter()
        .map(|name| json!({"name": name, "mountPath": format!("/restores/{name}")}))
        .collect();
    // An image without a registry cannot be pulled: upstream's rule.
    let image = set("image").filter(|image| image.contains('/')).unwrap_or(&wait.image);
    json!({
        "name": CONTAINER,
        "image": image,
        "args": ["restore-wait", wait.restore],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "volumeMounts": mounts,
        "resources": {
            "requests": {"cpu": set("cpuRequest").unwrap_or(CPU), "memory": set("memRequest").unwrap_or(MEMORY)},
            "limits": {"cpu": set("cpuLimit").unwrap_or(CPU), "memory": set("memLimit").unwrap_or(MEMORY)},
        },
        "securityContext": security(pod, config),
    })
}

/// Permissions to see a file in a directory that the workload's user may have made inaccessible to others: that user,
/// if the pod names it; otherwise root with only the capability to read everything.
fn security(pod: &Value, config: &BTreeMap<String, String>) -> Value {
    let number = |key: &str| config.get(key).and_then(|text| text.parse::<i64>().ok());
    let mut own = pod.pointer("/spec/containers/0/securityContext").and_then(Value::as_object).cloned();
    let of_pod = |field: &str| pod["spec"]["securityContext"][field].clone();
    if let (Some(user), group) = (number("secCtxRunAsUser"), number("secCtxRunAsGroup")) {
        let mut given = restricted();
        given.insert("runAsUser".to_owned(), json!(user));
        given.insert("runAsNonRoot".to_owned(), json!(user != 0));
        if let Some(group) = group {
            given.insert("runAsGroup".to_owned(), json!(group));
        }
        return Value::Object(given);
    }
    let has = |field: &str, own: &Option<Map<String, Value>>| {
        let value = own.as_ref().and_then(|own| own.get(field)).cloned().unwrap_or_default();
        if value.is_null() { of_pod(field) } else { value }
    };
    let user = has("runAsUser", &own);
    let not_root = has("runAsNonRoot", &own) == true;
    let mut chosen = own.take().unwrap_or_else(restricted);
    chosen.remove("privileged");
    if user.is_null() && !not_root {
        chosen.insert("runAsUser".to_owned(), json!(0));
        chosen.insert("allowPrivilegeEscalation".to_owned(), json!(false));
        chosen.insert("capabilities".to_owned(), json!({"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}));
    }
    Value::Object(chosen)
}

/// A security context that every namespace admits.
fn restricted() -> Map<String, Value> {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}});
    context.as_object().cloned().unwrap_or_default()
}

/// The state of a restored pod that has to wait for its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// Its wait container runs on this node.
    Waits(String),
    /// Its wait container does not run yet; the reason.
    NotYet(String),
    /// All of its data was there, and it continued.
    Over,
    /// It will never wait; the reason.
    Never(String),
}

/// Reads the state from the pod.
pub fn started(pod: &Value) -> WaitState {
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    if !list("/spec/initContainers").any(|one| text(one, "/name") == CONTAINER) {
        return WaitState::Never(format!(
            "the pod has no init container {CONTAINER}: something removed it, so its volumes cannot be restored while the pod may be using them"
        ));
    }
    let status = list("/status/initContainerStatuses").find(|one| text(one, "/name") == CONTAINER);
    let exit = status.and_then(|status| status.pointer("/state/terminated/exitCode")?.as_i64());
    if exit == Some(0) {
        return WaitState::Over;
    }
    if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        return WaitState::Never("the pod is being deleted".to_owned());
    }
    let phase = text(pod, "/status/phase");
    if matches!(phase, "Succeeded" | "Failed") {
        return WaitState::Never(format!("the pod ended (phase {phase}) before its data was there"));
    }
    let node = text(pod, "/spec/nodeName");
    if let Some(status) = status {
        if status.pointer("/state/running").is_some() && !node.is_empty() {
            return WaitState::Waits(node.to_owned());
        }
        if let Some(reason) = status.pointer("/state/waiting/reason").and_then(Value::as_str) {
            let more = text(status, "/state/waiting/message");
            let message = format!("its init container {CONTAINER} waits: {reason} {more}");
            return WaitState::NotYet(message.trim_end().to_owned());
        }
    }
    let scheduled = list("/status/conditions").find(|one| one["type"] == "PodScheduled");
    WaitState::NotYet(match scheduled.filter(|condition| condition["status"] == "False") {
        Some(condition) => format!(
            "the pod is not scheduled: {} {}",
            text(condition, "/reason"),
            text(condition, "/message")
        ),
        None if node.is_empty() => "the pod is not scheduled".to_owned(),
        None => format!("its init container {CONTAINER} does not run yet on node {node}"),
    })
}

/// Why a pod's volume could not be copied to the end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodLeft {
    #[error("the pod was gone before its volume was copied")]
    Gone,
    #[error("the pod ended (phase {phase}) before its volume was copied")]
    Ended { phase: String },
    #[error("the pod was being deleted before its volume was copied")]
    Deleted,
}

/// Whether the pod of a copy existed until its end: the directory of a terminating pod is emptied while it is read.
pub fn stayed(pod: Option<&Value>, uid: &str, end: Timestamp) -> Result<(), PodLeft> {
    let Some(pod) = pod.filter(|pod| text(pod, "/metadata/uid") == uid) else {
        return Err(PodLeft::Gone);
    };
    let phase = text(pod, "/status/phase");
    if matches!(phase, "Succeeded" | "Failed") {
        return Err(PodLeft::Ended { phase: phase.to_owned() });
    }
    let Ok(gone) = text(pod, "/metadata/deletionTimestamp").parse::<Timestamp>() else { return Ok(()) };
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let asked = gone.checked_sub(jiff::SignedDuration::from_secs(grace)).unwrap_or(gone);
    if asked > end {
        return Ok(());
    }
    Err(PodLeft::Deleted)
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
