//! Databases: an AppBinding and its Secret that are missing, and a load that fails half-way.

use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, condition, wait_for};

use super::databases::POSTGRES;

const CONFIGURATION: &str = "BackupConfiguration";
const TARGET: &str =
    "{alias: db, ref: {apiVersion: appcatalog.appscode.com/v1alpha1, kind: AppBinding, name: db}}";
const TASK: &str = "  task: {name: postgres-backup-15}\n";
const KEYS: &str = "{apiVersion: v1, kind: Secret, metadata: {name: db-auth}, stringData: {user: postgres, password: not-a-real-secret}}";

#[test]
fn an_app_binding_or_its_secret_that_is_missing_is_named_and_then_the_dump_succeeds() {
    let test = StashTest::start();
    test.put_repository("repo");
    test.put_configuration("nightly", TARGET, TASK);
    wait_for("the missing AppBinding", 90, || {
        let found = test.invoker(CONFIGURATION, "nightly");
        let (status, message) = condition(&found, "BackupTargetFound");
        let is_named = status == "False" && message.contains("/db does not exist");
        if is_named && found["status"]["phase"] == "NotReady" {
            Ok(())
        } else {
            Err(found["status"].to_string())
        }
    });
    POSTGRES.put_as(&test, "db");
    POSTGRES.fill_of(&test, "db");
    test.delete(&["secret", "db-auth"]);
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    let said = session["status"].to_string();
    assert!(said.contains("db-auth") && said.contains("does not exist"), "{said}");
    assert!(test.snapshots("repo").is_empty());
    test.tenant.apply(KEYS);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(test.snapshots("repo"), ["db /dumpfile.sql"]);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_load_that_fails_half_way_says_why_and_the_next_one_into_an_empty_server_succeeds() {
    let test = StashTest::start();
    test.put_repository("repo");
    POSTGRES.put_as(&test, "db");
    POSTGRES.fill_of(&test, "db");
    let digest = POSTGRES.digest_of(&test, "db");
    assert!(digest.starts_with("1000"), "{digest}");
    test.put_configuration("nightly", TARGET, TASK);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    // The roles are loaded; then the database is there already, and psql stops.
    let spec = format!("  task: {{name: postgres-restore-15}}\n  target: {TARGET}");
    test.restore("half", &spec, "");
    let failed = test.restored_as(RESTORE_SESSIONS, "half", "Failed");
    let error = failed["status"]["stats"][0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("shop") && error.contains("already exists"), "{:#}", failed["status"]);
    test.assert_nothing_is_left("repo");
    // A dump of half-loaded data must not displace the good one.
    let skipped = test.ended(&test.begin(CONFIGURATION, "nightly"));
    assert_eq!(skipped["status"]["phase"], "Skipped", "{:#}", skipped["status"]);
    POSTGRES.sql_of(&test, "db", "DROP DATABASE shop");
    test.restore("back", &spec, "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(POSTGRES.digest_of(&test, "db"), digest);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}
