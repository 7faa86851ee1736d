//! A database and an app, backed up together, come back after everything in their namespace was lost.

use lifeboat_e2e::{RESTORE_BATCHES, StashTest, contents};

use super::databases::MARIADB;
use super::workloads::{deployment, into, member, put_deployment, put_empty_deployment};

const BATCH: &str = "BackupBatch";
const DATABASE: &str =
    "{alias: db, ref: {apiVersion: appcatalog.appscode.com/v1alpha1, kind: AppBinding, name: db}}";

#[test]
fn a_database_and_an_app_come_back_after_their_namespace_was_lost() {
    let test = StashTest::start();
    test.put_repository("repo");
    MARIADB.put_as(&test, "db");
    MARIADB.fill_of(&test, "db");
    let (rows, files) = (MARIADB.digest_of(&test, "db"), put_deployment(&test, "web"));
    assert!(rows.starts_with("1000"), "{rows}");
    let database = |task: &str| format!("{{target: {DATABASE}, task: {{name: mariadb-{task}-10.11}}}}");
    test.put_batch("all", &[database("backup"), member(&deployment("app", "web"))], "");
    test.run(BATCH, "all", "Succeeded");
    assert_eq!(test.snapshots("repo"), ["app /source/data", "db /dumpfile.sql"]);

    // Everything goes: workloads, claims, Secrets, the Repository, the batch with its sessions. The bucket stays.
    test.lose_namespace();
    MARIADB.put_as(&test, "db");
    assert_eq!(MARIADB.sql_of(&test, "db", "SHOW DATABASES LIKE 'shop'"), "");
    put_empty_deployment(&test, "web");
    test.wait_for_ready("web", 1);
    assert!(contents(&test.directory("web", 0, "data")).0.len() < files.0.len(), "the volume is a new one");
    test.put_repository("repo");
    test.restore_batch("back", &[database("restore"), member(&into("app", "Deployment", "web"))], "");
    test.restored_as(RESTORE_BATCHES, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    files.assert_same(&contents(&test.directory("web", 0, "data")), "the app's files");
    assert_eq!(MARIADB.digest_of(&test, "db"), rows);

    // And the batch goes on, beside the snapshots from before.
    test.put_batch("all", &[database("backup"), member(&deployment("app", "web"))], "");
    test.run(BATCH, "all", "Succeeded");
    assert_eq!(test.backups("repo").len(), 4);
    test.assert_nothing_is_left("repo");
}
