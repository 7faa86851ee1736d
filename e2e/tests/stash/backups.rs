//! Each kind of target is backed up, and nothing of it changes.

use lifeboat_e2e::{Engine, StashTest, condition, contents, get, wait_for};
use serde_json::Value;

use super::workloads::{deployment, put_daemon_set, put_deployment, put_stateful_set, target};

const CONFIGURATION: &str = "BackupConfiguration";

fn hosts(session: &Value) -> Vec<String> {
    let stats = session["status"]["targets"][0]["stats"].as_array().cloned().unwrap_or_default();
    stats.iter().map(|host| host["hostname"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_deployment_is_backed_up_by_hand_and_on_schedule_and_old_snapshots_go() {
    let test = StashTest::start();
    let before = put_deployment(&test, "web");
    test.put_repository("repo");
    test.put_configuration("nightly", &deployment("demo-app", "web"), "");
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    let host = &session["status"]["targets"][0]["stats"][0];
    assert_eq!(host["pod"], test.pods("web")[0]["metadata"]["name"], "{host}");
    assert_eq!(host["consistency"], "Live");
    assert_eq!(test.snapshots("repo"), ["demo-app /source/data"]);
    test.assert_stored("repo", "demo-app", "/source/data", &before);
    // The status of the Repository follows.
    let repository = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", "repo"]);
    assert_eq!(repository["status"]["snapshotCount"], 1, "{}", repository["status"]);
    assert!(repository["status"]["totalSize"].is_string(), "{}", repository["status"]);
    wait_for("the mirror of the reservation", 30, || {
        let found = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", "repo"]);
        let users = found["status"]["references"].clone();
        if users[0]["name"] == "nightly" { Ok(()) } else { Err(users.to_string()) }
    });
    // Two more by hand: the policy keeps two of the three.
    for _ in 0..2 {
        let session = test.run(CONFIGURATION, "nightly", "Succeeded");
        assert_eq!(condition(&session, "RetentionPolicyApplied").0, "True");
    }
    assert_eq!(test.snapshots("repo").len(), 2);
    // The schedule makes one by itself.
    let by_hand = test.sessions().len();
    let every_minute = r#"{"spec": {"schedule": "* * * * *"}}"#;
    test.patch("backupconfiguration", "nightly", every_minute);
    let scheduled = wait_for("a session of the schedule", 100, || {
        let sessions = test.sessions();
        let due = |one: &&Value| one["metadata"]["annotations"]["lifeboat.io/due-time"].is_string();
        let made = sessions.iter().find(due).map(|one| one["metadata"]["name"].as_str().unwrap().to_owned());
        made.ok_or_else(|| format!("{} sessions, {by_hand} before", sessions.len()))
    });
    let pause = r#"{"spec": {"paused": true}}"#;
    test.patch("backupconfiguration", "nightly", pause);
    assert!(scheduled.starts_with("nightly-"), "{scheduled}");
    assert_eq!(test.ended(&scheduled)["status"]["phase"], "Succeeded");
    // A session by hand runs while it is paused.
    test.run(CONFIGURATION, "nightly", "Succeeded");
    before.assert_same(&contents(&test.directory("web", 0, "data")), "owners and modes are as before");
    test.repository("repo").ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_stateful_set_is_backed_up_ordinal_by_ordinal() {
    let test = StashTest::start();
    let before = put_stateful_set(&test, "db");
    test.put_repository("repo");
    test.put_configuration("nightly", &target("sts", "apps/v1", "StatefulSet", "db"), "");
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(hosts(&session), ["sts-0", "sts-1"]);
    assert_eq!(session["status"]["targets"][0]["totalHosts"], 2);
    for (number, listing) in before.iter().enumerate() {
        test.assert_stored("repo", &format!("sts-{number}"), "/source/data", listing);
    }
    // Without an alias the hosts are upstream's.
    test.put_configuration("nightly", &target("", "apps/v1", "StatefulSet", "db"), "");
    test.wait_until_observed(CONFIGURATION, "nightly");
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(hosts(&session), ["host-0", "host-1"]);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_daemon_set_is_backed_up_on_every_node() {
    let test = StashTest::start();
    let before = put_daemon_set(&test, "agent");
    assert_eq!(before.len(), 2, "the box has two nodes");
    test.put_repository("repo");
    test.put_configuration("nightly", &target("ds", "apps/v1", "DaemonSet", "agent"), "");
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    let mut expected: Vec<String> = before.iter().map(|(node, _)| format!("ds-{node}")).collect();
    expected.sort();
    assert_eq!(hosts(&session), expected);
    for (node, listing) in &before {
        test.assert_stored("repo", &format!("ds-{node}"), "/source/data", listing);
    }
    test.assert_nothing_is_left("repo");
}

#[test]
fn claims_are_backed_up_with_and_without_pods() {
    let test = StashTest::start();
    let before = put_deployment(&test, "web");
    test.put_repository("repo");
    let claim = "{alias: files, ref: {apiVersion: v1, kind: PersistentVolumeClaim, name: web}}";
    test.put_configuration("claim", claim, "");
    let session = test.run(CONFIGURATION, "claim", "Succeeded");
    assert_eq!(hosts(&session), ["files"]);
    test.assert_stored("repo", "files", "/stash-data", &before);
    // The same claim when no pod uses it, as a target and as the volume of a Deployment at zero replicas.
    test.kubectl().args(["scale", "deployment", "web", "--replicas=0"]).ok();
    wait_for("the end of the pod", 60, || if test.pods("web").is_empty() { Ok(()) } else { Err("it runs") });
    test.run(CONFIGURATION, "claim", "Succeeded");
    test.put_configuration("workload", &deployment("app", "web"), "");
    let session = test.run(CONFIGURATION, "workload", "Succeeded");
    assert!(session["status"]["targets"][0]["stats"][0]["pod"].is_null(), "{session}");
    test.assert_stored("repo", "files", "/stash-data", &before);
    test.assert_stored("repo", "app", "/source/data", &before);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_volume_is_read_from_a_csi_snapshot() {
    let test = StashTest::start();
    let mut before = put_deployment(&test, "web");
    test.put_repository("repo");
    let with_class = deployment("app", "web").replacen('{', "{snapshotClassName: box-csi, ", 1);
    test.put_configuration("nightly", &with_class, "");
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(session["status"]["targets"][0]["stats"][0]["consistency"], "Snapshot", "{session}");
    // Snapshots of the box's driver are tar files, which lose attributes and fractions of seconds.
    for entry in before.0.values_mut() {
        entry.attributes.clear();
        entry.modified.1 = 0;
    }
    test.assert_stored("repo", "app", "/source/data", &before);
    test.assert_nothing_is_left("repo");
}
