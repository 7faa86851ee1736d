//! The state of a mover, derived from its Job, its pod and the pod's node: it is being prepared, runs, has ended, or
//! will never end by itself. Takes the objects from the API server and the time, gives a verdict with a message.
//! Called by the server at every change.

mod ended;
mod preparing;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::job::CONTAINER;

pub use preparing::{Stuck, stuck};

/// The objects that the server read.
#[derive(Clone, Copy, Debug)]
pub struct MoverFacts<'a> {
    /// None if it is gone.
    pub job: Option<&'a Value>,
    pub pod: Option<&'a Value>,
    /// Whether the mover had a pod earlier.
    pub had_pod: bool,
    pub node: NodeSeen<'a>,
    /// The newest warning event of the pod or, without a pod, of the Job.
    pub warning: Option<&'a Warning>,
    /// Since when the container waits for the reason that [`stuck`] returns.
    pub stuck_since: Option<Timestamp>,
}

/// The node of the pod, or the one that it has to run on.
#[derive(Clone, Copy, Debug)]
pub enum NodeSeen<'a> {
    /// The node was not read, or the pod has none yet.
    Unknown,
    Gone,
    There(&'a Value),
}

/// A warning event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub reason: String,
    pub message: String,
}

/// How long each kind of failure is tolerated before the mover is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until the container runs.
    pub prepare: Duration,
    /// While the node is not ready.
    pub node: Duration,
}

/// The state of a mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its pod waits for something.
    Preparing(String),
    Running {
        node: String,
    },
    /// Its container ended. The caller reads its result; if there is none, this is the cause of its death.
    Ended {
        message: String,
        death: Dead,
    },
    Dead(Dead),
}

/// An end without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    pub cause: DeathCause,
    /// What happened and what the user can do.
    pub message: String,
    /// The kubelet reported that the container ended: it no longer writes, and its locks may be removed.
    pub reported: bool,
    /// Another attempt may succeed.
    pub may_retry: bool,
}

/// The cause, from a fixed list, for events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeathCause {
    Killed,
    Evicted,
    OutOfMemory,
    Image,
    Deadline,
    NodeLost,
    Unschedulable,
    /// A volume of the pod cannot be mounted.
    Volume,
    /// The Job or the pod was deleted.
    Deleted,
    /// The server's settings or the API server do not allow the mover.
    Refused,
}

impl Dead {
    pub fn new(cause: DeathCause, message: impl Into<String>) -> Self {
        let may_retry = matches!(
            cause,
            DeathCause::Killed | DeathCause::Evicted | DeathCause::NodeLost | DeathCause::Deleted
        );
        Self { cause, message: message.into(), reported: false, may_retry }
    }
}

/// Derives the state of a mover.
pub fn verdict(seen: &MoverFacts<'_>, patience: &Patience, now: Timestamp) -> Verdict {
    let Some(pod) = seen.pod else { return preparing::without_pod(seen, patience, now) };
    let state = container_state(pod);
    if !state["terminated"].is_null() {
        return ended::container(pod, &state["terminated"]);
    }
    if let Some(terminated) = ended::failed_first(pod) {
        return ended::container(pod, terminated);
    }
    if let Some(dead) = ended::pod(pod) {
        return Verdict::Dead(dead);
    }
    if let Some(dead) = lost(seen, patience, now).or_else(|| overdue(pod, patience, now)) {
        return Verdict::Dead(dead);
    }
    if state["running"].is_null() {
        return preparing::pod(seen, pod, patience, now);
    }
    Verdict::Running { node: text(&pod["spec"]["nodeName"]).to_owned() }
}

/// The node is gone, or has not reported for too long. The container may still be running there.
fn lost(seen: &MoverFacts<'_>, patience: &Patience, now: Timestamp) -> Option<Dead> {
    let node = match seen.node {
        NodeSeen::Unknown => return None,
        NodeSeen::Gone => {
            let message = "the mover's node is gone from the cluster";
            return Some(Dead::new(DeathCause::NodeLost, message));
        }
        NodeSeen::There(node) => node,
    };
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready")?;
    if ready["status"] == "True" {
        return None;
    }
    let since = time(&ready["lastTransitionTime"])?;
    (passed(since, now) > patience.node).then(|| {
        let name = text(&node["metadata"]["name"]);
        let message = format!(
            "node {name} is not ready since {since} ({}); its mover may still run there, so its lock on the repository \
             holds until it is 30 minutes old",
            text(&ready["reason"])
        );
        Dead::new(DeathCause::NodeLost, message)
    })
}

/// A pod that is being deleted and has not ended long after its grace period.
fn overdue(pod: &Value, patience: &Patience, now: Timestamp) -> Option<Dead> {
    let until = time(&pod["metadata"]["deletionTimestamp"])?;
    (passed(until, now) > patience.node).then(|| {
        Dead::new(
            DeathCause::Deleted,
            "the mover's pod was deleted, and its node has not reported that it ended",
        )
    })
}

/// The state of the mover's container; null if the kubelet reported none. Containers that a webhook added do not count.
fn container_state(pod: &Value) -> &Value {
    &of_mover(&pod["status"]["containerStatuses"])["state"]
}

/// The mover's container in the pod's spec; a webhook may have put others before it.
fn container(pod: &Value) -> &Value {
    of_mover(&pod["spec"]["containers"])
}

/// The entry of the mover's container in a list; null if there is none.
fn of_mover(list: &Value) -> &Value {
    let entries = list.as_array().into_iter().flatten();
    entries.into_iter().find(|entry| entry["name"] == CONTAINER).unwrap_or(&Value::Null)
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// "reason: message", or the one that is not empty.
fn joined(reason: &str, message: &str) -> String {
    match (reason.trim(), message.trim()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests;
