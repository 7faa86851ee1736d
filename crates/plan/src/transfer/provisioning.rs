//! Whether a restored claim gets its volume from its snapshot. Takes the claim, its class, its events and the time
//! waited; gives the state. A driver that cannot find the snapshot only reports this in events, and keeps retrying.

use std::time::Duration;

use serde_json::Value;

use super::text;

/// After this time of "not found" reports, the driver will not find the snapshot any more.
const CERTAIN: Duration = Duration::from_secs(90);
/// How long to wait for a claim that no pod uses.
const UNUSED: Duration = Duration::from_secs(10);

/// The state of a claim's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provisioning {
    Bound,
    Wait,
    /// Its class creates volumes only for pods, and no pod mounts it.
    Unused,
    /// It will not be created; the reason.
    Failed(String),
}

/// Whether the claim waits for a pod, because its class creates volumes only for scheduled pods.
pub fn awaits_pod(claim: &Value, class: Option<&Value>) -> bool {
    let late = class.is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer");
    late && claim["metadata"]["annotations"].get("volume.kubernetes.io/selected-node").is_none()
}

/// Whether a pod that has not ended mounts a claim.
fn mounts(pod: &Value, claim: &str) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
        && volumes.into_iter().any(|volume| text(volume, "/persistentVolumeClaim/claimName") == claim)
}

/// Why the scheduler found no node for a pod.
fn unscheduled(pod: &Value) -> String {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let said = conditions
        .filter(|condition| condition["type"] == "PodScheduled" && condition["status"] != "True")
        .map(|condition| text(condition, "/message"))
        .find(|message| !message.is_empty());
    format!(
        "pod {}, which mounts it, was not scheduled in time (--resource-timeout): {}",
        text(pod, "/metadata/name"),
        said.unwrap_or("the scheduler gave no reason")
    )
}

/// `pods`: those of its namespace, if it waits for one; `waited`: since the first check of the claim; `limit`: how
/// long to wait for a volume at most.
pub fn provisioning(
    claim: Option<&Value>,
    class: Option<&Value>,
    events: &[Value],
    pods: &[Value],
    waited: Duration,
    limit: Duration,
) -> Provisioning {
    let Some(claim) = claim else { return Provisioning::Failed("the claim is gone".to_owned()) };
    match text(claim, "/status/phase") {
        "Bound" => return Provisioning::Bound,
        "Lost" => return Provisioning::Failed("its volume is gone".to_owned()),
        _ => {}
    }
    let awaits = awaits_pod(claim, class);
    let consumer = pods.iter().find(|pod| mounts(pod, text(claim, "/metadata/name")));
    let failure = events
        .iter()
        .filter(|event| event["type"] == "Warning" && event["reason"] == "ProvisioningFailed")
        .map(|event| text(event, if event.get("note").is_some() { "/note" } else { "/message" }))
        .next_back();
    match failure {
        Some(message) if waited >= limit || (waited >= CERTAIN && is_gone(message)) => {
            Provisioning::Failed(message.to_owned())
        }
        None if awaits && consumer.is_none() && waited >= UNUSED => Provisioning::Unused,
        None if awaits && consumer.is_some() && waited >= limit => {
            Provisioning::Failed(consumer.map(unscheduled).unwrap_or_default())
        }
        None if waited >= limit => Provisioning::Failed(
            "it was not bound in time (--resource-timeout), and no event says why".to_owned(),
        ),
        _ => Provisioning::Wait,
    }
}

/// Whether a driver reports that it does not know the snapshot: gRPC's code.
fn is_gone(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("notfound") || message.contains("not found")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const GONE: &str = "failed to provision volume: rpc error: code = NotFound desc = cannot find snapshot s";

    #[rstest]
    #[case::bound("Bound", "WaitForFirstConsumer", false, None, 0, Provisioning::Bound)]
    #[case::young("Pending", "Immediate", false, None, 5, Provisioning::Wait)]
    #[case::nobody_wants_it("Pending", "WaitForFirstConsumer", false, None, 40, Provisioning::Unused)]
    #[case::a_pod_wants_it("Pending", "WaitForFirstConsumer", true, None, 40, Provisioning::Wait)]
    #[case::not_there_yet("Pending", "Immediate", true, Some(GONE), 40, Provisioning::Wait)]
    #[case::not_there("Pending", "Immediate", true, Some(GONE), 100, Provisioning::Failed(GONE.into()))]
    #[case::another_failure("Pending", "Immediate", true, Some("busy"), 100, Provisioning::Wait)]
    #[case::too_late("Pending", "Immediate", true, Some("busy"), 600, Provisioning::Failed("busy".into()))]
    #[case::silence("Pending", "Immediate", true, None, 600,
        Provisioning::Failed("it was not bound in time (--resource-timeout), and no event says why".into()))]
    fn a_claim_that_gets_no_volume_is_reported(
        #[case] phase: &str,
        #[case] mode: &str,
        #[case] chosen: bool,
        #[case] failure: Option<&str>,
        #[case] seconds: u64,
        #[case] expected: Provisioning,
    ) {
        let annotations = if chosen { json!({"volume.kubernetes.io/selected-node": "n"}) } else { json!({}) };
        let claim =
            json!({"metadata": {"name": "data", "annotations": annotations}, "status": {"phase": phase}});
        let class = json!({"volumeBindingMode": mode});
        let events: Vec<Value> = failure
            .map(|message| json!({"type": "Warning", "reason": "ProvisioningFailed", "message": message}))
            .into_iter()
            .collect();
        let (waited, limit) = (Duration::from_secs(seconds), Duration::from_mins(10));
        assert_eq!(provisioning(Some(&claim), Some(&class), &events, &[], waited, limit), expected);
    }

    #[rstest]
    #[case::it_may_come("Pending", 40, Provisioning::Wait)]
    #[case::it_never_ran("Pending", 600,
        Provisioning::Failed("pod web, which mounts it, was not scheduled in time (--resource-timeout): no node fits".into()))]
    #[case::it_is_over("Succeeded", 40, Provisioning::Unused)]
    fn a_claim_that_a_pod_mounts_is_waited_for(
        #[case] phase: &str,
        #[case] seconds: u64,
        #[case] expected: Provisioning,
    ) {
        let claim = json!({"metadata": {"name": "data"}, "status": {"phase": "Pending"}});
        let class = json!({"volumeBindingMode": "WaitForFirstConsumer"});
        let pod = json!({"metadata": {"name": "web"},
            "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
            "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node fits"}]}});
        let (waited, limit) = (Duration::from_secs(seconds), Duration::from_mins(10));
        assert_eq!(provisioning(Some(&claim), Some(&class), &[], &[pod], waited, limit), expected);
    }

    #[test]
    fn a_claim_that_is_gone_gets_none() {
        let found = provisioning(None, None, &[], &[], Duration::ZERO, Duration::from_mins(10));
        assert!(matches!(found, Provisioning::Failed(message) if message.contains("gone")));
    }
}
