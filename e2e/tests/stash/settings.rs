//! Servers with other flags: without access to directories of nodes, and with an image of movers that does not exist.

use std::fs;

use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, contents};
use serde_json::Value;

use super::workloads::{deployment, into, member, put_deployment, put_in_pod, put_workload};

const CONFIGURATION: &str = "BackupConfiguration";
const BATCH: &str = "BackupBatch";

fn error_of(session: &Value, member: usize) -> String {
    session["status"]["targets"][member]["stats"][0]["error"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn without_access_to_nodes_claims_are_backed_up_and_other_volumes_name_the_setting() {
    const OFF: &str = "--node-access=false";
    let mut test = StashTest::alone(&[OFF]);
    test.put_repository("repo");
    let web = put_deployment(&test, "web");
    put_in_pod(&test, "scratch", "");
    fs::write(test.directory("scratch", 0, "data").join("which"), "scratch").unwrap();
    put_workload(&test, "Deployment", "pod", "ReadWriteOncePod");
    let members = ["web", "scratch", "pod"].map(|name| member(&deployment(name, name)));
    test.put_batch("all", &members, "");
    let session = test.run(BATCH, "all", "Failed");
    assert_eq!(session["status"]["targets"][0]["phase"], "Succeeded", "{:#}", session["status"]);
    for (member, kind) in [(1, "emptyDir volume"), (2, "ReadWriteOncePod claim")] {
        let error = error_of(&session, member);
        let is_named =
            error.contains(kind) && error.contains("--node-access") && error.contains("nodeAccess");
        assert!(is_named, "{error}");
    }
    assert_eq!(test.snapshots("repo"), ["web /source/data"]);
    test.assert_stored("repo", "web", "/source/data", &web);
    // Nor is anything written there.
    let rules = "{rules: [{sourceHost: web}], ";
    let scratch = into("scratch", "Deployment", "scratch").replacen('{', rules, 1);
    test.restore("refused", &format!("  target: {scratch}"), "lifeboat.io/restore-running: 'true'");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("emptyDir volume") && said.contains("nodeAccess"), "{said}");
    let which = fs::read_to_string(test.directory("scratch", 0, "data").join("which")).unwrap();
    assert_eq!(which, "scratch");
    test.assert_nothing_is_left("repo");
    // Once it is on, the same batch is backed up.
    test.restart_without(OFF);
    test.run(BATCH, "all", "Succeeded");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_mover_without_an_image_fails_its_session_or_restore_with_the_image_and_with_one_they_succeed() {
    const MISSING: &str = "--mover-image=localhost/no-such-mover:1";
    let mut test = StashTest::alone(&["--mover-prepare-timeout", "20s"]);
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    test.restart_with(MISSING);
    let named = |said: &str| said.contains("localhost/no-such-mover:1") && said.contains("--mover-image");
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    assert!(named(&error_of(&session, 0)), "{:#}", session["status"]);
    test.assert_nothing_is_left("repo");
    // The safety copy cannot be made, so nothing is written.
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    test.restore("refused", &spec, "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(named(&said), "{said}");
    assert_eq!(refused["status"]["standstill"]["step"], "Started", "{said}");
    test.wait_for_ready("web", 1);
    let which = fs::read_to_string(test.directory("web", 0, "data").join("which")).unwrap();
    assert_eq!(which, "damaged");
    assert_eq!(test.backups("repo").len(), 1);
    test.assert_nothing_is_left("repo");
    test.restart_without(MISSING);
    test.restore("back", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}
