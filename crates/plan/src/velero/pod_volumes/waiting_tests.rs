//! Restored pods that wait for their data.

use rstest::rstest;
use serde_json::json;

use super::*;

fn wait() -> Wait {
    Wait {
        image: "example.com/lifeboat:1".into(),
        restore: "r-1".into(),
        volumes: vec!["data".into(), "tmp".into()],
    }
}

#[test]
fn a_mark_is_taken_away_again_with_containers_of_earlier_restores() {
    let before = json!({"metadata": {"name": "p"}, "spec": {"initContainers": [{"name": "own"}]}});
    let mut pod = before.clone();
    pod["spec"]["initContainers"] =
        json!([{"name": "restore-wait"}, {"name": "restic-wait"}, {"name": "own"}]);
    mark(&mut pod, Some(&wait()));
    assert_eq!(take_mark(&mut pod), Some(wait()));
    assert_eq!(pod, before);
    assert_eq!(take_mark(&mut pod), None);
    pod["metadata"]["annotations"] = json!({"a": "b"});
    mark(&mut pod, None);
    assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
}

#[test]
fn the_container_waits_for_this_restore_in_every_volume() {
    let container = wait_container(&json!({"spec": {}}), &wait(), &BTreeMap::new());
    assert_eq!(container["args"], json!(["restore-wait", "r-1"]));
    assert_eq!(container["volumeMounts"][1], json!({"name": "tmp", "mountPath": "/restores/tmp"}));
    assert_eq!(container["image"], "example.com/lifeboat:1");
    let config: BTreeMap<String, String> =
        [("image", "mirror.local/lifeboat:1"), ("cpuLimit", "1"), ("memRequest", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
    let container = wait_container(&json!({"spec": {}}), &wait(), &config);
    assert_eq!(container["image"], "mirror.local/lifeboat:1");
    assert_eq!(container["resources"]["limits"]["cpu"], "1");
    assert_eq!(container["resources"]["requests"]["memory"], "128Mi");
}

#[rstest]
#[case::nobody_says(json!({}), json!(0), true)]
#[case::of_the_pod(json!({"securityContext": {"runAsUser": 999}}), json!(null), false)]
#[case::of_the_container(json!({"containers": [{"securityContext": {"runAsUser": 70}}]}), json!(70), false)]
#[case::not_root(json!({"securityContext": {"runAsNonRoot": true}}), json!(null), false)]
#[case::a_context_without_a_user(json!({"containers": [{"securityContext": {"readOnlyRootFilesystem": true}}]}),
    json!(0), true)]
fn it_can_see_the_file_regardless_of_the_directorys_owner(
    #[case] spec: Value,
    #[case] user: Value,
    #[case] looks_everywhere: bool,
) {
    let container = wait_container(&json!({"spec": spec}), &wait(), &BTreeMap::new());
    let context = &container["securityContext"];
    assert_eq!(context["runAsUser"], user);
    assert_eq!(context["capabilities"]["add"] == json!(["DAC_OVERRIDE"]), looks_everywhere, "{context}");
}

fn restored(status: &Value, node: &str) -> Value {
    json!({"metadata": {}, "spec": {"nodeName": node, "initContainers": [{"name": "restore-wait"}]}, "status": status})
}

#[rstest]
#[case::runs(json!({"initContainerStatuses": [{"name": "restore-wait", "state": {"running": {}}}]}), "a", "on a")]
#[case::unscheduled(json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "0/2 nodes"}]}), "", "not yet: the pod is not scheduled: Unschedulable 0/2 nodes")]
#[case::image(json!({"initContainerStatuses": [{"name": "restore-wait", "state": {"waiting": {
    "reason": "ImagePullBackOff"}}}]}), "a", "not yet: its init container restore-wait waits: ImagePullBackOff")]
#[case::soon(json!({}), "a", "not yet: its init container restore-wait does not run yet on node a")]
#[case::ended(json!({"phase": "Failed"}), "a", "never: the pod ended (phase Failed) before its data was there")]
#[case::before(json!({"initContainerStatuses": [{"name": "restore-wait", "state": {"terminated": {"exitCode": 0}}}]}),
    "a", "over")]
fn a_pod_says_whether_it_waits(#[case] status: Value, #[case] node: &str, #[case] expected: &str) {
    let state = match started(&restored(&status, node)) {
        WaitState::Waits(node) => format!("on {node}"),
        WaitState::NotYet(message) => format!("not yet: {message}"),
        WaitState::Over => "over".to_owned(),
        WaitState::Never(message) => format!("never: {message}"),
    };
    assert_eq!(state, expected);
}

#[test]
fn a_pod_without_the_container_is_never_written_to() {
    let pod = json!({"spec": {"initContainers": [{"name": "own"}]}});
    assert!(matches!(started(&pod), WaitState::Never(_)));
}

#[rstest]
#[case::there(json!({"metadata": {"uid": "u"}}), true)]
#[case::another(json!({"metadata": {"uid": "v"}}), false)]
#[case::runs(json!({"metadata": {"uid": "u"}, "status": {"phase": "Running"}}), true)]
#[case::ended(json!({"metadata": {"uid": "u"}, "status": {"phase": "Succeeded"}}), false)]
#[case::went_before(json!({"metadata": {"uid": "u", "deletionTimestamp": "1970-01-01T00:01:00Z",
    "deletionGracePeriodSeconds": 30}}), false)]
#[case::went_after(json!({"metadata": {"uid": "u", "deletionTimestamp": "1970-01-01T00:03:00Z",
    "deletionGracePeriodSeconds": 30}}), true)]
fn a_copy_counts_only_while_its_pod_stays(#[case] pod: Value, #[case] expected: bool) {
    let end = Timestamp::from_second(100).unwrap();
    assert_eq!(stayed(Some(&pod), "u", end).is_ok(), expected);
    assert!(stayed(None, "u", end).is_err());
}
