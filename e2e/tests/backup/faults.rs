//! Errors are reported, in the right phase, and nothing is lost.

use lifeboat_e2e::{Namespace, assert_restores, get, kubectl, lifeboat, wait_for};

use super::{assert_phase, backup, backup_and_compare, ended, installed, unique};

#[test]
fn a_backup_of_a_namespace_that_does_not_exist_says_so() {
    installed();
    let made = backup(&unique("nowhere"), &["--include-namespaces", "no-such-namespace"]);
    assert_phase(&made, "PartiallyFailed");
}

/// A Restore created without our command line, which would refuse it.
fn restore_object(name: &str, from: &str) -> serde_json::Value {
    lifeboat_e2e::apply(&format!(
        "apiVersion: velero.io/v1\nkind: Restore\nmetadata: {{name: {name}, namespace: lifeboat}}\nspec: {{backupName: {from}}}\n"
    ));
    ended("restore", name)
}

#[test]
fn a_restore_of_an_unknown_backup_is_refused_with_its_name() {
    installed();
    let refused = restore_object(&unique("unknown"), "nothing-of-that-name");
    assert_phase(&refused, "FailedValidation");
    assert!(
        refused["status"]["validationErrors"].to_string().contains("nothing-of-that-name"),
        "{}",
        refused["status"]
    );
}

#[test]
fn a_hook_that_fails_leaves_the_pod_out_and_says_so() {
    installed();
    let namespace = Namespace::new("hookfails");
    namespace.apply(
        "
apiVersion: v1
kind: Pod
metadata:
  name: stubborn
  annotations:
    pre.hook.backup.velero.io/command: '[\"false\"]'
    pre.hook.backup.velero.io/on-error: Fail
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
",
    );
    namespace.kubectl().args(["wait", "--for=condition=Ready", "pod/stubborn", "--timeout=90s"]).ok();
    let name = unique("hookfails");
    let made = backup(&name, &["--include-namespaces", &namespace.name]);
    assert_phase(&made, "PartiallyFailed");
    assert_eq!(made["status"]["hookStatus"]["hooksFailed"], 1, "{}", made["status"]);
    let described = lifeboat().args(["backup", "describe", &name, "--details"]).ok();
    assert!(described.contains("stubborn"), "{described}");
}

#[test]
fn the_server_is_killed_in_the_middle_of_a_hook_and_the_post_hook_still_runs() {
    let installation = installed();
    let namespace = Namespace::new("killed");
    namespace.apply(
        "
apiVersion: v1
kind: Pod
metadata:
  name: frozen
  annotations:
    pre.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo pre >> /tmp/log; test -e /tmp/go || sleep 300\"]'
    pre.hook.backup.velero.io/timeout: 5m
    post.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo post >> /tmp/log\"]'
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
",
    );
    namespace.kubectl().args(["wait", "--for=condition=Ready", "pod/frozen", "--timeout=90s"]).ok();
    let log = || namespace.kubectl().args(["exec", "frozen", "--", "cat", "/tmp/log"]).run().stdout;
    let name = unique("killed");
    lifeboat().args(["backup", "create", &name, "--include-namespaces", &namespace.name]).ok();
    wait_for("the pre hook", 60, || if log().contains("pre") { Ok(()) } else { Err(log()) });
    namespace.kubectl().args(["exec", "frozen", "--", "touch", "/tmp/go"]).ok();
    let leader = installation.leader();
    kubectl().args(["-n", "lifeboat", "delete", "pod", &leader, "--grace-period=0", "--force"]).ok();
    let made = ended("backup", &name);
    let seen = log();
    assert!(seen.trim_end().ends_with("post"), "the last hook is no post hook: {seen:?}");
    match made["status"]["phase"].as_str() {
        Some("PartiallyFailed") => {}
        _ => assert_restores(&lifeboat, "lifeboat", &made, &[&namespace.name]),
    }
    let journals = get(&["-n", "lifeboat", "configmaps", "-l", "lifeboat.io/journal"]);
    assert_eq!(journals["items"].as_array().map_or(0, Vec::len), 0, "journals stay behind");
}

#[test]
fn a_cancelled_backup_ends_failed_with_the_reason() {
    installed();
    let namespace = Namespace::new("cancelled");
    namespace.apply(
        "
apiVersion: v1
kind: Pod
metadata:
  name: slow
  annotations:
    pre.hook.backup.velero.io/command: '[\"sleep\", \"20\"]'
    pre.hook.backup.velero.io/timeout: 3m
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
",
    );
    namespace.kubectl().args(["wait", "--for=condition=Ready", "pod/slow", "--timeout=90s"]).ok();
    let name = unique("cancelled");
    lifeboat().args(["backup", "create", &name, "--include-namespaces", &namespace.name]).ok();
    wait_for("the backup at work", 60, || {
        let phase = get(&["-n", "lifeboat", "backups.velero.io", &name])["status"]["phase"].clone();
        if phase == "InProgress" { Ok(()) } else { Err(phase.to_string()) }
    });
    lifeboat().args(["backup", "cancel", &name]).ok();
    let made = ended("backup", &name);
    assert_phase(&made, "Failed");
    assert!(made["status"]["failureReason"].as_str().unwrap().contains("cancel"), "{}", made["status"]);
}

#[test]
fn a_deleted_backup_is_gone_from_the_bucket_and_cannot_be_restored() {
    installed();
    let namespace = Namespace::new("deleted");
    namespace.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\n");
    let name = unique("deleted");
    backup_and_compare(&name, &[&namespace.name], &[]);
    lifeboat().args(["backup", "delete", &name, "--confirm"]).ok();
    wait_for("the end of the backup", 60, || {
        let found = get(&["-n", "lifeboat", "backups.velero.io", &name]);
        if found.is_null() { Ok(()) } else { Err(found["status"].to_string()) }
    });
    assert_phase(&restore_object(&unique("after"), &name), "FailedValidation");
}
