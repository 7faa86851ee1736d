//! Restores into running pods: volumes that exist only with their pod, and only where an annotation asks for it.

use std::fs;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, condition, contents, wait_for};
use serde_json::Value;

use super::workloads::{deployment, fill, into, put_in_pod};

const CONFIGURATION: &str = "BackupConfiguration";
const ASKED: &str = "lifeboat.io/restore-running: 'true'";

#[test]
fn an_empty_dir_comes_back_into_its_running_pod_where_that_is_asked_for() {
    let (test, before) = backed_up();
    test.assert_stored("repo", "app", "/source/data", &before);
    let directory = test.directory("web", 0, "data");
    fs::remove_dir_all(directory.join("own")).unwrap();
    fs::write(directory.join("which"), "damaged").unwrap();
    let pods = pods_with_restarts(&test);
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    test.restore("refused", &spec, "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("emptyDir volume data") && said.contains("lifeboat.io/restore-running"), "{said}");
    assert_eq!(fs::read_to_string(directory.join("which")).unwrap(), "damaged");
    test.restore("back", &spec, ASKED);
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert!(back["status"]["standstill"].is_null(), "nothing was stopped: {back}");
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    assert_eq!(pods_with_restarts(&test), pods, "no pod was replaced or started again");
    test.assert_nothing_is_left("repo");
}

/// Deployment `web` with data in an emptyDir, and a backup of it; with the data.
fn backed_up() -> (StashTest, Listing) {
    let test = StashTest::start();
    test.put_repository("repo");
    put_in_pod(&test, "web", "");
    let before = fill(&test.directory("web", 0, "data"), "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    (test, before)
}

/// The pods of workload `web`: UID and restarts.
fn pods_with_restarts(test: &StashTest) -> Vec<(Value, Value)> {
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].clone();
    test.pods("web").iter().map(|pod| (pod["metadata"]["uid"].clone(), restarts(pod))).collect()
}

#[test]
fn a_restore_into_a_running_pod_waits_for_one() {
    let (test, before) = backed_up();
    test.kubectl().args(["scale", "deployment/web", "--replicas=0"]).ok();
    wait_for("the end of the pod", 60, || if test.pods("web").is_empty() { Ok(()) } else { Err("it runs") });
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), ASKED);
    wait_for("what the restore waits for", 60, || {
        let found = test.restore_now(RESTORE_SESSIONS, "back");
        let (status, message) = condition(&found, "RestoreTargetFound");
        let is_named = status == "False" && message.contains("Ready pod for host app");
        if is_named && found["status"]["phase"] == "Pending" {
            Ok(())
        } else {
            Err(found["status"].to_string())
        }
    });
    assert_eq!(test.replicas("deployments", "web"), 0, "the restore starts nothing");
    test.kubectl().args(["scale", "deployment/web", "--replicas=1"]).ok();
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "in the new pod");
    test.assert_nothing_is_left("repo");
}
