//! How a mover stands, read from its Job, its pod and the pod's node: it prepares, runs, has ended, or will never end by
//! itself. Takes the objects as the API server gives them and the time, gives a verdict with words for people. The server
//! asks at every change.

mod ended;
mod preparing;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::job::CONTAINER;

pub use preparing::{Stuck, stuck};

/// What the server saw.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// None where it is gone.
    pub job: Option<&'a Value>,
    pub pod: Option<&'a Value>,
    /// Whether there was a pod before.
    pub had_pod: bool,
    pub node: NodeSeen<'a>,
    /// The newest warning about the pod or, without one, about the Job.
    pub warning: Option<&'a Warning>,
    /// Since when the container waits for the reason that [`stuck`] gives.
    pub stuck_since: Option<Timestamp>,
}

/// The node of the pod, or the one that it has to run on.
#[derive(Clone, Copy, Debug)]
pub enum NodeSeen<'a> {
    /// Nobody looked, or there is none yet.
    Unknown,
    Gone,
    There(&'a Value),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub reason: String,
    pub message: String,
}

/// How long what is borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until the container runs.
    pub prepare: Duration,
    /// Without a word of the node.
    pub node: Duration,
}

/// How a mover stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its pod waits for something.
    Preparing(String),
    Running {
        node: String,
    },
    /// Its container ended. What it left is to be read; where that is no result, this is its death.
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
    /// What happened and what to do.
    pub words: String,
    /// The kubelet reported that the container ended: nobody writes any more, its locks may go.
    pub reported: bool,
    /// The same may succeed when it is tried again.
    pub may_retry: bool,
}

/// A bounded word for events and metrics.
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
    /// Someone deleted the Job or the pod.
    Deleted,
    /// The server's settings or the API server do not allow it.
    Refused,
}

impl Dead {
    pub fn new(cause: DeathCause, words: impl Into<String>) -> Self {
        let may_retry = matches!(
            cause,
            DeathCause::Killed | DeathCause::Evicted | DeathCause::NodeLost | DeathCause::Deleted
        );
        Self { cause, words: words.into(), reported: false, may_retry }
    }
}

/// Judges.
pub fn verdict(seen: &Seen<'_>, patience: &Patience, now: Timestamp) -> Verdict {
    let Some(pod) = seen.pod else { return preparing::without_pod(seen, patience, now) };
    let state = container_state(pod);
    if !state["terminated"].is_null() {
        return ended::container(pod, &state["terminated"]);
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

/// The node is gone, or says nothing for too long. Whether the container still runs there nobody knows.
fn lost(seen: &Seen<'_>, patience: &Patience, now: Timestamp) -> Option<Dead> {
    let node = match seen.node {
        NodeSeen::Unknown => return None,
        NodeSeen::Gone => {
            let words = "the node of the mover is gone from the cluster";
            return Some(Dead::new(DeathCause::NodeLost, words));
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
        let words = format!(
            "node {name} is not ready since {since} ({}); its mover may still run there, so its lock on the repository \
             holds until it is 30 minutes old",
            text(&ready["reason"])
        );
        Dead::new(DeathCause::NodeLost, words)
    })
}

/// A pod that is being deleted and does not end: its grace is over for long.
fn overdue(pod: &Value, patience: &Patience, now: Timestamp) -> Option<Dead> {
    let until = time(&pod["metadata"]["deletionTimestamp"])?;
    (passed(until, now) > patience.node).then(|| {
        Dead::new(
            DeathCause::Deleted,
            "someone deleted the pod of the mover, and its node does not say that it ended",
        )
    })
}

/// The state of the mover's container; null where the kubelet told none.
fn container_state(pod: &Value) -> &Value {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let status = statuses.into_iter().flatten().find(|status| status["name"] == CONTAINER);
    status.map_or(&Value::Null, |status| &status["state"])
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

/// "reason: message", or the one that there is.
fn joined(reason: &str, message: &str) -> String {
    match (reason.trim(), message.trim()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests;
