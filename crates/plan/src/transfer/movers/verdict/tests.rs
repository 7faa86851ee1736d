#![allow(clippy::needless_pass_by_value)] // states are written where they are used

use rstest::rstest;
use serde_json::json;

use super::*;

mod steps;

const PATIENCE: Patience = Patience { prepare: Duration::from_mins(30), node: Duration::from_mins(5) };

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A timestamp this many seconds ago.
fn ago(seconds: i64) -> String {
    Timestamp::from_second(now().as_second() - seconds).unwrap().to_string()
}

fn job() -> Value {
    json!({"metadata": {"name": "mover-x", "creationTimestamp": ago(10)}})
}

/// A pod that was created 20 seconds ago on node a, with this status.
fn pod(status: Value) -> Value {
    json!({
        "metadata": {"name": "mover-x-1", "uid": "p", "creationTimestamp": ago(20)},
        "spec": {"nodeName": "a", "containers": [{"name": "mover", "image": "registry/lifeboat:1",
            "resources": {"limits": {"memory": "1Gi"}}}]},
        "status": status,
    })
}

fn with_state(state: Value) -> Value {
    pod(json!({"phase": "Pending", "containerStatuses": [{"name": "mover", "state": state}]}))
}

fn terminated(reason: &str, code: i64, message: &str) -> Value {
    with_state(json!({"terminated": {"reason": reason, "exitCode": code, "message": message}}))
}

fn waiting(reason: &str, message: &str) -> Value {
    with_state(json!({"waiting": {"reason": reason, "message": message}}))
}

fn running() -> Value {
    with_state(json!({"running": {}}))
}

/// Sets the creation time to this many seconds ago.
fn aged(mut object: Value, seconds: i64) -> Value {
    object["metadata"]["creationTimestamp"] = json!(ago(seconds));
    object
}

fn seen<'a>(job: Option<&'a Value>, pod: Option<&'a Value>) -> MoverFacts<'a> {
    MoverFacts { job, pod, had_pod: false, node: NodeSeen::Unknown, warning: None, stuck_since: None }
}

fn judge(seen: &MoverFacts<'_>) -> Verdict {
    verdict(seen, &PATIENCE, now())
}

fn of_pod(pod: &Value) -> Verdict {
    judge(&seen(Some(&job()), Some(pod)))
}

#[track_caller]
fn dead(verdict: Verdict) -> Dead {
    match verdict {
        Verdict::Dead(dead) => dead,
        Verdict::Ended { message, death } if message.is_empty() || death.cause == DeathCause::Image => death,
        other => panic!("it is not dead: {other:?}"),
    }
}

#[track_caller]
fn prepares(verdict: Verdict) -> String {
    match verdict {
        Verdict::Preparing(message) => message,
        other => panic!("it does not prepare: {other:?}"),
    }
}

#[test]
fn a_container_that_runs_runs() {
    assert_eq!(of_pod(&running()), Verdict::Running { node: "a".into() });
}

#[test]
fn what_a_container_left_is_given_whatever_its_exit_code_was() {
    let Verdict::Ended { message, death } = of_pod(&terminated("Error", 1, "{}")) else { panic!() };
    assert_eq!((message.as_str(), death.reported), ("{}", true));
}

#[rstest]
#[case::killed("Error", 137, DeathCause::Killed, "signal KILL", true)]
#[case::told_to_end("Error", 143, DeathCause::Killed, "signal TERM", true)]
#[case::crashed("Error", 139, DeathCause::Killed, "signal SEGV", true)]
#[case::ended_without_a_word("Completed", 0, DeathCause::Killed, "exit code 0", true)]
#[case::out_of_memory("OOMKilled", 137, DeathCause::OutOfMemory, "limit of 1Gi", false)]
// The kubelet reports this too if only a child was killed and the container exited by itself (observed on the box).
#[case::a_child_out_of_memory("OOMKilled", 3, DeathCause::OutOfMemory, "exit code 3", false)]
fn a_container_that_left_nothing(
    #[case] reason: &str,
    #[case] code: i64,
    #[case] cause: DeathCause,
    #[case] expected: &str,
    #[case] may_retry: bool,
) {
    let death = dead(of_pod(&terminated(reason, code, "")));
    assert_eq!((death.cause, death.may_retry, death.reported), (cause, may_retry, true));
    assert!(death.message.contains(expected), "{}", death.message);
}

#[test]
fn a_program_that_cannot_be_started_is_a_matter_of_the_image() {
    let death = dead(of_pod(&terminated("StartError", 128, "exec: \"mover\": not found")));
    assert_eq!((death.cause, death.may_retry), (DeathCause::Image, false));
    assert!(
        death.message.contains("not found") && death.message.contains("registry/lifeboat:1"),
        "{}",
        death.message
    );
}

