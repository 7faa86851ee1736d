//! Batches: order, hooks, one repository.

use lifeboat_e2e::{StashTest, condition, s3};
use serde_json::Value;

use super::workloads::{deployment, member, put_deployment, put_stateful_set, target};

const BATCH: &str = "BackupBatch";

/// The member with hooks that write into the volume.
fn with_hooks(target: &str) -> String {
    let hook =
        |text: &str| format!("{{exec: {{command: [sh, -c, 'echo {text} >> /source/data/hooks; sync']}}}}");
    format!("{{target: {target}, hooks: {{preBackup: {}, postBackup: {}}}}}", hook("before"), hook("after"))
}

fn start_of(session: &Value, member: usize) -> String {
    session["status"]["targets"][member]["stats"][0]["startTime"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn members_share_a_repository_and_run_in_their_order_with_hooks_in_their_pods() {
    let test = StashTest::start();
    let (web, db) = (put_deployment(&test, "web"), put_stateful_set(&test, "db"));
    test.put_repository("repo");
    let members =
        [with_hooks(&target("db", "apps/v1", "StatefulSet", "db")), member(&deployment("app", "web"))];
    test.put_batch("all", &members, "  maintainOrder: true\n");
    let session = test.run(BATCH, "all", "Succeeded");
    assert_eq!(test.snapshots("repo"), ["app /source/data", "db-0 /source/data", "db-1 /source/data"]);
    test.assert_stored("repo", "app", "/source/data", &web);
    assert_eq!(db.len(), 2);
    assert!(start_of(&session, 0) <= start_of(&session, 1), "{session}");
    let first = session["status"]["targets"][0]["stats"].as_array().unwrap();
    for (number, host) in first.iter().enumerate() {
        assert_eq!(
            (&host["preHook"], &host["postHook"]),
            (&"Succeeded".into(), &"Succeeded".into()),
            "{host}"
        );
        assert_eq!(host["consistency"], "Quiesced");
        let hooks = std::fs::read_to_string(test.directory("db", number, "data").join("hooks")).unwrap();
        assert_eq!(hooks, "before\nafter\n");
    }
    test.assert_nothing_is_left("repo");
}

#[test]
fn the_hook_before_a_batch_is_called_by_a_mover_and_if_it_fails_no_member_runs() {
    let test = StashTest::start();
    put_deployment(&test, "web");
    test.put_repository("repo");
    let address = s3().endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let (host, port) = address.split_once(':').unwrap();
    let hooks = |pre: &str| {
        format!(
            "  hooks:
    preBackup: {{tcpSocket: {{host: {host}, port: {pre}}}}}
    postBackup: {{executionPolicy: Always, tcpSocket: {{host: {host}, port: {port}}}}}
"
        )
    };
    test.put_batch("good", &[member(&deployment("app", "web"))], &hooks(port));
    let session = test.run(BATCH, "good", "Succeeded");
    for kind in ["GlobalPreBackupHookSucceeded", "GlobalPostBackupHookSucceeded"] {
        assert_eq!(condition(&session, kind).0, "True", "{session}");
    }
    test.delete(&["backupbatch", "good"]);
    test.put_batch("bad", &[member(&deployment("app", "web"))], &hooks("1"));
    let session = test.run(BATCH, "bad", "Failed");
    assert_eq!(condition(&session, "GlobalPreBackupHookSucceeded").0, "False", "{session}");
    assert_eq!(condition(&session, "GlobalPostBackupHookSucceeded").0, "True", "{session}");
    assert_eq!(test.snapshots("repo").len(), 1, "no member ran");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_failed_member_stops_no_other_and_the_batch_is_failed() {
    let test = StashTest::start();
    let web = put_deployment(&test, "web");
    test.put_repository("repo");
    let members = [member(&deployment("gone", "gone")), member(&deployment("app", "web"))];
    test.put_batch("all", &members, "  executionOrder: Sequential\n");
    let session = test.run(BATCH, "all", "Failed");
    assert_eq!(session["status"]["targets"][0]["phase"], "Failed", "{session}");
    assert_eq!(session["status"]["targets"][1]["phase"], "Succeeded", "{session}");
    let (_, message) = condition(&session["status"]["targets"][0], "BackupExecutorEnsured");
    assert!(message.contains("gone") && message.contains("does not exist"), "{session}");
    test.assert_stored("repo", "app", "/source/data", &web);
    test.assert_nothing_is_left("repo");
}

#[test]
fn equal_hosts_are_invalid_and_a_repository_takes_one_batch_until_that_goes() {
    let test = StashTest::start();
    put_deployment(&test, "web");
    test.put_repository("repo");
    let members =
        [member(&target("app", "apps/v1", "StatefulSet", "db")), member(&deployment("app-1", "web"))];
    test.put_batch("equal", &members, "");
    let equal = test.wait_for_phase(BATCH, "equal", "Invalid");
    let (_, message) = condition(&equal, "ValidationPassed");
    assert!(message.contains("StatefulSet db") && message.contains("Deployment web"), "{message}");
    let session = test.ended(&test.begin(BATCH, "equal"));
    assert_eq!(session["status"]["phase"], "Skipped", "{session}");
    test.delete(&["backupbatch", "equal"]);
    test.put_batch("first", &[member(&deployment("app", "web"))], "");
    test.wait_for_phase(BATCH, "first", "Ready");
    test.put_batch("second", &[member(&deployment("other", "web"))], "");
    let second = test.wait_for_phase(BATCH, "second", "Invalid");
    assert!(second["status"].to_string().contains("RepositoryInUse"), "{second}");
    assert!(condition(&second, "ValidationPassed").1.contains("/first"), "{second}");
    test.run(BATCH, "first", "Succeeded");
    test.delete(&["backupbatch", "first"]);
    test.run(BATCH, "second", "Succeeded");
    test.assert_nothing_is_left("repo");
}
