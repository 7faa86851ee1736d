//! Faults of a mover while a volume is copied: each fault ends in a phase with its reason, leaves nothing behind, and
//! the next backup succeeds without intervention.

use std::fs;

use lifeboat_e2e::{Fault, OneVolume, get, kubectl, mover_process, signal, volume_directory, wait_for};
use serde_json::Value;

#[test]
fn a_mover_that_is_killed_is_tried_again_and_nothing_is_stored_twice() {
    let test = OneVolume::start(&[]);
    let pod = test.begin_and_hold("killed");
    signal("-KILL", &mover_process(&pod));
    test.server.storage.open();
    let (backup, copy) = test.ended("killed");
    test.server.assert_phase(&backup, &["Completed"]);
    assert_eq!(copy["status"]["phase"], "Completed", "{copy}");
    test.server.no_mover_is_left();
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_that_is_killed_again_and_again_fails_with_the_reason() {
    let test = OneVolume::start(&[]);
    let first = test.begin_and_hold("killed");
    signal("-KILL", &mover_process(&first));
    let second = wait_for("another mover", 60, || {
        let pods = get(&["-n", &test.server.movers(), "pods"]);
        let other = |pod: &&Value| {
            pod["metadata"]["uid"] != first["metadata"]["uid"] && pod["status"]["phase"] == "Running"
        };
        pods["items"].as_array().unwrap().iter().find(other).cloned().ok_or_else(|| pods.to_string())
    });
    signal("-KILL", &mover_process(&second));
    test.assert_failed("killed", &["137"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_that_is_evicted_is_tried_again() {
    let test = OneVolume::start(&[]);
    let pod = test.begin_and_hold("evicted");
    let (name, namespace) = (pod["metadata"]["name"].as_str().unwrap(), test.server.movers());
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let eviction = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{name}", "namespace": "{namespace}"}}}}"#
    );
    kubectl().args(["create", "--raw", &path, "-f", "-"]).input(&eviction).ok();
    test.server.storage.open();
    let (backup, _) = test.ended("evicted");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_without_enough_memory_says_so() {
    let test = OneVolume::start(&["--mover-memory-request", "8Mi", "--mover-memory-limit", "8Mi"]);
    test.begin("small");
    test.assert_failed("small", &["memory", "--mover-memory-limit"]);
}

#[test]
fn an_image_that_is_missing_is_named() {
    let test =
        OneVolume::start(&["--mover-image", "localhost/no-such-image:1", "--mover-prepare-timeout", "20s"]);
    test.begin("none");
    test.assert_failed("none", &["localhost/no-such-image:1", "--mover-image"]);
}

#[test]
fn a_mover_that_takes_too_long_is_ended() {
    let test = OneVolume::start(&["--fs-backup-timeout", "10s"]);
    test.begin_and_hold("slow");
    test.assert_failed("slow", &["--fs-backup-timeout"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn without_node_access_the_volume_names_the_flag_to_set() {
    let test = OneVolume::start(&["--node-access=false"]);
    test.begin("none");
    test.assert_failed("none", &["--node-access"]);
}

#[test]
fn storage_that_is_away_for_a_while_delays_the_mover_only() {
    let test = OneVolume::start(&[]);
    test.begin_and_hold("away");
    // Held requests are cut off; then every request is refused for a while, and finally all succeed.
    test.server.storage.open();
    for method in ["PUT", "GET", "HEAD", "POST", "DELETE"] {
        let body = "<Error><Code>ServiceUnavailable</Code></Error>".to_owned();
        test.server.storage.close(method, "restic", Fault::Answer(503, body), 6);
    }
    test.server.storage.wait_until_reached(60);
    let (backup, _) = test.ended("away");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn storage_that_stays_away_fails_the_copy_and_its_lock_goes_when_it_is_back() {
    let test = OneVolume::start(&["--fs-backup-timeout", "40s"]);
    test.begin_and_hold("away");
    for method in ["PUT", "GET", "HEAD", "POST", "DELETE"] {
        let body = "<Error><Code>ServiceUnavailable</Code></Error>".to_owned();
        test.server.storage.close(method, "restic", Fault::Answer(503, body), usize::MAX);
    }
    // The mover ends without releasing its lock; storage recovers after the server has given up for now.
    wait_for("a note of the dead owner", 240, || {
        let repositories = get(&["-n", &test.server.namespace, "backuprepositories"]);
        let notes = repositories["items"][0]["metadata"]["annotations"].to_string();
        if notes.contains("dead-owner.lifeboat.io/") { Ok(()) } else { Err(notes) }
    });
    test.server.storage.open();
    test.assert_failed("away", &["--fs-backup-timeout"]);
    wait_for("the end of the lock", 120, || {
        let locks = test.locks();
        if locks.is_empty() { Ok(()) } else { Err(locks) }
    });
}

#[test]
fn a_key_that_is_taken_away_while_a_mover_works_is_named() {
    let test = OneVolume::start(&[]);
    test.assert_key_that_is_taken_away_is_named();
}

#[test]
fn a_backup_that_is_deleted_while_a_volume_is_copied_leaves_nothing() {
    let test = OneVolume::start(&[]);
    test.begin_and_hold("deleted");
    test.assert_deletion_leaves_nothing("deleted");
    test.assert_next_run_succeeds("next");
}

const SECOND_POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {backup.velero.io/backup-volumes: cache}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{name: cache, mountPath: /cache}]
  volumes: [{name: cache, emptyDir: {}}]
";

#[test]
fn hundreds_of_volumes_are_not_hundreds_of_movers() {
    let test = OneVolume::start(&["--movers-at-once", "1"]);
    test.app.apply(SECOND_POD);
    test.app.kubectl().args(["wait", "pod/web", "--for=condition=Ready", "--timeout=120s"]).ok();
    fs::write(volume_directory(&get(&["-n", &test.app.name, "pod", "web"]), "cache").join("file"), "cached")
        .unwrap();
    test.begin_and_hold("one");
    let copies =
        || get(&["-n", &test.server.namespace, "podvolumebackups"])["items"].as_array().unwrap().clone();
    wait_for("the message about the queue", 60, || {
        let messages: Vec<_> = copies().iter().map(|copy| copy["status"]["message"].to_string()).collect();
        if messages.iter().any(|one| one.contains("--movers-at-once")) {
            Ok(())
        } else {
            Err(messages.join("; "))
        }
    });
    let jobs = get(&["-n", &test.server.movers(), "jobs"]);
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "{jobs}");
    test.server.storage.open();
    let backup = test.server.ended("backup", "one");
    test.server.assert_phase(&backup, &["Completed"]);
    assert_eq!(copies().len(), 2);
    test.server.no_mover_is_left();
}
