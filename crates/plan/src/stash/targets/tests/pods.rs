use rstest::rstest;

use super::*;
use crate::stash::targets::pods::{by_node, standing};

fn changed(name: &str, minute: u32, change: impl Fn(&mut Value)) -> Value {
    let mut pod = pod(name, "n", minute, json!([]));
    change(&mut pod);
    pod
}

fn not_ready(pod: &mut Value) {
    pod["status"]["conditions"][0]["status"] = json!("False");
}

#[rstest]
#[case::oldest(vec![changed("b", 2, |_| ()), changed("a", 3, |_| ())], Ok("b"))]
#[case::then_by_name(vec![changed("b", 2, |_| ()), changed("a", 2, |_| ())], Ok("a"))]
#[case::ready(vec![changed("a", 1, not_ready), changed("b", 2, |_| ())], Ok("b"))]
#[case::not_terminating(vec![changed("a", 1, |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")), changed("b", 2, |_| ())], Ok("b"))]
#[case::not_ended(vec![changed("a", 1, |pod| pod["status"]["phase"] = json!("Failed")), changed("b", 2, |_| ())], Ok("b"))]
#[case::none_is_ready(vec![changed("a", 1, not_ready)], Err("Deployment web has no Ready pod to read from: pod a is not Ready: Running"))]
#[case::there_is_none(vec![], Err("it has no pods"))]
#[case::most_are_left_out(vec![changed("a", 1, not_ready), changed("b", 1, not_ready), changed("c", 1, not_ready), changed("d", 1, not_ready)], Err("pod c is not Ready: Running, and 1 more"))]
fn one_pod_stands_for_a_deployment(#[case] pods: Vec<Value>, #[case] expected: Result<&str, &str>) {
    let pods: Vec<&Value> = pods.iter().collect();
    match (standing("Deployment web", &pods), expected) {
        (Ok(pod), Ok(expected)) => assert_eq!(pod["metadata"]["name"], expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, _) => panic!("{found:?}"),
    }
}

#[rstest]
#[case::ready(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), None)]
#[case::unscheduled(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node fits"}]}), Some("has no node: no node fits"))]
#[case::image(json!({"phase": "Pending", "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}), Some("container app waits: ImagePullBackOff"))]
#[case::init_container(json!({"phase": "Pending", "initContainerStatuses": [{"name": "init", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}), Some("container init waits: CrashLoopBackOff"))]
#[case::probe(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "message": "containers with unready status: [app]"}]}), Some("is not Ready: containers with unready status: [app]"))]
#[case::evicted(json!({"phase": "Failed", "reason": "Evicted"}), Some("has ended (Evicted)"))]
#[case::done(json!({"phase": "Succeeded"}), Some("has ended (Succeeded)"))]
#[case::new(json!({}), Some("is not Ready: it has no status yet"))]
fn the_reason_is_said_why_a_pod_is_not_ready(#[case] status: Value, #[case] expected: Option<&str>) {
    let pod = json!({"metadata": {"name": "web-1"}, "status": status});
    assert_eq!(why_not_ready(&pod).as_deref(), expected);
}

#[test]
fn a_deployments_pods_are_those_of_its_replica_sets() {
    let owned = |name: &str, owner: &str, controller: bool| {
        json!({"metadata": {"name": name, "uid": name,
            "ownerReferences": [{"uid": owner, "controller": controller}]}})
    };
    let between = [owned("rs-new", "uid-web", true), owned("rs-other", "uid-other", true)];
    let pods = [
        owned("of-new", "rs-new", true),
        owned("of-other", "rs-other", true),
        owned("direct", "uid-web", true),
        owned("not-controlled", "uid-web", false),
        json!({"metadata": {"name": "orphan", "uid": "orphan"}}),
    ];
    let found = pods_of(&workload(1, json!([])), &between, &pods);
    let names: Vec<&str> = found.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["of-new", "direct"]);
}

#[test]
fn pods_that_ended_are_not_active() {
    let mut ended = pod("web-1", "n", 0, json!([]));
    ended["status"]["phase"] = json!("Failed");
    let pods = vec![ended, pod("web-2", "n", 0, json!([]))];
    let mut facts = facts(TargetKind::Deployment, workload(1, json!([])), pods, &[]);
    assert_eq!(active_pods(&facts).into_iter().collect::<Vec<_>>(), ["uid-web-2"]);
    facts.object = None;
    assert!(active_pods(&facts).is_empty());
}

#[test]
fn a_daemon_sets_pod_without_a_node_is_counted_where_it_has_to_run() {
    let mut waiting = pod("w", "", 0, json!([]));
    waiting["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}]}}});
    let mut ended = pod("e", "node-3", 0, json!([]));
    ended["status"]["phase"] = json!("Failed");
    let running = pod("r", "node-1", 0, json!([]));
    let found: Vec<String> = by_node(&[&waiting, &ended, &running]).into_keys().collect();
    assert_eq!(found, ["node-1", "node-2"]);
}