#[test]
fn a_limit_too_low_to_start_with_is_a_matter_of_memory() {
    let message = "runc create failed: container init was OOM-killed (memory limit too low?)";
    for pod in [terminated("StartError", 128, message), aged(waiting("RunContainerError", message), 31 * 60)]
    {
        let (Verdict::Dead(death) | Verdict::Ended { death, .. }) = of_pod(&pod) else { panic!() };
        assert_eq!(death.cause, DeathCause::OutOfMemory, "{}", death.message);
    }
}

#[test]
fn a_container_that_the_kubelet_lost_sight_of_is_not_reported() {
    assert!(!dead(of_pod(&terminated("ContainerStatusUnknown", 137, ""))).reported);
}

#[rstest]
#[case::evicted(json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}), DeathCause::Evicted, "low on memory")]
#[case::deadline(json!({"phase": "Failed", "reason": "DeadlineExceeded"}), DeathCause::Deadline, "within its time")]
#[case::preempted(
    json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}),
    DeathCause::Evicted, "PreemptionByScheduler")]
#[case::refused_by_its_node(json!({"phase": "Failed", "reason": "OutOfcpu"}), DeathCause::Unschedulable, "OutOfcpu")]
#[case::without_a_reason(json!({"phase": "Failed"}), DeathCause::Unschedulable, "no reason")]
fn a_pod_that_ended_without_its_container(
    #[case] status: Value,
    #[case] cause: DeathCause,
    #[case] expected: &str,
) {
    let death = dead(of_pod(&pod(status)));
    assert_eq!((death.cause, death.reported), (cause, false));
    assert_eq!(death.may_retry, cause != DeathCause::Deadline);
    assert!(death.message.contains(expected), "{}", death.message);
}

#[rstest]
#[case::evicted(json!({"reason": "Evicted"}), DeathCause::Evicted)]
#[case::deadline(json!({"reason": "DeadlineExceeded"}), DeathCause::Deadline)]
#[case::drained(
    json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}), DeathCause::Evicted)]
fn the_pods_reason_takes_precedence_over_its_containers(#[case] status: Value, #[case] cause: DeathCause) {
    let mut pod = terminated("Error", 143, "");
    for (key, value) in status.as_object().unwrap() {
        pod["status"][key] = value.clone();
    }
    let death = dead(of_pod(&pod));
    assert_eq!((death.cause, death.reported), (cause, true));
}

#[test]
fn out_of_memory_takes_precedence_over_the_eviction_that_followed() {
    let mut pod = terminated("OOMKilled", 137, "");
    pod["status"]["reason"] = json!("Evicted");
    assert_eq!(dead(of_pod(&pod)).cause, DeathCause::OutOfMemory);
}

#[rstest]
#[case::pull("ImagePullBackOff", 60, 180, DeathCause::Image)]
#[case::first_pull("ErrImagePull", 60, 180, DeathCause::Image)]
#[case::never_pulled("ErrImageNeverPull", 5, 20, DeathCause::Image)]
#[case::no_image_name("InvalidImageName", 5, 20, DeathCause::Image)]
#[case::container("CreateContainerConfigError", 60, 180, DeathCause::Refused)]
fn a_container_that_cannot_start_is_borne_for_a_while(
    #[case] reason: &str,
    #[case] borne: i64,
    #[case] over: i64,
    #[case] cause: DeathCause,
) {
    let (job, pod) = (job(), waiting(reason, "back-off pulling \"x\""));
    assert!(stuck(&pod).is_some());
    let since = |seconds| Some(ago(seconds).parse().unwrap());
    let message = prepares(judge(&MoverFacts { stuck_since: since(borne), ..seen(Some(&job), Some(&pod)) }));
    assert!(message.contains(reason) && message.contains("back-off"), "{message}");
    let death = dead(judge(&MoverFacts { stuck_since: since(over), ..seen(Some(&job), Some(&pod)) }));
    assert_eq!((death.cause, death.may_retry), (cause, false));
    // Without a start time of the problem, the limit for preparing applies.
    let old = aged(pod, 31 * 60);
    assert_eq!(dead(judge(&seen(Some(&job), Some(&old)))).cause, cause);
}

#[test]
fn an_image_whose_first_pull_took_long_to_fail_is_given_up_after_two_minutes_in_all() {
    let (job, pod) = (job(), aged(waiting("ErrImagePull", "i/o timeout"), 130));
    let since = |seconds| Some(ago(seconds).parse().unwrap());
    prepares(judge(&MoverFacts { stuck_since: since(20), ..seen(Some(&job), Some(&pod)) }));
    let death = dead(judge(&MoverFacts { stuck_since: since(40), ..seen(Some(&job), Some(&pod)) }));
    assert_eq!(death.cause, DeathCause::Image);
}

