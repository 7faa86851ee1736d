//! Restores by Stash's API: into the volumes of a workload in place, by rules, into new claims, as a batch; and what happens when one
//! fails.

use std::fs;

use lifeboat_e2e::{
    Engine, Fault, RESTORE_BATCHES, RESTORE_SESSIONS, StashTest, condition, contents, get, volume_directory,
    wait_for,
};
use serde_json::Value;

use super::workloads::{
    deployment, into, put_deployment, put_empty_deployment, put_empty_replicas, put_stateful_set, target,
};

#[test]
fn a_deployment_comes_back_in_place_with_owners_and_modes() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("web", &deployment("app", "web"), "");
    test.run("BackupConfiguration", "web", "Succeeded");
    let directory = test.directory("web", 0, "data");
    fs::remove_dir_all(directory.join("own")).unwrap();
    fs::write(directory.join("which"), "damaged").unwrap();
    let pod = test.pods("web")[0]["metadata"]["uid"].clone();

    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_until_running("deployment/web");
    wait_for("the new pod alone", 60, || match test.pods("web").as_slice() {
        [one] if one["metadata"]["uid"] != pod => Ok(()),
        pods => Err(format!("{} pods", pods.len())),
    });
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    assert_eq!(back["status"]["standstill"]["step"], "Started");
    assert_eq!(test.replicas("deployments", "web"), 1);

    // What was there before is in a safety copy, which is no backup.
    let copies = back["status"]["stats"][0]["safetyCopies"].as_array().cloned().unwrap_or_default();
    assert_eq!(copies.len(), 1, "{:#}", back["status"]);
    let listed = test
        .repository("repo")
        .ok(Engine::Restic, &["snapshots", "--json", "--no-lock", "--tag", "lifeboat-safety"]);
    let found: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!((found.len(), &found[0]["id"]), (1, &copies[0]["name"]), "{listed}");
    let target = tempfile::tempdir().unwrap();
    let id = found[0]["id"].as_str().unwrap();
    let restored = ["restore", id, "--target", target.path().to_str().unwrap(), "--no-lock"];
    test.repository("repo").ok(Engine::Restic, &restored);
    let which = fs::read_to_string(target.path().join("source/data/which")).unwrap();
    assert_eq!(which, "damaged", "the copy has what was overwritten");
    test.assert_nothing_is_left("repo");
}

/// The sample of the batch document, from two pods instead of three.
#[test]
fn a_larger_stateful_set_comes_back_by_rules() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_stateful_set(&test, "db");
    test.put_configuration("db", &target("app", "apps/v1", "StatefulSet", "db"), "");
    test.run("BackupConfiguration", "db", "Succeeded");
    test.kubectl().args(["scale", "statefulset/db", "--replicas=4"]).ok();
    test.wait_until_running("statefulset/db");
    fs::write(test.directory("db", 0, "data").join("which"), "damaged").unwrap();
    let rules = "    - {targetHosts: [app-2, app-3], sourceHost: app-1, paths: [/source/data]}\n    - {targetHosts: [], sourceHost: '', paths: [/source/data]}";
    let spec = format!(
        "  target:\n    alias: app\n    ref: {{apiVersion: apps/v1, kind: StatefulSet, name: db}}\n    volumeMounts: [{{name: data, mountPath: /source/data}}]\n    rules:\n{rules}"
    );
    test.restore("back", &spec, "");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["totalHosts"], 4);
    test.wait_for_ready("db", 4);
    for (number, source) in [0, 1, 1, 1].into_iter().enumerate() {
        let found = contents(&test.directory("db", number, "data"));
        before[source].assert_same(&found, &format!("host app-{number}"));
    }
    test.assert_nothing_is_left("repo");
}

#[test]
fn data_comes_back_into_new_claims() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_stateful_set(&test, "db");
    test.put_configuration("db", &target("app", "apps/v1", "StatefulSet", "db"), "");
    test.run("BackupConfiguration", "db", "Succeeded");
    let spec = "  target:
    alias: app
    replicas: 2
    volumeMounts: [{name: restored, mountPath: /source/data}]
    volumeClaimTemplates:
    - metadata: {name: 'restored-${POD_ORDINAL}'}
      spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}";
    test.restore("back", spec, "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    for (number, expected) in before.iter().enumerate() {
        let pod = format!("reader-{number}");
        test.tenant.apply(&format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {pod}, labels: {{app: reader}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{{name: data, mountPath: /d}}]}}
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: restored-{number}}}}}]
"
        ));
        test.kubectl().args(["wait", "--for=condition=Ready", "pod", &pod, "--timeout=90s"]).ok();
        let reader = get(&["-n", &test.tenant.name, "pods", &pod]);
        expected.assert_same(&contents(&volume_directory(&reader, "data")), &pod);
    }
}

