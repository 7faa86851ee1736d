//! A node is lost while it has a mover of Stash's API. These tests stop the kubelet of the second node, so they run alone, after those in
//! `stash.rs`.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::fs;

use lifeboat_e2e::{Fault, RESTORE_SESSIONS, StashTest};

use crate::nodes::{LostNode, NODE};
use crate::stash::workloads::{deployment, into, put_deployment_with};

const FLAGS: [&str; 4] = ["--mover-node-timeout", "10s", "--mover-prepare-timeout", "20s"];

/// The Deployment with a file, and BackupConfiguration `nightly`.
fn shop() -> StashTest {
    let test = StashTest::alone(&FLAGS);
    test.put_repository("repo");
    // It runs on that node only, and is not evicted while the node is lost.
    let pinned = format!(
        "nodeSelector: {{kubernetes.io/hostname: {NODE}}}\n      tolerations: [{{operator: Exists}}]"
    );
    put_deployment_with(&test, "web", &pinned, "");
    fs::write(test.directory("web", 0, "data").join("which"), "web").unwrap();
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.wait_for_phase("BackupConfiguration", "nightly", "Ready");
    test
}

#[test]
fn a_session_whose_node_is_gone_fails_with_its_name_and_the_next_one_succeeds_when_it_is_back() {
    let test = shop();
    test.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let session = test.begin("BackupConfiguration", "nightly");
    test.storage.wait_until_reached(90);
    let node = LostNode::gone();
    let ended = test.ended(&session);
    assert_eq!(ended["status"]["phase"], "Failed", "{:#}", ended["status"]);
    let error = ended["status"]["targets"][0]["stats"][0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains(NODE), "{error}");
    test.storage.open();
    node.comes_back();
    test.wait_for_ready("web", 1);
    // It is unknown whether the mover on the lost node had ended: its lock stays, and is in nobody's way.
    test.run("BackupConfiguration", "nightly", "Succeeded");
    assert_eq!(test.backups("repo").len(), 1);
    test.assert_no_mover_is_left();
}

/// Its mover may have written: the workload stays down, and is not started on another node either.
#[test]
fn a_restore_whose_node_is_gone_holds_the_workload_down_and_the_next_one_succeeds_when_it_is_back() {
    let test = shop();
    test.run("BackupConfiguration", "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    let pinned = format!("{{pod: {{nodeSelector: {{kubernetes.io/hostname: {NODE}}}}}}}");
    let spec = format!("  target: {}\n  runtimeSettings: {pinned}", into("app", "Deployment", "web"));
    test.hold_restore(&spec);
    let node = LostNode::gone();
    let failed = test.restored_as(RESTORE_SESSIONS, "back", "Failed");
    let said = failed["status"].to_string();
    assert!(said.contains(NODE), "{said}");
    assert_eq!(failed["status"]["standstill"]["step"], "HeldDown", "{said}");
    assert_eq!(test.replicas("deployments", "web"), 0, "{said}");
    test.storage.open();
    node.comes_back();
    test.restore("again", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "again", "Succeeded");
    test.wait_for_ready("web", 1);
    assert_eq!(fs::read_to_string(test.directory("web", 0, "data").join("which")).unwrap(), "web");
    test.run("BackupConfiguration", "nightly", "Succeeded");
    test.assert_no_mover_is_left();
}
