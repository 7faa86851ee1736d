//! The pods of a target, which of them represents a host, and why none does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{HostPod, TargetFacts};
use crate::json::text;

/// How many pods a message names.
const NAMED: usize = 3;

/// Why no pod represents a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodsError {
    #[error("{target} has no Ready pod to read from: {pods}; once a pod is Ready, the next backup reads it")]
    NoReadyPod { target: String, pods: String },
    #[error("{target} has no pod {pod}; its events say why it was not made")]
    NoPod { target: String, pod: String },
    #[error("{target} runs on no node, so there is nothing to read")]
    NoNodes { target: String },
    #[error("StatefulSet {name} has no replicas and no claims, so there is nothing to read")]
    NoOrdinals { name: String },
}

/// The pods of a workload, by their owners. `between`: the ReplicaSets of a Deployment, the ReplicationControllers of a
/// DeploymentConfig.
pub fn pods_of<'a>(workload: &Value, between: &[Value], pods: &'a [Value]) -> Vec<&'a Value> {
    let own = text(workload, "/metadata/uid");
    let of_own = between.iter().filter(|object| controller(object) == Some(own));
    let uids: BTreeSet<&str> = of_own.map(|object| text(object, "/metadata/uid")).chain([own]).collect();
    pods.iter().filter(|pod| controller(pod).is_some_and(|uid| uids.contains(uid))).collect()
}

/// The UIDs of a target's own pods that have not ended.
pub fn active_pods(facts: &TargetFacts) -> BTreeSet<String> {
    let own =
        facts.object.as_ref().map(|object| pods_of(object, &facts.between, &facts.pods)).unwrap_or_default();
    let active = own.into_iter().filter(|pod| !has_ended(pod));
    active.map(|pod| text(pod, "/metadata/uid").to_owned()).collect()
}

/// The UID of the object that controls another one.
fn controller(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    Some(text(controller, "/uid")).filter(|uid| !uid.is_empty())
}

/// The pod template of a workload.
pub fn pod_template(workload: &Value) -> Option<&Value> {
    workload.pointer("/spec/template")
}

/// Why a pod cannot represent a host; None if it is Ready and not being deleted.
pub fn why_not_ready(pod: &Value) -> Option<String> {
    if is_terminating(pod) {
        return Some("is being deleted".to_owned());
    }
    if has_ended(pod) {
        let why =
            [text(pod, "/status/reason"), text(pod, "/status/phase")].into_iter().find(|why| !why.is_empty());
        return Some(format!("has ended ({})", why.unwrap_or_default()));
    }
    if condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True") {
        return None;
    }
    let unscheduled = condition(pod, "PodScheduled").filter(|found| found["status"] == "False");
    if let Some(unscheduled) = unscheduled {
        return Some(format!(
            "has no node: {}",
            or(text(unscheduled, "/message"), "the scheduler gave no reason")
        ));
    }
    if let Some(waiting) = waiting(pod) {
        return Some(waiting);
    }
    let message = condition(pod, "Ready").map(|ready| text(ready, "/message")).unwrap_or_default();
    Some(format!("is not Ready: {}", or(message, or(text(pod, "/status/phase"), "it has no status yet"))))
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// What the first container that does not run waits for.
fn waiting(pod: &Value) -> Option<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"].into_iter();
    let mut containers = lists.filter_map(|at| pod.pointer(at)?.as_array()).flatten();
    containers.find_map(|container| {
        let reason = text(container, "/state/waiting/reason");
        (!reason.is_empty()).then(|| format!("container {} waits: {reason}", text(container, "/name")))
    })
}

pub(super) fn is_terminating(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Whether all containers have ended for good: such a pod uses no volume any more.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// The pod that represents all replicas: Ready, not being deleted, the oldest, then the first by name.
pub(super) fn standing<'a>(target: &str, pods: &[&'a Value]) -> Result<&'a Value, PodsError> {
    let ready = pods.iter().copied().filter(|pod| why_not_ready(pod).is_none());
    let oldest =
        ready.min_by_key(|pod| (text(pod, "/metadata/creationTimestamp"), text(pod, "/metadata/name")));
    oldest.ok_or_else(|| PodsError::NoReadyPod { target: target.to_owned(), pods: states(pods) })
}

/// Pods and why they are not Ready, for messages; those that ended come last.
fn states(pods: &[&Value]) -> String {
    if pods.is_empty() {
        return "it has no pods".to_owned();
    }
    let mut pods = pods.to_vec();
    pods.sort_by_key(|pod| (has_ended(pod), text(pod, "/metadata/name")));
    let shown = pods.iter().take(NAMED).map(|pod| {
        format!(
            "pod {} {}",
            text(pod, "/metadata/name"),
            why_not_ready(pod).unwrap_or_else(|| "is Ready".to_owned())
        )
    });
    let mut shown: Vec<String> = shown.collect();
    if pods.len() > NAMED {
        shown.push(format!("and {} more", pods.len() - NAMED));
    }
    shown.join(", ")
}

/// The pods of a DaemonSet by node, without those that ended. A pod without a node has it in the affinity that the DaemonSet's
/// controller gave it.
pub(super) fn by_node<'a>(pods: &[&'a Value]) -> BTreeMap<String, Vec<&'a Value>> {
    let mut nodes: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !has_ended(pod)) {
        if let Some(node) = node_of(pod) {
            nodes.entry(node.to_owned()).or_default().push(pod);
        }
    }
    nodes
}

fn node_of(pod: &Value) -> Option<&str> {
    let scheduled = text(pod, "/spec/nodeName");
    if !scheduled.is_empty() {
        return Some(scheduled);
    }
    let required =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = pod.pointer(required)?.as_array()?;
    let fields = terms.iter().filter_map(|term| term["matchFields"].as_array()).flatten();
    let mut names = fields.filter(|field| field["key"] == "metadata.name");
    names.find_map(|field| field["values"].as_array()?.first()?.as_str())
}

/// The pod with a name.
pub(super) fn named<'a>(pods: &[&'a Value], name: &str) -> Option<&'a Value> {
    pods.iter().copied().find(|pod| text(pod, "/metadata/name") == name)
}

impl HostPod {
    pub(super) fn of(pod: &Value) -> Self {
        let of = |at: &str| text(pod, at).to_owned();
        Self {
            name: of("/metadata/name"),
            uid: of("/metadata/uid"),
            node: of("/spec/nodeName"),
            object: pod.clone(),
        }
    }
}