#[test]
fn what_is_not_there_is_named_and_nothing_is_stopped() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    test.put_configuration("web", &deployment("app", "web"), "");
    test.run("BackupConfiguration", "web", "Succeeded");
    let pod = test.pods("web")[0]["metadata"]["uid"].clone();
    let mounts = "volumeMounts: [{name: data, mountPath: /source/data}]";
    let of = |alias: &str, rules: &str| {
        let reference = "ref: {apiVersion: apps/v1, kind: Deployment, name: web}";
        format!("  target: {{alias: {alias}, {reference}, {mounts}, rules: [{rules}]}}")
    };
    let cases = [
        ("no-host", of("other", ""), "no complete snapshot of source host other"),
        ("no-mount", of("app", "{paths: [/var/www]}"), "below no mount"),
        ("no-snapshot", of("app", "{snapshots: [abcdef]}"), "no snapshot \"abcdef\""),
        ("no-rule", of("app", "{targetHosts: [db]}"), "no rule applies to a host"),
    ];
    for (name, spec, expected) in &cases {
        test.restore(name, spec, "");
        let found = test.restored(RESTORE_SESSIONS, name);
        assert_eq!(found["status"]["phase"], "Failed", "{:#}", found["status"]);
        let (_, message) = condition(&found, "RestoreExecutorEnsured");
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.contains("host app: /source/data (snapshot"), "{name} lists what exists: {message}");
    }
    assert_eq!(test.pods("web")[0]["metadata"]["uid"], pod, "nothing was stopped");
}

#[test]
fn a_restore_waits_for_its_target_and_then_runs() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("web", &deployment("app", "web"), "");
    test.run("BackupConfiguration", "web", "Succeeded");
    let spec = format!("  target: {}", into("app", "Deployment", "copy"));
    test.restore("later", &spec, "lifeboat.io/safety-copy: 'false'");
    wait_for("what the restore waits for", 60, || {
        let found = get(&["-n", &test.tenant.name, RESTORE_SESSIONS, "later"]);
        let (status, message) = condition(&found, "RestoreTargetFound");
        let waits = status == "False" && message.contains(&format!("Deployment {}/copy", test.tenant.name));
        if waits && found["status"]["phase"] == "Pending" { Ok(()) } else { Err(found["status"].to_string()) }
    });
    put_empty_deployment(&test, "copy");
    test.restored_as(RESTORE_SESSIONS, "later", "Succeeded");
    test.wait_until_running("deployment/copy");
    let copied = contents(&test.directory("copy", 0, "data"));
    for name in ["which", "bytes"] {
        let path = std::path::Path::new(name);
        assert_eq!(
            copied.0.get(path).map(|one| &one.content),
            before.0.get(path).map(|one| &one.content),
            "{name}"
        );
    }
}

#[test]
fn a_batch_brings_two_workloads_back() {
    let test = StashTest::start();
    test.put_repository("repo");
    let (web, api) = (put_deployment(&test, "web"), put_deployment(&test, "api"));
    let member = |target: String| format!("{{target: {target}}}");
    test.put_batch("both", &[member(deployment("web", "web")), member(deployment("api", "api"))], "");
    test.run("BackupBatch", "both", "Succeeded");
    for name in ["web", "api"] {
        fs::remove_file(test.directory(name, 0, "data").join("bytes")).unwrap();
    }
    let deprecated =
        format!("{{target: {}, rules: [{{paths: [/source/data]}}]}}", into("api", "Deployment", "api"));
    test.restore_batch("back", &[member(into("web", "Deployment", "web")), deprecated], "");
    let back = test.restored_as(RESTORE_BATCHES, "back", "Succeeded");
    assert_eq!(condition(&back["status"]["members"][1], "RulesMoved").0, "True");
    for (name, before) in [("web", web), ("api", api)] {
        test.wait_for_ready(name, 1);
        before.assert_same(&contents(&test.directory(name, 0, "data")), name);
    }
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_failed_restore_keeps_the_workload_down_and_another_one_brings_it_back() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("web", &deployment("app", "web"), "");
    test.run("BackupConfiguration", "web", "Succeeded");
    // A directory with files is where the snapshot has a file: it cannot be restored, because what the snapshot lacks stays.
    let directory = test.directory("web", 0, "data");
    fs::remove_file(directory.join("which")).unwrap();
    fs::create_dir(directory.join("which")).unwrap();
    fs::write(directory.join("which/own"), "of the application").unwrap();
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    test.restore("back", &spec, "");
    let found = test.restored(RESTORE_SESSIONS, "back");
    assert_eq!(found["status"]["phase"], "Failed", "{:#}", found["status"]);
    assert_eq!(found["status"]["standstill"]["step"], "HeldDown", "{:#}", found["status"]);
    assert_eq!(test.replicas("deployments", "web"), 0);
    let (status, message) = condition(&found, "WorkloadStarted");
    assert_eq!(status, "False");
    for part in ["which", "rollback restoresession/back", "resume-workload restoresession/back"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    // A backup must not store half-restored data.
    let skipped = test.ended(&test.begin("BackupConfiguration", "web"));
    assert_eq!(skipped["status"]["phase"], "Skipped", "{:#}", skipped["status"]);

    test.tenant.apply(
        "apiVersion: v1
kind: Pod
metadata: {name: repair}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [rm, -r, /d/which], volumeMounts: [{name: data, mountPath: /d}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: web}}]
",
    );
    test.kubectl()
        .args(["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/repair", "--timeout=90s"])
        .ok();
    test.delete(&[RESTORE_SESSIONS, "back"]);
    test.restore("again", &spec, "");
    let again = test.restored_as(RESTORE_SESSIONS, "again", "Succeeded");
    assert!(again["status"]["stats"][0]["safetyCopies"].is_null(), "half-restored data is not copied");
    test.wait_for_ready("web", 1);
    assert_eq!(test.replicas("deployments", "web"), 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.run("BackupConfiguration", "web", "Succeeded");
}