#[test]
fn a_pod_without_a_node_shows_the_schedulers_message() {
    let mut pod = pod(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/2 nodes are available: 2 Insufficient memory."}]}));
    pod["spec"]["nodeName"] = Value::Null;
    assert_eq!(prepares(of_pod(&pod)), "waits for a node: 0/2 nodes are available: 2 Insufficient memory.");
    let death = dead(of_pod(&aged(pod, 31 * 60)));
    assert_eq!(death.cause, DeathCause::Unschedulable);
    assert!(
        death.message.contains("Insufficient memory") && death.message.contains("1860 s"),
        "{}",
        death.message
    );
}

#[test]
fn a_volume_that_cannot_be_mounted_ends_the_wait_some_time() {
    let (job, pod) = (job(), waiting("ContainerCreating", ""));
    let warning = Warning { reason: "FailedMount".into(), message: "driver not found".into() };
    let with = |pod: &Value| judge(&MoverFacts { warning: Some(&warning), ..seen(Some(&job), Some(pod)) });
    assert_eq!(prepares(with(&pod)), "starts on node a: FailedMount: driver not found");
    let death = dead(with(&aged(pod, 31 * 60)));
    assert_eq!(death.cause, DeathCause::Volume);
    assert!(death.message.contains("driver not found"), "{}", death.message);
}

#[test]
fn a_directory_that_has_gone_is_not_waited_for() {
    let (job, pod) = (job(), waiting("ContainerCreating", ""));
    let message = "MountVolume.SetUp failed: hostPath type check failed: /x is not a directory".to_owned();
    let warning = Warning { reason: "FailedMount".into(), message };
    let death = dead(judge(&MoverFacts { warning: Some(&warning), ..seen(Some(&job), Some(&pod)) }));
    assert_eq!((death.cause, death.may_retry), (DeathCause::Volume, false));
    assert!(death.message.contains("has gone"), "{}", death.message);
}

fn node(status: &str, since: i64) -> Value {
    json!({"metadata": {"name": "a"}, "status": {"conditions": [
        {"type": "Ready", "status": status, "reason": "NodeStatusUnknown", "lastTransitionTime": ago(since)}]}})
}

#[rstest]
#[case::running(running())]
#[case::starting(waiting("ContainerCreating", ""))]
fn a_node_without_a_word_is_borne_for_a_while(#[case] pod: Value) {
    let job = job();
    let on = |node: NodeSeen<'_>| judge(&MoverFacts { node, ..seen(Some(&job), Some(&pod)) });
    assert_eq!(on(NodeSeen::There(&node("True", 9999))), of_pod(&pod));
    assert_eq!(on(NodeSeen::There(&node("Unknown", 200))), of_pod(&pod));
    let (silent, unready) = (node("Unknown", 400), node("False", 400));
    for lost in [NodeSeen::There(&silent), NodeSeen::There(&unready), NodeSeen::Gone] {
        let death = dead(on(lost));
        assert_eq!((death.cause, death.reported, death.may_retry), (DeathCause::NodeLost, false, true));
    }
}

#[test]
fn a_container_that_ended_on_a_lost_node_has_ended() {
    let (job, pod) = (job(), terminated("Completed", 0, "{}"));
    let verdict = judge(&MoverFacts { node: NodeSeen::Gone, ..seen(Some(&job), Some(&pod)) });
    assert!(matches!(verdict, Verdict::Ended { .. }), "{verdict:?}");
}

#[test]
fn a_pod_that_is_being_deleted_runs_until_it_ends_but_not_for_ever() {
    let mut pod = running();
    pod["metadata"]["deletionTimestamp"] = json!(ago(60));
    assert_eq!(of_pod(&pod), Verdict::Running { node: "a".into() });
    pod["metadata"]["deletionTimestamp"] = json!(ago(400));
    let death = dead(of_pod(&pod));
    assert_eq!((death.cause, death.reported), (DeathCause::Deleted, false));
    let mut pod = terminated("Error", 143, "");
    pod["metadata"]["deletionTimestamp"] = json!(ago(1));
    let death = dead(of_pod(&pod));
    assert_eq!((death.cause, death.reported, death.may_retry), (DeathCause::Deleted, true, true));
}

#[test]
fn what_is_gone_was_deleted() {
    let mut failed = job();
    failed["status"] =
        json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]});
    let job = job();
    for gone in
        [seen(None, None), seen(Some(&failed), None), MoverFacts { had_pod: true, ..seen(Some(&job), None) }]
    {
        let death = dead(judge(&gone));
        assert_eq!((death.cause, death.reported, death.may_retry), (DeathCause::Deleted, false, true));
    }
}

