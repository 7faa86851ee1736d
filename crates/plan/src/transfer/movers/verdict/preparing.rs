//! What a mover's pod waits for, and when the mover is given up. Takes the objects that were read, gives a message or
//! an end. Called by `verdict`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::ended::{is_memory, out_of_memory};
use super::{
    Dead, DeathCause, MoverFacts, Patience, Verdict, Warning, condition, container, container_state, joined,
    passed, text, time,
};
use crate::transfer::movers::pod::PROGRAM;
use crate::transfer::movers::{DryRun, STEP};

/// The time for problems that may disappear: a registry that restarts, a kubelet that just started.
const GRACE: Duration = Duration::from_mins(2);
/// How long an image that could not be pulled is tried again in a pod that is older than the time for such problems: the kubelet
/// tries twice.
const PULLED_AGAIN: Duration = Duration::from_secs(30);
/// The reason of the event with which the controller of Jobs reports that it cannot create a pod, and parts of the messages if the namespace
/// does not admit it.
const FAILED_CREATE: &str = "FailedCreate";
const NOT_ADMITTED: [&str; 2] = ["is forbidden", "denied the request"];
/// The time for problems that do not disappear by themselves.
const SHORT_GRACE: Duration = Duration::from_secs(15);

/// Why a container does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The image cannot be pulled.
    Pull,
    /// The image reference is invalid.
    NoImage,
    /// The container cannot be created.
    Container,
}

/// Why the container of this pod does not start, if the kubelet reports a reason: its own, or that of a container before it.
pub fn stuck(pod: &Value) -> Option<Stuck> {
    own_stuck(pod).or_else(|| init_stuck(pod))
}

/// Why a step of the work or the mover's own container does not start.
fn own_stuck(pod: &Value) -> Option<Stuck> {
    kind_of(text(&starting(pod).0["reason"]))
}

/// Why a container does not start that brings the program, or that a webhook added.
fn init_stuck(pod: &Value) -> Option<Stuck> {
    let statuses = pod["status"]["initContainerStatuses"].as_array();
    let mut reasons =
        statuses.into_iter().flatten().map(|status| text(&status["state"]["waiting"]["reason"]));
    reasons.find_map(kind_of)
}

impl Stuck {
    /// The cause of the mover's end, and how long it is waited before.
    fn ends(self) -> (DeathCause, Duration) {
        match self {
            Self::Pull => (DeathCause::Image, GRACE),
            Self::NoImage => (DeathCause::Image, SHORT_GRACE),
            Self::Container => (DeathCause::Refused, GRACE),
        }
    }

    /// Whether a pod of this age has waited long enough. A registry that does not answer takes a minute and more before the
    /// first failure is reported.
    fn is_over(self, since: Duration, age: Duration) -> bool {
        let (_, grace) = self.ends();
        since > grace || (self == Self::Pull && since > PULLED_AGAIN && age > grace)
    }
}

fn kind_of(reason: &str) -> Option<Stuck> {
    Some(match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "SignatureValidationFailed" => Stuck::Pull,
        "ErrImageNeverPull" | "InvalidImageName" => Stuck::NoImage,
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => Stuck::Container,
        _ => return None,
    })
}

/// There is no pod yet, or no longer.
pub(super) fn without_pod(seen: &MoverFacts<'_>, patience: &Patience, now: Timestamp) -> Verdict {
    let Some(job) = seen.job else {
        return Verdict::Dead(Dead::new(DeathCause::Deleted, "the mover's Job was deleted"));
    };
    let conditions = job["status"]["conditions"].as_array();
    let ended = conditions.into_iter().flatten().find(|condition| {
        condition["status"] == "True" && (condition["type"] == "Failed" || condition["type"] == "Complete")
    });
    if let Some(condition) = ended {
        let why = joined(text(&condition["reason"]), text(&condition["message"]));
        let message = format!("the mover's pod is gone, and its result with it; its Job reports: {why}");
        return Verdict::Dead(Dead::new(DeathCause::Deleted, message));
    }
    if seen.had_pod {
        return Verdict::Dead(Dead::new(DeathCause::Deleted, "the mover's pod was deleted"));
    }
    let age = passed(time(&job["metadata"]["creationTimestamp"]).unwrap_or(now), now);
    // A quota may have room later; what the namespace does not admit, it will not admit by waiting.
    let refused = seen.warning.is_some_and(is_never_admitted);
    if age <= patience.prepare && !(refused && age > GRACE) {
        return Verdict::Preparing(format!("waits for its pod{}", warned(seen.warning)));
    }
    let message =
        format!("no pod was created for the mover within {} s{}", age.as_secs(), warned(seen.warning));
    Verdict::Dead(Dead::new(DeathCause::Refused, message))
}

/// Whether an event says that the namespace does not admit the pod, also later.
fn is_never_admitted(warning: &Warning) -> bool {
    let message = warning.message.as_str();
    if warning.reason != FAILED_CREATE || !NOT_ADMITTED.iter().any(|text| message.contains(text)) {
        return false;
    }
    let answer = DryRun::Refused(message.to_owned());
    answer.refuses_permissions() || answer.never_admits_resources().is_some()
}

