//! Why a container or a pod ended. Takes the status from the kubelet, gives the cause. Called by `verdict`.

use serde_json::Value;

use super::{Dead, DeathCause, Verdict, condition, container as spec_of, joined, text};
use crate::transfer::movers::FIRST;

/// The kubelet reported the container's end.
pub(super) fn container(pod: &Value, terminated: &Value) -> Verdict {
    let mut death = of_pod(pod).unwrap_or_else(|| of_container(pod, terminated));
    // Out of memory is the cause of what followed; the kernel may kill a child and the container then exits by
    // itself.
    if terminated["reason"] == "OOMKilled" {
        death = of_container(pod, terminated);
    }
    // The kubelet's placeholder for a container whose state it lost is not a report of its end.
    death.reported = terminated["reason"] != "ContainerStatusUnknown";
    // Where other containers followed the mover's work, its result is that of an init container.
    let result = first(pod).unwrap_or(terminated);
    Verdict::Ended { message: text(&result["message"]).to_owned(), death }
}

/// The end of the init container that does the mover's work, where others follow it.
fn first(pod: &Value) -> Option<&Value> {
    let statuses = pod["status"]["initContainerStatuses"].as_array();
    let first = statuses.into_iter().flatten().find(|status| status["name"] == FIRST)?;
    Some(&first["state"]["terminated"]).filter(|terminated| !terminated.is_null())
}

/// The end of that container if it failed: then those that follow never start.
pub(super) fn failed_first(pod: &Value) -> Option<&Value> {
    first(pod).filter(|terminated| terminated["exitCode"].as_i64().is_some_and(|code| code != 0))
}

/// A pod that ended, regardless of its container.
pub(super) fn pod(pod: &Value) -> Option<Dead> {
    if pod["status"]["phase"] != "Failed" && pod["status"]["phase"] != "Succeeded" {
        return None;
    }
    Some(of_pod(pod).or_else(|| init_container(pod)).unwrap_or_else(|| {
        let why = joined(text(&pod["status"]["reason"]), text(&pod["status"]["message"]));
        let why = if why.is_empty() { "it gave no reason".to_owned() } else { why };
        let message = format!("node {} did not run the mover: {why}", text(&pod["spec"]["nodeName"]));
        Dead { may_retry: true, ..Dead::new(DeathCause::Unschedulable, message) }
    }))
}

/// An init container failed, so the mover's container never started.
fn init_container(pod: &Value) -> Option<Dead> {
    let statuses = pod["status"]["initContainerStatuses"].as_array();
    let failed = statuses
        .into_iter()
        .flatten()
        .find(|status| status["state"]["terminated"]["exitCode"].as_i64().is_some_and(|code| code != 0))?;
    let terminated = &failed["state"]["terminated"];
    let why = joined(text(&terminated["reason"]), text(&terminated["message"]));
    let code = exit(terminated["exitCode"].as_i64().unwrap_or_default());
    let message = format!(
        "the mover did not start, because the init container {} of its pod failed ({code}): {why}",
        text(&failed["name"])
    );
    Some(Dead::new(DeathCause::Refused, message))
}

/// The cause that the pod's own status gives.
fn of_pod(pod: &Value) -> Option<Dead> {
    let (reason, message) = (text(&pod["status"]["reason"]), text(&pod["status"]["message"]));
    let disrupted = condition(pod, "DisruptionTarget").filter(|condition| condition["status"] == "True");
    match (reason, disrupted) {
        ("DeadlineExceeded", _) => Some(Dead::new(
            DeathCause::Deadline,
            "the mover did not end within its time; give it more, or find out what keeps it",
        )),
        ("Evicted", _) => {
            Some(Dead::new(DeathCause::Evicted, format!("the node evicted the mover: {}", message.trim())))
        }
        (_, Some(condition)) => {
            let why = joined(text(&condition["reason"]), text(&condition["message"]));
            Some(Dead::new(DeathCause::Evicted, format!("the mover was preempted: {why}")))
        }
        _ if !pod["metadata"]["deletionTimestamp"].is_null() => {
            Some(Dead::new(DeathCause::Deleted, "the mover's pod was deleted"))
        }
        _ => None,
    }
}

fn of_container(pod: &Value, terminated: &Value) -> Dead {
    let code = terminated["exitCode"].as_i64().unwrap_or_default();
    match text(&terminated["reason"]) {
        "OOMKilled" => out_of_memory(pod, &format!("exit code {code}")),
        _ if is_memory(text(&terminated["message"])) => out_of_memory(pod, "it could not start"),
        "StartError" | "ContainerCannotRun" => Dead::new(
            DeathCause::Image,
            format!(
                "the program `lifeboat` of image {} cannot be started: {}; see the server's flag --mover-image",
                text(&spec_of(pod)["image"]),
                text(&terminated["message"]).trim()
            ),
        ),
        _ => Dead::new(DeathCause::Killed, format!("the mover ended without a result: {}", exit(code))),
    }
}

/// Whether the runtime's message says that the container had too little memory to start.
pub(super) fn is_memory(message: &str) -> bool {
    message.contains("OOM-killed") || message.contains("memory limit too low")
}

pub(super) fn out_of_memory(pod: &Value, how: &str) -> Dead {
    let limit = text(&spec_of(pod)["resources"]["limits"]["memory"]);
    let limit = if limit.is_empty() { String::new() } else { format!(" of {limit}") };
    let message = format!(
        "the mover needed more memory than its limit{limit} ({how}); raise it with the server's flag --mover-memory-limit, or in \
         runtimeSettings.container.resources where its object has them"
    );
    Dead::new(DeathCause::OutOfMemory, message)
}

fn exit(code: i64) -> String {
    let signal = match code {
        130 => "INT",
        134 => "ABRT",
        135 => "BUS",
        137 => "KILL",
        139 => "SEGV",
        143 => "TERM",
        _ => return format!("exit code {code}"),
    };
    format!("exit code {code}, signal {signal}")
}
