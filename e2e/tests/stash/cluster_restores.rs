//! Objects of Stash's API in backups of the cluster's objects: what describes is restored, what commands is not.

use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, delete_namespace, get, unique};

use super::workloads::{claim_target, put_claim};

const CONFIGURATION: &str = "BackupConfiguration";

#[test]
fn a_cluster_restore_brings_invokers_back_and_runs_no_session_again() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_claim(&test, "files");
    test.put_configuration("nightly", &claim_target("files", "files"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.restore("back", &format!("  target: {}", claim_target("files", "files")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    let (name, namespace) = (unique("objects"), test.tenant.name.as_str());
    let only = ["--include-namespaces", namespace, "--snapshot-volumes=false"];
    let backup = test.server.backup(&name, &only);
    test.server.assert_phase(&backup, &["Completed"]);
    delete_namespace(namespace);
    let restore = test.server.restore(&name, &name, &[]);
    test.server.assert_phase(&restore, &["Completed", "PartiallyFailed"]);
    test.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    assert_eq!(test.sessions().len(), 0, "a session would run again");
    let restores = get(&["-n", namespace, RESTORE_SESSIONS]);
    assert_eq!(restores["items"].as_array().map(Vec::len), Some(0), "a restore would run again: {restores}");
    assert_eq!(test.backups("repo").len(), 1);
    // The claim came back without its data, which is where it was.
    test.restore("again", &format!("  target: {}", claim_target("files", "files")), "");
    test.restored_as(RESTORE_SESSIONS, "again", "Succeeded");
    test.assert_nothing_is_left("repo");
}
