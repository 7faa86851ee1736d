//! On which node the volume of a restored claim is wanted. Some classes make volumes where the first pod goes that uses them;
//! the claim's own pod says where that is, as soon as the scheduler has chosen. Only a pod that is there or can still come is
//! waited for.

use serde_json::Value;

use super::text;

/// What the scheduler writes into a claim whose volume is made for a pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Where a volume is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Anywhere,
    On(String),
    /// On the node of this pod, which has none yet.
    WithPod(String),
    /// Pods that mount the claim can still come.
    Perhaps,
}

/// Reads it. `class`: the claim's; `pods`: those of its namespace; `may_come`: whether others can still be made.
pub fn wanted(claim: &Value, class: Option<&Value>, pods: &[Value], may_come: bool) -> Wanted {
    if let Some(node) = claim["metadata"]["annotations"][SELECTED_NODE].as_str() {
        return Wanted::On(node.to_owned());
    }
    if !class.is_some_and(waits_for_pods) {
        return Wanted::Anywhere;
    }
    let name = text(claim, "/metadata/name");
    if let Some(pod) = pods.iter().find(|pod| uses(pod, name)) {
        let node = text(pod, "/spec/nodeName");
        let waits = || Wanted::WithPod(text(pod, "/metadata/name").to_owned());
        return if node.is_empty() { waits() } else { Wanted::On(node.to_owned()) };
    }
    if may_come { Wanted::Perhaps } else { Wanted::Anywhere }
}

/// Whether a class makes volumes only for pods.
pub fn waits_for_pods(class: &Value) -> bool {
    class["volumeBindingMode"] == "WaitForFirstConsumer"
}

fn uses(pod: &Value, claim: &str) -> bool {
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
    #[case::its_pod_has_no_node_yet(Some(pod("data", "", "Pending")), false, Wanted::WithPod("db-0".into()))]
    #[case::its_pod_has_a_node(Some(pod("data", "a", "Pending")), true, Wanted::On("a".into()))]
    #[case::a_pod_of_another_claim(Some(pod("other", "a", "Pending")), false, Wanted::Anywhere)]
    #[case::a_pod_that_ended(Some(pod("data", "a", "Succeeded")), false, Wanted::Anywhere)]
    #[case::pods_can_come(None, true, Wanted::Perhaps)]
    #[case::everything_is_made(None, false, Wanted::Anywhere)]
    fn only_a_pod_that_is_there_or_can_come_is_waited_for(
        #[case] pod: Option<Value>,
        #[case] may_come: bool,
        #[case] expected: Wanted,
    ) {
        let claim = json!({"metadata": {"name": "data"}});
        let class = json!({"volumeBindingMode": "WaitForFirstConsumer"});
        let pods: Vec<Value> = pod.into_iter().collect();
        assert_eq!(wanted(&claim, Some(&class), &pods, may_come), expected);
    }

    #[test]
    fn classes_that_make_volumes_at_once_wait_for_nobody() {
        let mut claim = json!({"metadata": {"name": "data"}});
        let class = json!({"volumeBindingMode": "Immediate"});
        let pods = [pod("data", "", "Pending")];
        assert_eq!(wanted(&claim, Some(&class), &pods, true), Wanted::Anywhere);
        assert_eq!(wanted(&claim, None, &pods, true), Wanted::Anywhere);
        claim["metadata"]["annotations"] = json!({SELECTED_NODE: "b"});
        assert_eq!(wanted(&claim, None, &[], false), Wanted::On("b".into()), "the scheduler has chosen");
    }
}