#[test]
fn a_job_without_a_pod_shows_the_message_of_its_event() {
    let quota = Warning { reason: "FailedCreate".into(), message: "exceeded quota".into() };
    let (new, old) = (job(), aged(job(), 31 * 60));
    let with = |job| judge(&MoverFacts { warning: Some(&quota), ..seen(Some(job), None) });
    assert_eq!(prepares(with(&new)), "waits for its pod: FailedCreate: exceeded quota");
    let death = dead(with(&old));
    assert_eq!(death.cause, DeathCause::Refused);
    assert!(death.message.contains("exceeded quota"), "{}", death.message);
}

#[rstest]
#[case::pod_security(
    "pods \"mover-x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true",
    true
)]
#[case::limit_range(
    "pods \"mover-x\" is forbidden: maximum memory usage per Container is 512Mi, but limit is 1Gi",
    true
)]
#[case::policy("admission webhook \"validate.kyverno.svc\" denied the request: no such image", true)]
#[case::quota("pods \"mover-x\" is forbidden: exceeded quota: team, requested: pods=1", false)]
#[case::trouble("Internal error occurred: failed calling webhook \"mesh\": connection refused", false)]
fn a_pod_that_is_never_admitted_is_not_waited_for_as_long_as_a_quota(
    #[case] message: &str,
    #[case] is_over: bool,
) {
    let event = Warning { reason: "FailedCreate".into(), message: message.into() };
    let with = |job: &Value| judge(&MoverFacts { warning: Some(&event), ..seen(Some(job), None) });
    assert!(prepares(with(&aged(job(), 60))).contains(message), "a controller may be about to change it");
    let later = with(&aged(job(), 180));
    if is_over {
        let death = dead(later);
        assert_eq!((death.cause, death.may_retry), (DeathCause::Refused, false));
        assert!(death.message.contains(message), "{}", death.message);
    } else {
        prepares(later);
    }
}

/// A pod into which a webhook put a sidecar, before the mover's container.
fn with_sidecar(mut pod: Value, sidecar: Value) -> Value {
    let of_sidecar =
        json!({"name": "proxy", "image": "mesh/proxy:1", "resources": {"limits": {"memory": "64Mi"}}});
    pod["spec"]["containers"].as_array_mut().unwrap().insert(0, of_sidecar);
    let statuses = pod["status"]["containerStatuses"].as_array_mut().unwrap();
    statuses.insert(0, json!({"name": "proxy", "state": sidecar}));
    pod
}

#[rstest]
#[case::goes_on(json!({"running": {}}))]
#[case::failed(json!({"terminated": {"reason": "Error", "exitCode": 1, "message": "proxy"}}))]
#[case::has_no_image(json!({"waiting": {"reason": "ImagePullBackOff"}}))]
fn only_the_movers_own_container_counts(#[case] sidecar: Value) {
    let of = |pod: Value| of_pod(&with_sidecar(pod, sidecar.clone()));
    assert_eq!(of(running()), Verdict::Running { node: "a".into() });
    let Verdict::Ended { message, .. } = of(terminated("Completed", 0, "{}")) else { panic!() };
    assert_eq!(message, "{}");
    assert!(prepares(of(waiting("ErrImagePull", ""))).contains("registry/lifeboat:1"));
    assert!(dead(of(terminated("OOMKilled", 137, ""))).message.contains("limit of 1Gi"));
}

#[test]
fn an_init_container_that_keeps_the_mover_from_starting_is_named() {
    let mut pod = waiting("PodInitializing", "");
    pod["spec"]["initContainers"] =
        json!([{"name": "sidecar", "restartPolicy": "Always"}, {"name": "program"}]);
    pod["status"]["initContainerStatuses"] = json!([
        {"name": "sidecar", "started": true, "state": {"running": {}}},
        {"name": "program", "started": false, "state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}},
        {"name": "later", "state": {"waiting": {"reason": "PodInitializing"}}},
    ]);
    let expected = "starts on node a, waits for the init container program (ErrImagePull: no such tag)";
    assert_eq!(prepares(of_pod(&pod)), expected);
    // Its image is waited for like that of the mover.
    assert_eq!(stuck(&pod), Some(Stuck::Pull));
    let since = |seconds| Some(ago(seconds).parse().unwrap());
    let at = |seconds| judge(&MoverFacts { stuck_since: since(seconds), ..seen(Some(&job()), Some(&pod)) });
    assert_eq!(prepares(at(60)), expected);
    let death = dead(at(180));
    assert_eq!((death.cause, death.may_retry), (DeathCause::Image, false));
    pod["status"]["phase"] = json!("Failed");
    pod["status"]["initContainerStatuses"][1]["state"] =
        json!({"terminated": {"reason": "Error", "exitCode": 3, "message": "no space"}});
    let death = dead(of_pod(&pod));
    assert_eq!((death.cause, death.may_retry), (DeathCause::Refused, false));
    assert!(
        death.message.contains("init container program of its pod failed (exit code 3): Error: no space"),
        "{death:?}"
    );
}
