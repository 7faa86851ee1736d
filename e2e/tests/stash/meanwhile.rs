//! What happens to a workload, a mover, a namespace or the storage while a session is at work: it comes to an end in bounded time with the
//! cause, leaves nothing behind, and the next session succeeds by itself.

use std::fs;

use lifeboat_e2e::{
    Engine, Fault, RESTORE_SESSIONS, StashTest, condition, contents, get, mover_process, signal, wait_for,
};
use rstest::rstest;
use serde_json::Value;

use super::workloads::{dead_movers, deployment, evict, into, put_deployment, put_empty_deployment};

const CONFIGURATION: &str = "BackupConfiguration";

/// A Deployment `web` with BackupConfiguration `nightly`.
fn put_shop(test: &StashTest) {
    put_deployment(test, "web");
    test.put_repository("repo");
    test.put_configuration("nightly", &deployment("app", "web"), "");
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

fn error_of(session: &Value) -> String {
    session["status"]["targets"][0]["stats"][0]["error"].as_str().unwrap_or_default().to_owned()
}

/// The mover has the claim's volume; what becomes of the pods does not matter to it.
#[rstest]
#[case::is_scaled_to_zero(&["scale", "deployment", "web", "--replicas=0"])]
#[case::is_scaled_up(&["scale", "deployment", "web", "--replicas=2"])]
#[case::is_rolled_out(&["rollout", "restart", "deployment", "web"])]
#[case::is_deleted(&["delete", "deployment", "web", "--timeout=60s"])]
fn a_backup_goes_on_while_its_workload(#[case] change: &[&str]) {
    let test = StashTest::start();
    put_shop(&test);
    let before = contents(&test.directory("web", 0, "data"));
    let (session, _) = held(&test);
    test.kubectl().args(change).ok();
    if change[0] != "delete" {
        test.wait_until_running("deployment/web");
    }
    test.storage.open();
    let session = test.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{:#}", session["status"]);
    test.assert_stored("repo", "app", "/source/data", &before);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_mover_that_is_killed_again_fails_the_session_and_the_next_one_succeeds() {
    let test = StashTest::start();
    put_shop(&test);
    let (session, first) = held(&test);
    signal("-KILL", &mover_process(&first));
    let second = wait_for("another mover", 60, || {
        let other = |pod: &Value| pod["metadata"]["uid"] != first["metadata"]["uid"];
        let movers = test.movers();
        let found = movers.iter().find(|pod| other(pod) && pod["status"]["phase"] == "Running");
        found.cloned().ok_or_else(|| format!("{} movers", movers.len()))
    });
    signal("-KILL", &mover_process(&second));
    let ended = test.ended(&session);
    assert_eq!(ended["status"]["phase"], "Failed", "{:#}", ended["status"]);
    assert!(error_of(&ended).contains("137"), "{}", error_of(&ended));
    test.storage.open();
    test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(test.backups("repo").len(), 1);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_mover_that_is_evicted_is_followed_by_another() {
    let test = StashTest::start();
    put_shop(&test);
    let (session, pod) = held(&test);
    evict(&test, &pod);
    test.storage.open();
    let session = test.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{:#}", session["status"]);
    assert_eq!(dead_movers(&session), 1, "{session}");
    assert_eq!(test.backups("repo").len(), 1);
    test.assert_nothing_is_left("repo");
}

/// A quota that leaves no room for a mover, and a level of Pod Security that came after the pod.
#[test]
fn a_mover_that_the_namespace_refuses_fails_the_session_with_the_reason() {
    let test = StashTest::alone(&["--mover-prepare-timeout", "20s"]);
    put_shop(&test);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.tenant
        .apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: full}, spec: {hard: {pods: '1'}}}");
    wait_for("the quota", 30, || {
        let quota = get(&["-n", &test.tenant.name, "resourcequotas", "full"]);
        if quota["status"]["used"]["pods"] == "1" { Ok(()) } else { Err(quota["status"].to_string()) }
    });
    let refused = test.run(CONFIGURATION, "nightly", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("exceeded quota") && said.contains("full"), "{said}");
    test.delete(&["resourcequota", "full"]);
    let level = r#"{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}"#;
    test.patch("namespace", &test.tenant.name, level);
    let refused = test.run(CONFIGURATION, "nightly", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("runAsUser") && said.contains(&test.tenant.name), "{said}");
    let none = r#"{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": null}}}"#;
    test.patch("namespace", &test.tenant.name, none);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_no_mover_is_left();
}

#[test]
fn storage_that_is_away_for_a_while_delays_a_session_only() {
    let test = StashTest::start();
    put_shop(&test);
    let (session, _) = held(&test);
    // Requests that were held are cut off; then every request is refused for a while, and finally all succeed.
    test.storage.open();
    let body = "<Error><Code>ServiceUnavailable</Code></Error>";
    for method in ["PUT", "GET", "HEAD", "POST", "DELETE"] {
        test.storage.close(method, "/repo/", Fault::Answer(503, body.to_owned()), 6);
    }
    test.storage.wait_until_reached(60);
    let session = test.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{:#}", session["status"]);
    assert_eq!(test.backups("repo").len(), 1);
    test.assert_nothing_is_left("repo");
}

#[test]
fn storage_that_stays_away_fails_the_session_and_the_next_one_succeeds_when_it_is_back() {
    let test = StashTest::start();
    put_shop(&test);
    test.patch("backupconfiguration", "nightly", r#"{"spec": {"timeOut": "40s"}}"#);
    test.wait_until_observed(CONFIGURATION, "nightly");
    let (session, _) = held(&test);
    test.storage.open();
    let body = "<Error><Code>ServiceUnavailable</Code></Error>";
    for method in ["PUT", "GET", "HEAD", "POST", "DELETE"] {
        test.storage.close(method, "/repo/", Fault::Answer(503, body.to_owned()), usize::MAX);
    }
    let ended = test.ended(&session);
    assert_eq!(ended["status"]["phase"], "Failed", "{:#}", ended["status"]);
    assert_eq!(condition(&ended, "DeadlineExceeded").0, "True", "{:#}", ended["status"]);
    test.storage.open();
    test.run(CONFIGURATION, "nightly", "Succeeded");
    wait_for("the end of the lock that could not be removed", 120, || {
        let locks = test.repository("repo").ok(Engine::Restic, &["list", "locks", "--no-lock"]);
        if locks.trim().is_empty() { Ok(()) } else { Err(locks) }
    });
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_namespace_that_is_deleted_during_a_backup_or_a_restore_goes_and_its_data_is_not_lost() {
    let test = StashTest::start();
    put_shop(&test);
    let before = contents(&test.directory("web", 0, "data"));
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "later").unwrap();
    held(&test);
    // It waits for nothing that the storage would have to do.
    test.lose_namespace();
    test.storage.open();
    test.put_repository("repo");
    put_empty_deployment(&test, "web");
    test.wait_for_ready("web", 1);
    test.storage.close("GET", "/data/", Fault::Hold, 1000);
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    test.storage.wait_until_reached(120);
    test.lose_namespace();
    test.storage.open();
    // The locks of movers that went with their namespace are in nobody's way.
    put_shop(&test);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let ids: Vec<String> =
        test.backups("repo").iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    test.repository("repo").assert_restores(&[&ids[0]], "/source/data", &before);
    test.assert_no_mover_is_left();
}

#[test]
fn a_workload_that_someone_starts_during_its_restore_fails_it_and_is_never_written_beside() {
    let test = StashTest::start();
    put_shop(&test);
    let before = contents(&test.directory("web", 0, "data"));
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    // The restore's own reads, after the safety copy.
    let mut is_copied = false;
    test.storage.close_where(Fault::Hold, 0, usize::MAX, move |method, path| {
        is_copied |= method == "PUT" && path.contains("/snapshots/");
        is_copied && method == "GET" && path.contains("/data/")
    });
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    test.restore("back", &spec, "");
    test.storage.wait_until_reached(120);
    test.kubectl().args(["scale", "deployment", "web", "--replicas=1"]).ok();
    let failed = test.restored_as(RESTORE_SESSIONS, "back", "Failed");
    let said = failed["status"].to_string();
    assert!(said.contains("was scaled to 1") || said.contains("came to use the volumes"), "{said}");
    assert_eq!(failed["status"]["standstill"]["step"], "HeldDown", "{said}");
    // Its mover is ended, although storage does not answer.
    test.assert_no_mover_is_left();
    test.storage.open();
    // Again, and this time nobody interferes.
    test.kubectl().args(["scale", "deployment", "web", "--replicas=0"]).ok();
    wait_for("the end of the pod", 60, || if test.pods("web").is_empty() { Ok(()) } else { Err("it runs") });
    test.restore("again", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "again", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_restore_that_is_deleted_starts_the_workload_and_leaves_nothing() {
    let test = StashTest::start();
    put_shop(&test);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "of today").unwrap();
    let today = contents(&test.directory("web", 0, "data"));
    // While the safety copy is made, nothing has been written.
    test.storage.close("PUT", "/data/", Fault::Hold, 1000);
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    test.storage.wait_until_reached(120);
    test.delete(&[RESTORE_SESSIONS, "back"]);
    test.storage.open();
    test.wait_for_ready("web", 1);
    assert_eq!(test.replicas("deployments", "web"), 1);
    today.assert_same(&contents(&test.directory("web", 0, "data")), "as before");
    let workload = get(&["-n", &test.tenant.name, "deployments", "web"]);
    assert!(workload["metadata"]["annotations"]["lifeboat.io/standstill"].is_null(), "{workload}");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}
