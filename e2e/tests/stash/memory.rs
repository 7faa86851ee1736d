//! Movers with too little memory: the session ends with the limit in its status, and the next one, which has more, succeeds.

use std::fs;

use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, condition, contents};
use rstest::rstest;

use super::workloads::{deployment, into, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";
/// Less than the program needs to start.
const SMALL: &str =
    "  runtimeSettings: {container: {resources: {requests: {memory: 8Mi}, limits: {memory: 8Mi}}}}\n";

#[test]
fn a_backup_out_of_memory_names_the_limit_and_the_next_one_with_more_succeeds() {
    let test = StashTest::alone(&["--mover-prepare-timeout", "20s"]);
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), SMALL);
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    let host = &session["status"]["targets"][0]["stats"][0];
    let error = host["error"].as_str().unwrap_or_default();
    assert!(error.contains("more memory than its limit of 8Mi"), "{host}");
    assert!(error.contains("runtimeSettings.container.resources"), "{host}");
    assert!(test.backups("repo").is_empty());
    test.assert_nothing_is_left("repo");
    test.patch("backupconfiguration", "nightly", r#"{"spec": {"runtimeSettings": null}}"#);
    test.wait_until_observed(CONFIGURATION, "nightly");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_stored("repo", "app", "/source/data", &before);
    test.assert_nothing_is_left("repo");
}

/// The first mover of a restore makes the safety copy: nothing has been written then. Without that copy it is the one that writes.
#[rstest]
#[case::of_the_safety_copy("", "Started", 1)]
#[case::of_the_restore("lifeboat.io/safety-copy: 'false'", "HeldDown", 0)]
fn a_restore_out_of_memory_names_the_limit_and_the_next_one_with_more_succeeds(
    #[case] annotation: &str,
    #[case] step: &str,
    #[case] replicas: i64,
) {
    let test = StashTest::alone(&["--mover-prepare-timeout", "20s"]);
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    test.restore("small", &format!("{spec}\n{}", SMALL.trim_end()), annotation);
    let failed = test.restored_as(RESTORE_SESSIONS, "small", "Failed");
    let said = failed["status"].to_string();
    assert!(said.contains("more memory than its limit of 8Mi"), "{said}");
    assert_eq!(failed["status"]["standstill"]["step"], step, "{said}");
    assert_eq!(test.replicas("deployments", "web"), replicas, "{said}");
    if replicas == 0 {
        assert_eq!(condition(&failed, "WorkloadStarted").0, "False", "{said}");
    } else {
        test.wait_for_ready("web", 1);
        let which = fs::read_to_string(test.directory("web", 0, "data").join("which")).unwrap();
        assert_eq!(which, "damaged", "nothing was written");
    }
    test.assert_nothing_is_left("repo");
    test.restore("back", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.assert_nothing_is_left("repo");
}
