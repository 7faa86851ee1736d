//! What happens during a restore: the disk is full, the storage is away, the mover is evicted or refused, the workload is deleted or rolled
//! out. Either the restore goes on, or it fails with the cause and the next one succeeds.

use std::fs;

use lifeboat_e2e::{Engine, Fault, RESTORE_SESSIONS, StashTest, condition, contents, get, random, wait_for};
use rstest::rstest;

use super::workloads::{deployment, evict, into, put_deployment, put_empty_deployment, put_in_pod};

const CONFIGURATION: &str = "BackupConfiguration";
const METHODS: [&str; 5] = ["PUT", "GET", "HEAD", "POST", "DELETE"];

/// A Deployment `web` that is backed up and then damaged; gives the target of its restore.
fn damaged_shop(test: &StashTest) -> String {
    test.put_repository("repo");
    put_deployment(test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    fs::remove_dir_all(test.directory("web", 0, "data").join("own")).unwrap();
    format!("  target: {}", into("app", "Deployment", "web"))
}

/// Fails unless the workload runs again with the data that was backed up.
fn assert_restored(test: &StashTest) {
    test.wait_for_ready("web", 1);
    let directory = test.directory("web", 0, "data");
    assert_eq!(fs::read_to_string(directory.join("which")).unwrap(), "web");
    assert_eq!(fs::read_to_string(directory.join("own/secret")).unwrap(), "of the application");
}

/// The volume has an enforced size, also on the box.
#[test]
fn a_volume_that_is_full_fails_its_restore_and_with_space_the_next_one_succeeds() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_in_pod(&test, "web", "medium: Memory, sizeLimit: 16Mi");
    let directory = test.directory("web", 0, "data");
    fs::write(directory.join("which"), "web").unwrap();
    fs::write(directory.join("large"), random(10 << 20)).unwrap();
    let before = contents(&directory);
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::remove_file(directory.join("large")).unwrap();
    fs::write(directory.join("filler"), vec![1; 12 << 20]).unwrap();
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    let annotation = "lifeboat.io/restore-running: 'true'";
    test.restore("full", &spec, annotation);
    let failed = test.restored_as(RESTORE_SESSIONS, "full", "Failed");
    let said = failed["status"].to_string();
    assert!(said.contains("full") && said.contains("larger volume"), "{said}");
    test.assert_nothing_is_left("repo");
    // A backup must not store half-restored data.
    let skipped = test.ended(&test.begin(CONFIGURATION, "nightly"));
    assert_eq!(skipped["status"]["phase"], "Skipped", "{:#}", skipped["status"]);
    fs::remove_file(directory.join("filler")).unwrap();
    test.restore("again", &spec, annotation);
    test.restored_as(RESTORE_SESSIONS, "again", "Succeeded");
    before.assert_same(&contents(&directory), "restored");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}

