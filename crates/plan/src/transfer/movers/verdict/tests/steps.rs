//! Containers that run before or after the mover's work.

use super::*;

/// The status of an init container.
fn init(name: &str, state: Value) -> Value {
    json!({"name": name, "state": state})
}

fn initialising(statuses: Value) -> Value {
    let waiting = json!({"name": "mover", "state": {"waiting": {"reason": "PodInitializing"}}});
    let mut pod =
        pod(json!({"phase": "Pending", "initContainerStatuses": statuses, "containerStatuses": [waiting]}));
    pod["spec"]["initContainers"] = json!([{"name": "step-0-dump", "image": "registry/dump:9"}]);
    pod
}

#[test]
fn a_step_may_run_as_long_as_the_pod_may() {
    let pod = initialising(json!([init("step-0-dump", json!({"running": {}}))]));
    assert_eq!(prepares(of_pod(&aged(pod, 36_000))), "runs its container step-0-dump on node a");
    let pod = initialising(json!([init("istio-init", json!({"running": {}}))]));
    assert_eq!(dead(of_pod(&aged(pod, 36_000))).cause, DeathCause::Volume, "a webhook's container is none");
}

#[test]
fn the_image_of_a_step_that_is_missing_is_named() {
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
    let pod = initialising(json!([init("step-0-dump", waiting)]));
    assert_eq!(stuck(&pod), Some(Stuck::Pull));
    let message = prepares(of_pod(&pod));
    assert!(
        message.contains("registry/dump:9") && message.contains("the Function of this step"),
        "{message}"
    );
}

#[test]
fn the_image_of_tools_is_named_by_the_task() {
    let mut pod = waiting("ErrImagePull", "not found");
    pod["spec"]["initContainers"] = json!([{"name": "program"}]);
    let message = prepares(of_pod(&pod));
    assert!(message.contains("--tool-image"), "{message}");
}

#[test]
fn where_others_follow_the_mover_its_result_is_that_of_an_init_container() {
    let result = |code: i64| json!({"terminated": {"exitCode": code, "message": "result"}});
    let mut failed = initialising(json!([init("step-mover", result(1))]));
    failed["status"]["phase"] = json!("Failed");
    let mut done = terminated("Completed", 0, "");
    done["status"]["initContainerStatuses"] = json!([init("step-mover", result(0))]);
    for pod in [failed, done] {
        let Verdict::Ended { message, .. } = of_pod(&pod) else { panic!("{:?}", of_pod(&pod)) };
        assert_eq!(message, "result");
    }
    let step = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no table"}});
    let mut after = initialising(json!([init("step-mover", result(0)), init("step-0-load", step)]));
    after["status"]["phase"] = json!("Failed");
    let message = dead(of_pod(&after)).message;
    assert!(message.contains("step-0-load") && message.contains("no table"), "{message}");
}
