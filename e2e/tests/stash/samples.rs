//! The four samples of the batch document, applied word for word (`e2e/fixtures/seeds`) in their own namespace. Storage is the S3 server
//! beside the cluster, and the database is MariaDB.

use std::fs;
use std::path::PathBuf;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{Engine, RESTORE_BATCHES, RESTORE_SESSIONS, StashTest, condition, contents};
use serde_json::Value;

use super::databases::MARIADB;
use super::workloads::{fill, put_empty_replicas, put_replicas};

const NAMESPACE: &str = "demo";
const REPOSITORY: &str = "gcs-repo";
const DEPLOYMENT: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeMounts: [{name: VOLUME, mountPath: PATH}]
      volumes: [{name: VOLUME, persistentVolumeClaim: {claimName: NAME}}]
";

/// A sample as it is in the document.
fn sample(name: &str) -> String {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/seeds");
    fs::read_to_string(directory.join(format!("001-{name}.yaml"))).unwrap()
}

fn put_deployment(test: &StashTest, name: &str, volume: &str, path: &str) -> Listing {
    let manifests = DEPLOYMENT.replace("NAME", name).replace("VOLUME", volume).replace("PATH", path);
    test.tenant.apply(&manifests);
    test.wait_for_ready(name, 1);
    fill(&test.directory(name, 0, volume), name)
}

