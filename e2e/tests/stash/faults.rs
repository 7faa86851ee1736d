//! What is missing is named and waited for; whatever is interrupted comes to an end, and the next session succeeds.

use lifeboat_e2e::{Fault, StashTest, condition, mover_process, signal, wait_for};
use rstest::rstest;
use serde_json::Value;

use super::workloads::{dead_movers, deployment, fill, put_deployment, put_empty_deployment};

const CONFIGURATION: &str = "BackupConfiguration";

#[test]
fn what_is_missing_is_named_and_the_invoker_becomes_ready_by_itself() {
    let test = StashTest::start();
    test.put_configuration("nightly", &deployment("app", "web"), "");
    let missing = |kind: &str, text: &str| {
        wait_for(&format!("{kind} False"), 90, || {
            let found = test.invoker(CONFIGURATION, "nightly");
            let (status, message) = condition(&found, kind);
            let is_it = status == "False" && message.contains(text) && found["status"]["phase"] == "NotReady";
            if is_it { Ok(()) } else { Err(found["status"].to_string()) }
        });
    };
    missing("RepositoryFound", "/repo");
    test.delete(&["secret", "keys"]);
    test.put_repository("repo");
    missing("BackendSecretFound", "/keys");
    test.put_secret("keys", "correct horse");
    missing("BackupTargetFound", "/web");
    let before = put_deployment(&test, "web");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_stored("repo", "app", "/source/data", &before);
    // A volume that the pod does not have.
    let other = deployment("app", "web").replace("name: data", "name: other");
    test.put_configuration("wrong", &other, "");
    test.delete(&["backupconfiguration", "nightly"]);
    let session = test.run(CONFIGURATION, "wrong", "Failed");
    let said = session["status"]["targets"][0].to_string();
    assert!(said.contains("other") && said.contains("does not have"), "{session}");
    test.assert_nothing_is_left("repo");
}

/// A session whose mover waits for storage during its work; gives its name and the mover's pod.
fn held(test: &StashTest) -> (String, Value) {
    test.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    test.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let session = test.begin(CONFIGURATION, "nightly");
    test.storage.wait_until_reached(90);
    let mut movers = test.wait_for_movers(1);
    (session, movers.remove(0))
}

/// A Deployment `web` with a BackupConfiguration `nightly`, on the shared server.
fn shop(more: &str) -> StashTest {
    put_shop(StashTest::start(), more)
}

fn put_shop(test: StashTest, more: &str) -> StashTest {
    put_deployment(&test, "web");
    test.put_repository("repo");
    test.put_configuration("nightly", &deployment("app", "web"), more);
    test
}

#[test]
fn a_mover_that_is_killed_is_followed_by_another() {
    let test = shop("");
    let (session, pod) = held(&test);
    signal("-KILL", &mover_process(&pod));
    test.storage.open();
    let session = test.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{session}");
    assert_eq!(dead_movers(&session), 1, "{session}");
    assert_eq!(test.snapshots("repo").len(), 1);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_server_that_is_killed_is_followed_by_another_which_ends_the_session() {
    let mut test = put_shop(StashTest::alone(&[]), "");
    let (session, _) = held(&test);
    test.kill_server();
    let session = test.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{session}");
    assert_eq!(test.snapshots("repo").len(), 1);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_session_that_is_deleted_or_out_of_time_ends_its_mover() {
    let test = shop("");
    let (session, _) = held(&test);
    test.delete(&["backupsession", &session]);
    wait_for("the end of the mover", 120, || {
        let jobs = test
            .kubectl()
            .args(["get", "jobs,pods", "-l", "app.kubernetes.io/name=lifeboat-mover", "-o", "name"])
            .ok();
        if jobs.trim().is_empty() { Ok(()) } else { Err(jobs) }
    });
    test.storage.open();
    test.assert_nothing_is_left("repo");
    // A deadline.
    let limit = r#"{"spec": {"timeOut": "20s"}}"#;
    test.patch("backupconfiguration", "nightly", limit);
    let (session, _) = held(&test);
    let session = test.ended(&session);
    assert_eq!(session["status"]["phase"], "Failed", "{session}");
    assert_eq!(condition(&session, "DeadlineExceeded").0, "True", "{session}");
    test.storage.open();
    test.assert_nothing_is_left("repo");
    let none = r#"{"spec": {"timeOut": null}}"#;
    test.patch("backupconfiguration", "nightly", none);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_second_invoker_waits_for_the_first_on_one_target() {
    let test = shop("");
    test.put_configuration("other", &deployment("other", "web"), "");
    test.wait_for_phase(CONFIGURATION, "other", "Ready");
    let (first, _) = held(&test);
    let second = test.begin(CONFIGURATION, "other");
    wait_for("the second session to wait", 60, || {
        let found = test.session(&second);
        let (status, message) = condition(&found["status"]["targets"][0], "TargetInUse");
        let waits = found["status"]["phase"] == "Pending" && status == "True" && message.contains(&first);
        if waits { Ok(()) } else { Err(found["status"].to_string()) }
    });
    // Another one of the first invoker is skipped.
    let third = test.ended(&test.begin(CONFIGURATION, "nightly"));
    assert_eq!(third["status"]["phase"], "Skipped", "{third}");
    test.storage.open();
    for session in [&first, &second] {
        assert_eq!(test.ended(session)["status"]["phase"], "Succeeded");
    }
    assert_eq!(test.snapshots("repo"), ["app /source/data", "other /source/data"]);
    test.assert_nothing_is_left("repo");
}

/// A Deployment whose only pod does not become Ready.
const BROKEN: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: web}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        readinessProbe: {exec: {command: [test, -e, /tmp/never]}}
        volumeMounts: [{name: data, mountPath: /source/data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: web}}]
";

#[rstest]
#[case::is_not_ready("TEST_IMAGE", &["is not Ready"])]
#[case::has_no_image("localhost/no-such-image:1", &["container main waits", "ImagePull"])]
fn a_workload_without_a_ready_pod_fails_with_the_reason_where_it(
    #[case] image: &str,
    #[case] reasons: &[&str],
) {
    let test = StashTest::start();
    test.put_repository("repo");
    test.tenant.apply(&BROKEN.replace("IMAGE", image));
    let pod = wait_for("the pod", 90, || {
        let pods = test.pods("web");
        let state = pods.first().map(|pod| pod["status"]["containerStatuses"][0]["state"].clone());
        let state = state.unwrap_or_default();
        let reason = state["waiting"]["reason"].as_str().unwrap_or_default();
        // Both reasons of a missing image, ErrImagePull and ImagePullBackOff, have this word.
        let is_there = state["running"].is_object() || reason.contains("ImagePull");
        if is_there { Ok(pods[0].clone()) } else { Err(state.to_string()) }
    });
    let name = pod["metadata"]["name"].as_str().unwrap();
    test.put_configuration("nightly", &deployment("app", "web"), "");
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    let said = session["status"]["targets"][0].to_string();
    assert!(said.contains("has no Ready pod") && said.contains(name), "{said}");
    assert!(reasons.iter().all(|reason| said.contains(reason)), "{reasons:?}: {said}");
    test.assert_nothing_is_left("repo");
    // Once a pod is Ready, the next session reads it.
    put_empty_deployment(&test, "web");
    test.wait_until_running("deployment/web");
    test.wait_for_ready("web", 1);
    let before = fill(&test.directory("web", 0, "data"), "web");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_stored("repo", "app", "/source/data", &before);
    test.assert_nothing_is_left("repo");
}