/// The pod exists, but its container does not run.
pub(super) fn pod(seen: &MoverFacts<'_>, pod: &Value, patience: &Patience, now: Timestamp) -> Verdict {
    let age = passed(time(&pod["metadata"]["creationTimestamp"]).unwrap_or(now), now);
    let late = age > patience.prepare;
    let node = text(&pod["spec"]["nodeName"]);
    let verdict = |waits: String, cause: DeathCause, over: bool| {
        if over {
            let message = format!("the mover did not start within {} s: it {waits}", age.as_secs());
            Verdict::Dead(Dead::new(cause, message))
        } else {
            Verdict::Preparing(waits)
        }
    };
    if node.is_empty() {
        let why =
            condition(pod, "PodScheduled").map(|scheduled| text(&scheduled["message"])).unwrap_or_default();
        let waits = joined("waits for a node", why);
        return verdict(waits, DeathCause::Unschedulable, late);
    }
    let since = seen.stuck_since.map_or(Duration::ZERO, |since| passed(since, now));
    let is_over = |kind: Stuck| late || kind.is_over(since, age);
    if let Some(kind) = own_stuck(pod) {
        let (waiting, waits_for) = starting(pod);
        let why = joined(text(&waiting["reason"]), text(&waiting["message"]));
        let (cause, _) = kind.ends();
        let waits = match kind {
            Stuck::Container => format!("waits for its container on node {node}: {why}"),
            _ => format!(
                "waits for its image {} on node {node}: {why} ({})",
                text(&waits_for["image"]),
                named_by(pod, waits_for)
            ),
        };
        let over = is_over(kind);
        if over && is_memory(text(&waiting["message"])) {
            return Verdict::Dead(out_of_memory(pod, "it could not start"));
        }
        return verdict(waits, cause, over);
    }
    if let Some(step) = running_step(pod) {
        // It does a part of the work; the deadline of the pod limits it.
        return Verdict::Preparing(format!("runs its container {step} on node {node}"));
    }
    let waits = format!("starts on node {node}{}{}", init_container(pod), warned(seen.warning));
    if let Some(kind) = init_stuck(pod) {
        return verdict(waits, kind.ends().0, is_over(kind));
    }
    let gone = seen.warning.is_some_and(|warning| warning.message.contains("hostPath type check failed"));
    if gone {
        // The directory of a deleted pod will not be created again.
        let waits = format!(
            "waits for a directory of node {node} that is not there: the pod whose volume it was has gone"
        );
        return verdict(waits, DeathCause::Volume, late || age > SHORT_GRACE);
    }
    let cause = match seen.warning.map(|warning| warning.reason.as_str()) {
        Some("FailedCreatePodSandBox" | "NetworkNotReady") => DeathCause::Unschedulable,
        _ => DeathCause::Volume,
    };
    verdict(waits, cause, late)
}

/// What the first container that cannot start waits for, and its spec: a step of the work, or the mover's own container.
fn starting(pod: &Value) -> (&Value, &Value) {
    let statuses = pod["status"]["initContainerStatuses"].as_array();
    let mut statuses = statuses.into_iter().flatten();
    let step = statuses.find(|status| {
        let reason = text(&status["state"]["waiting"]["reason"]);
        text(&status["name"]).starts_with(STEP) && kind_of(reason).is_some()
    });
    let Some(step) = step else { return (&container_state(pod)["waiting"], container(pod)) };
    let specs = pod["spec"]["initContainers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let spec = specs.iter().find(|spec| spec["name"] == step["name"]).unwrap_or(&Value::Null);
    (&step["state"]["waiting"], spec)
}

/// Where the image of a container is set.
fn named_by(pod: &Value, waits_for: &Value) -> &'static str {
    let is_step = text(&waits_for["name"]).starts_with(STEP);
    let specs = pod["spec"]["initContainers"].as_array().map(Vec::as_slice).unwrap_or_default();
    match specs.iter().any(|spec| spec["name"] == PROGRAM) {
        _ if is_step => "the Function of this step names it",
        // The mover's program is brought into an image with tools.
        true => "the task's name has its version; the server's flag --tool-image sets another image",
        false => "the server's flag --mover-image names it",
    }
}

/// The container that runs before or after the mover's work, if one does now.
fn running_step(pod: &Value) -> Option<&str> {
    let mut statuses = pod["status"]["initContainerStatuses"].as_array().into_iter().flatten();
    let found = statuses
        .find(|status| text(&status["name"]).starts_with(STEP) && !status["state"]["running"].is_null())?;
    Some(text(&found["name"]))
}

/// The init container that the mover's container waits for; a webhook may have added it.
fn init_container(pod: &Value) -> String {
    let statuses = pod["status"]["initContainerStatuses"].as_array();
    let mut statuses = statuses.into_iter().flatten();
    let specs = pod["spec"]["initContainers"].as_array().map(Vec::as_slice).unwrap_or_default();
    // One that is always restarted is a sidecar: it only has to start.
    let is_sidecar = |status: &Value| {
        specs.iter().any(|spec| spec["name"] == status["name"] && spec["restartPolicy"] == "Always")
    };
    let open = statuses.find(|status| {
        status["state"]["terminated"].is_null() && !(is_sidecar(status) && status["started"] == true)
    });
    let Some(status) = open else { return String::new() };
    let waiting = &status["state"]["waiting"];
    // Those behind the first wait for it without a reason of their own.
    let why = match text(&waiting["reason"]) {
        "" | "PodInitializing" => String::new(),
        reason => format!(" ({})", joined(reason, text(&waiting["message"]))),
    };
    format!(", waits for the init container {}{why}", text(&status["name"]))
}

fn warned(warning: Option<&Warning>) -> String {
    warning.map(|warning| format!(": {}", joined(&warning.reason, &warning.message))).unwrap_or_default()
}