#[test]
fn storage_that_is_away_for_a_while_delays_a_restore_only() {
    let test = StashTest::start();
    let spec = damaged_shop(&test);
    test.hold_restore(&spec);
    // Requests that were held are cut off; then some of each kind are refused, and finally all succeed.
    test.storage.open();
    for method in METHODS {
        let away = Fault::Answer(503, "<Error><Code>ServiceUnavailable</Code></Error>".to_owned());
        test.storage.close(method, "/repo/", away, 6);
    }
    test.storage.wait_until_reached(60);
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["standstill"]["step"], "Started", "{:#}", back["status"]);
    test.storage.open();
    assert_restored(&test);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_restore_whose_storage_stays_away_ends_in_time_and_holds_the_workload_down() {
    let test = StashTest::start();
    let spec = damaged_shop(&test);
    test.hold_restore(&format!("  timeOut: 60s\n{spec}"));
    let failed = test.restored_as(RESTORE_SESSIONS, "back", "Failed");
    let said = failed["status"].to_string();
    assert_eq!(condition(&failed, "DeadlineExceeded").0, "True", "{said}");
    assert!(said.contains("timeOut"), "{said}");
    assert_eq!(failed["status"]["standstill"]["step"], "HeldDown", "{said}");
    assert_eq!(test.replicas("deployments", "web"), 0);
    // Its mover is ended, although storage does not answer.
    test.assert_no_mover_is_left();
    test.storage.open();
    test.restore("again", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "again", "Succeeded");
    assert_restored(&test);
    wait_for("the end of the lock that could not be removed", 120, || {
        let locks = test.repository("repo").ok(Engine::Restic, &["list", "locks", "--no-lock"]);
        if locks.trim().is_empty() { Ok(()) } else { Err(locks) }
    });
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_workload_that_is_deleted_during_its_restore_fails_it_and_a_new_one_is_restored() {
    let test = StashTest::start();
    let spec = damaged_shop(&test);
    test.hold_restore(&spec);
    test.delete(&["deployment", "web"]);
    let failed = test.restored_as(RESTORE_SESSIONS, "back", "Failed");
    let said = failed["status"].to_string();
    assert!(said.contains("Deployment web was deleted during the restore"), "{said}");
    test.assert_no_mover_is_left();
    test.storage.open();
    // The claim stayed, with data that may be half restored.
    put_empty_deployment(&test, "web");
    test.wait_for_ready("web", 1);
    test.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    let skipped = test.ended(&test.begin(CONFIGURATION, "nightly"));
    assert_eq!(skipped["status"]["phase"], "Skipped", "{:#}", skipped["status"]);
    test.restore("again", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "again", "Succeeded");
    assert_restored(&test);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_mover_of_a_restore_that_is_evicted_is_followed_by_another() {
    let test = StashTest::start();
    let spec = damaged_shop(&test);
    test.hold_restore(&spec);
    evict(&test, &test.wait_for_movers(1)[0]);
    test.storage.open();
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    let dead = back["status"]["stats"][0]["deadOwners"].as_array().map_or(0, Vec::len);
    assert_eq!(dead, 1, "{:#}", back["status"]);
    assert_restored(&test);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_workload_that_is_rolled_out_during_its_restore_starts_with_its_new_template() {
    let test = StashTest::start();
    let spec = damaged_shop(&test);
    test.hold_restore(&spec);
    let template = r#"{"spec": {"template": {"metadata": {"annotations": {"example.org/rollout": "2"}}}}}"#;
    test.patch("deployment", "web", template);
    test.storage.open();
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["standstill"]["step"], "Started", "{:#}", back["status"]);
    assert_restored(&test);
    assert_eq!(test.pods("web")[0]["metadata"]["annotations"]["example.org/rollout"], "2");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}

/// The first mover makes the safety copy: nothing has been written then. Without that copy it is the one that writes. The workload's own
/// pod has no requests, so the quota is about movers alone.
#[rstest]
#[case::of_the_safety_copy("", "Started", 1)]
#[case::of_the_restore("lifeboat.io/safety-copy: 'false'", "HeldDown", 0)]
fn a_mover_that_a_quota_refuses_fails_its_restore_and_with_room_the_next_one_succeeds(
    #[case] annotation: &str,
    #[case] step: &str,
    #[case] replicas: i64,
) {
    let test = StashTest::alone(&["--mover-prepare-timeout", "20s"]);
    let spec = damaged_shop(&test);
    test.tenant.apply(
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: full}, spec: {hard: {pods: '0'}, scopes: [NotBestEffort]}}",
    );
    wait_for("the quota", 30, || {
        let quota = get(&["-n", &test.tenant.name, "resourcequotas", "full"]);
        if quota["status"]["used"]["pods"] == "0" { Ok(()) } else { Err(quota["status"].to_string()) }
    });
    test.restore("refused", &spec, annotation);
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("exceeded quota") && said.contains("full"), "{said}");
    assert_eq!(refused["status"]["standstill"]["step"], step, "{said}");
    assert_eq!(test.replicas("deployments", "web"), replicas, "{said}");
    test.assert_no_mover_or_lock_is_left("repo");
    test.delete(&["resourcequota", "full"]);
    test.restore("back", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_restored(&test);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_no_mover_or_lock_is_left("repo");
}