/// After the claims were lost, the StatefulSet is at zero replicas: `replicas` of the target says how many hosts there are.
#[test]
fn missing_claims_of_a_stateful_set_are_made_from_its_templates() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_stateful_set(&test, "db");
    test.put_configuration("db", &target("app", "apps/v1", "StatefulSet", "db"), "");
    test.run("BackupConfiguration", "db", "Succeeded");
    test.delete(&["statefulset", "db"]);
    wait_for("the end of the pods", 60, || if test.pods("db").is_empty() { Ok(()) } else { Err("they run") });
    test.delete(&["persistentvolumeclaims", "data-db-0", "data-db-1"]);
    put_empty_replicas(&test, "db", "data", 0);
    let asked = into("app", "StatefulSet", "db").replacen('{', "{replicas: 2, ", 1);
    test.restore("back", &format!("  target: {asked}"), "");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["totalHosts"], 2, "{:#}", back["status"]);
    assert_eq!(test.replicas("statefulsets", "db"), 0, "it was at zero, and stays there");
    test.kubectl().args(["scale", "statefulset/db", "--replicas=2"]).ok();
    test.wait_for_ready("db", 2);
    for (number, expected) in before.iter().enumerate() {
        expected.assert_same(&contents(&test.directory("db", number, "data")), &format!("host app-{number}"));
    }
    test.run("BackupConfiguration", "db", "Succeeded");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_restore_waits_for_a_running_backup_and_a_backup_during_a_restore_is_skipped() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("web", &deployment("app", "web"), "");
    test.run("BackupConfiguration", "web", "Succeeded");
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    // A file that the second backup has to store.
    let news = test.directory("web", 0, "data").join("news");
    fs::write(&news, "of today").unwrap();
    test.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let backup = test.begin("BackupConfiguration", "web");
    test.storage.wait_until_reached(90);
    test.restore("first", &spec, "");
    wait_for("the restore to wait", 60, || {
        let found = test.restore_now(RESTORE_SESSIONS, "first");
        let (status, message) = condition(&found, "TargetInUse");
        let waits = status == "True" && message.contains(&backup) && found["status"]["standstill"].is_null();
        if waits { Ok(()) } else { Err(found["status"].to_string()) }
    });
    assert_eq!(test.replicas("deployments", "web"), 1, "nothing is stopped meanwhile");
    test.storage.open();
    assert_eq!(test.ended(&backup)["status"]["phase"], "Succeeded");
    test.restored_as(RESTORE_SESSIONS, "first", "Succeeded");
    test.wait_for_ready("web", 1);
    // The mover of the next restore waits for what it reads.
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    test.storage.close("GET", "/data/", Fault::Hold, 1000);
    test.restore("second", &spec, "");
    test.storage.wait_until_reached(120);
    let skipped = test.ended(&test.begin("BackupConfiguration", "web"));
    let said = skipped["status"].to_string();
    assert_eq!(skipped["status"]["phase"], "Skipped", "{said}");
    assert!(said.contains("/second is restoring"), "{said}");
    test.storage.open();
    test.restored_as(RESTORE_SESSIONS, "second", "Succeeded");
    test.wait_for_ready("web", 1);
    let found = contents(&test.directory("web", 0, "data"));
    let of = |listing: &lifeboat_e2e::tree::Listing| {
        listing.0.get(std::path::Path::new("which")).map(|one| one.content.clone())
    };
    assert!(of(&found) == of(&before), "which is restored");
    test.run("BackupConfiguration", "web", "Succeeded");
    test.assert_nothing_is_left("repo");
}
