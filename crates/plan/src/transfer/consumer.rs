//! The node on which the volume of a restored claim is needed. Storage classes with `WaitForFirstConsumer` create a
//! volume where its first pod is scheduled; that pod shows the node as soon as the scheduler has chosen one. Waits
//! only for a pod that exists or that the restore may still create.

use serde_json::Value;

use super::text;

/// Annotation that the scheduler sets on a claim whose volume is created for a pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The node on which a volume is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerNode {
    Anywhere,
    On(String),
    /// On the node of this pod, which is not scheduled yet.
    WithPod(String),
    /// Pods that mount the claim can still come.
    Perhaps,
}

/// Reads it. `class`: the claim's; `pods`: those of its namespace; `may_come`: whether others can still be made.
pub fn consumer_node(claim: &Value, class: Option<&Value>, pods: &[Value], may_come: bool) -> ConsumerNode {
    if let Some(node) = claim["metadata"]["annotations"][SELECTED_NODE].as_str() {
        return ConsumerNode::On(node.to_owned());
    }
    if !class.is_some_and(waits_for_pods) {
        return ConsumerNode::Anywhere;
    }
    let name = text(claim, "/metadata/name");
    if let Some(pod) = pods.iter().find(|pod| uses(pod, name)) {
        let node = text(pod, "/spec/nodeName");
        let waits = || ConsumerNode::WithPod(text(pod, "/metadata/name").to_owned());
        return if node.is_empty() { waits() } else { ConsumerNode::On(node.to_owned()) };
    }
    if may_come { ConsumerNode::Perhaps } else { ConsumerNode::Anywhere }
}

/// Whether a storage class creates volumes only for scheduled pods.
pub fn waits_for_pods(class: &Value) -> bool {
    class["volumeBindingMode"] == "WaitForFirstConsumer"
}

/// Whether a pod that has not ended mounts a claim.
pub(crate) fn uses(pod: &Value, claim: &str) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    let going = pod["metadata"]["deletionTimestamp"].is_string();
    !ended && !going && volumes.into_iter().any(|one| text(one, "/persistentVolumeClaim/claimName") == claim)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(claim: &str, node: &str, phase: &str) -> Value {
        json!({"metadata": {"name": "db-0"}, "status": {"phase": phase},
            "spec": {"nodeName": node, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
    }

    #[rstest]
    #[case::its_pod_has_no_node_yet(Some(pod("data", "", "Pending")), false, ConsumerNode::WithPod("db-0".into()))]
    #[case::its_pod_has_a_node(Some(pod("data", "a", "Pending")), true, ConsumerNode::On("a".into()))]
    #[case::a_pod_of_another_claim(Some(pod("other", "a", "Pending")), false, ConsumerNode::Anywhere)]
    #[case::a_pod_that_ended(Some(pod("data", "a", "Succeeded")), false, ConsumerNode::Anywhere)]
    #[case::pods_can_come(None, true, ConsumerNode::Perhaps)]
    #[case::everything_is_made(None, false, ConsumerNode::Anywhere)]
    fn only_a_pod_that_is_there_or_can_come_is_waited_for(
        #[case] pod: Option<Value>,
        #[case] may_come: bool,
        #[case] expected: ConsumerNode,
    ) {
        let claim = json!({"metadata": {"name": "data"}});
        let class = json!({"volumeBindingMode": "WaitForFirstConsumer"});
        let pods: Vec<Value> = pod.into_iter().collect();
        assert_eq!(consumer_node(&claim, Some(&class), &pods, may_come), expected);
    }

    #[test]
    fn classes_that_create_volumes_immediately_wait_for_no_pod() {
        let mut claim = json!({"metadata": {"name": "data"}});
        let class = json!({"volumeBindingMode": "Immediate"});
        let pods = [pod("data", "", "Pending")];
        assert_eq!(consumer_node(&claim, Some(&class), &pods, true), ConsumerNode::Anywhere);
        assert_eq!(consumer_node(&claim, None, &pods, true), ConsumerNode::Anywhere);
        claim["metadata"]["annotations"] = json!({SELECTED_NODE: "b"});
        assert_eq!(
            consumer_node(&claim, None, &[], false),
            ConsumerNode::On("b".into()),
            "the scheduler has chosen"
        );
    }
}