/// Applies an invoker of the document, and pauses its schedule: sessions by hand run all the same, and none that is due every five
/// minutes is in their way.
fn put_invoker(test: &StashTest, kind: &str, name: &str, file: &str) {
    test.tenant.apply(&sample(file));
    let found = test.wait_for_phase(kind, name, "Ready");
    assert_eq!(found["spec"]["schedule"], "*/5 * * * *");
    assert_eq!(condition(&found, "CronJobCreated").0, "True", "{found}");
    test.patch(kind, name, r#"{"spec": {"paused": true}}"#);
    test.wait_until_idle();
}

fn hosts(session: &Value) -> Vec<String> {
    let targets = session["status"]["targets"].as_array().cloned().unwrap_or_default();
    let hosts = targets.iter().flat_map(|target| target["stats"].as_array().cloned().unwrap_or_default());
    hosts.map(|host| host["hostname"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Genuine restic shows these hosts and paths, in this order, each at least once.
fn assert_listed(test: &StashTest, expected: &[&str]) {
    let mut listed = test.snapshots(REPOSITORY);
    listed.dedup();
    assert_eq!(listed, expected);
}

#[test]
fn the_samples_of_the_batch_document_do_what_it_says() {
    let test = StashTest::named(NAMESPACE);
    test.put_repository(REPOSITORY);
    deployment_backup(&test);
    let (wordpress, rows) = deploy_backup_batch(&test);
    wordpress_restore(&test, &wordpress, &rows);
    statefulset_restore(&test);
    test.repository(REPOSITORY).ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
    test.assert_nothing_is_left(REPOSITORY);
}

/// Host `demo-app` with `/source/data`; five snapshots stay.
fn deployment_backup(test: &StashTest) {
    let before = put_deployment(test, "stash-demo", "source-data", "/source/data");
    put_invoker(test, "BackupConfiguration", "deployment-backup", "backup-configuration-deployment-backup");
    for _ in 0..6 {
        let session = test.run("BackupConfiguration", "deployment-backup", "Succeeded");
        assert_eq!(hosts(&session), ["demo-app"]);
    }
    assert_eq!(test.snapshots(REPOSITORY), ["demo-app /source/data"; 5]);
    test.assert_stored(REPOSITORY, "demo-app", "/source/data", &before);
}

/// Hosts `db` (an AppBinding, though `apps/v1` is written) and `app`, at once, in the same repository.
fn deploy_backup_batch(test: &StashTest) -> (Listing, String) {
    MARIADB.put_as(test, "sample-mysql");
    MARIADB.fill_of(test, "sample-mysql");
    let rows = MARIADB.digest_of(test, "sample-mysql");
    assert!(rows.starts_with("1000"), "{rows}");
    let volume = "wordpress-persistent-storage";
    let before = put_deployment(test, "wordpress", volume, "/var/www/html");
    put_invoker(test, "BackupBatch", "deploy-backup-batch", "backup-batch-deploy-backup-batch");
    let session = test.run("BackupBatch", "deploy-backup-batch", "Succeeded");
    assert_eq!(hosts(&session), ["db", "app"]);
    assert_listed(test, &["app /var/www/html", "db /dumpfile.sql", "demo-app /source/data"]);
    test.assert_stored(REPOSITORY, "app", "/var/www/html", &before);
    (before, rows)
}

/// `db` comes back by the restore task. `app` fails as it is written: `/source/data` was never backed up and is below no mount. With
/// `/var/www/html` it succeeds.
fn wordpress_restore(test: &StashTest, before: &Listing, rows: &str) {
    let volume = "wordpress-persistent-storage";
    let lose_rows = || MARIADB.sql_of(test, "sample-mysql", "DROP DATABASE shop");
    lose_rows();
    fs::write(test.directory("wordpress", 0, volume).join("which"), "damaged").unwrap();
    let damaged = contents(&test.directory("wordpress", 0, volume));
    let pod = test.pods("wordpress")[0]["metadata"]["uid"].clone();
    test.tenant.apply(&sample("restore-batch-wordpress-restore"));
    let back = test.restored_as(RESTORE_BATCHES, "wordpress-restore", "Failed");
    let members = &back["status"]["members"];
    assert_eq!(members[0]["phase"], "Succeeded", "{members:#}");
    assert_eq!(members[1]["phase"], "Failed", "{members:#}");
    let (_, message) = condition(&members[1], "RestoreExecutorEnsured");
    for part in ["/source/data", "below no mount", "host app: /var/www/html (snapshot"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert_eq!(MARIADB.digest_of(test, "sample-mysql"), rows);
    assert_eq!(test.pods("wordpress")[0]["metadata"]["uid"], pod, "the app was not stopped");
    damaged.assert_same(&contents(&test.directory("wordpress", 0, volume)), "nothing was written");

    lose_rows();
    let corrected = sample("restore-batch-wordpress-restore")
        .replace("name: wordpress-restore", "name: wordpress-restore-again")
        .replace("- /source/data", "- /var/www/html");
    test.tenant.apply(&corrected);
    test.restored_as(RESTORE_BATCHES, "wordpress-restore-again", "Succeeded");
    test.wait_for_ready("wordpress", 1);
    before.assert_same(&contents(&test.directory("wordpress", 0, volume)), "wordpress");
    assert_eq!(MARIADB.digest_of(test, "sample-mysql"), rows);
}

/// Of five pods `app-3` and `app-4` get the data of `app-1`, the others their own.
fn statefulset_restore(test: &StashTest) {
    let before = put_replicas(test, "sample-statefulset", "source-data", 3);
    test.tenant.apply(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {name: statefulset-backup}
spec:
  schedule: '0 3 1 1 *'
  repository: {name: gcs-repo}
  retentionPolicy: {name: keep-last-5, keepLast: 5, prune: true}
  target:
    alias: app
    ref: {apiVersion: apps/v1, kind: StatefulSet, name: sample-statefulset}
    volumeMounts: [{name: source-data, mountPath: /source/data}]
    paths: [/source/data]
",
    );
    let session = test.run("BackupConfiguration", "statefulset-backup", "Succeeded");
    assert_eq!(hosts(&session), ["app-0", "app-1", "app-2"]);
    put_empty_replicas(test, "recovered-statefulset", "source-data", 5);
    test.tenant.apply(&sample("restore-session-statefulset-restore"));
    let back = test.restored_as(RESTORE_SESSIONS, "statefulset-restore", "Succeeded");
    assert_eq!(back["status"]["totalHosts"], 5, "{:#}", back["status"]);
    test.wait_for_ready("recovered-statefulset", 5);
    for (number, source) in [0, 1, 2, 1, 1].into_iter().enumerate() {
        let found = contents(&test.directory("recovered-statefulset", number, "source-data"));
        before[source].assert_same(&found, &format!("host app-{number}"));
    }
}
