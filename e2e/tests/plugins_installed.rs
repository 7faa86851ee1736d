//! Plugins from images, in pods: added, listed and removed with stock Velero's command line in a namespace that
//! enforces `restricted`; Velero's plugin for S3 as the store of a complete backup and restore over TLS; an application
//! that waits for its database.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use lifeboat_e2e::{
    Installation, Namespace, assert_same_objects, delete_namespace, get, kubectl, lifeboat, objects_of,
    recorded_item, s3, sample_app, unique, velero, wait_for, wait_until_running,
};

const AWS: &str = "localhost/lifeboat-test/velero-plugin-for-aws:v1.14.3";
const RECORDER: &str = "localhost/lifeboat-test/recorder:dev";
const WAITING: &str = "localhost/lifeboat-example/wait-for-database:dev";
const DATABASES: &str = "localhost/lifeboat-test/databases:bookworm";

/// An image whose plugins are added with stock Velero's command line and removed when dropped.
struct Added(&'static str);

impl Added {
    fn new(image: &'static str) -> Self {
        let added = Self::without_rollout(image);
        rolled_out();
        added
    }

    /// For an image whose pod will not start.
    fn without_rollout(image: &'static str) -> Self {
        velero().args(["plugin", "add", image, "--confirm", "--image-pull-policy", "IfNotPresent"]).ok();
        Self(image)
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        velero().args(["plugin", "remove", self.0]).run();
        kubectl()
            .args(["-n", "lifeboat", "rollout", "status", "deployment/lifeboat", "--timeout=120s"])
            .run();
    }
}

fn rolled_out() {
    kubectl().args(["-n", "lifeboat", "rollout", "status", "deployment/lifeboat", "--timeout=120s"]).ok();
}

/// The list of stock Velero's command line, answered by the current leader.
fn listed(plugin: &str) -> String {
    wait_for(&format!("plugin {plugin} in the list"), 90, || {
        let output = velero().args(["plugin", "get"]).run();
        if output.stdout.contains(plugin) { Ok(output.stdout) } else { Err(output.stdout + &output.stderr) }
    })
}

fn ended(kind: &str, name: &str) -> String {
    wait_for(&format!("the end of {kind} {name}"), 240, || {
        let object = get(&["-n", "lifeboat", &format!("{kind}s.velero.io"), name]);
        match object["status"]["phase"].as_str() {
            Some(phase @ ("Completed" | "PartiallyFailed" | "Failed" | "FailedValidation")) => {
                Ok(phase.to_owned())
            }
            _ => Err(object["status"].to_string()),
        }
    })
}

fn assert_completed(kind: &str, name: &str) {
    let phase = ended(kind, name);
    if phase != "Completed" {
        let described = lifeboat().args([kind, "describe", name, "--details"]).run();
        panic!("{kind} {name} is {phase}\n{}{}", described.stdout, described.stderr);
    }
}

#[test]
fn veleros_plugin_for_s3_stores_a_whole_backup_over_tls() {
    let installation = Installation::ensure();
    installation.wait_for_phase("default", "Available", 90);
    let _added = Added::new(AWS);
    let list = listed("velero.io/aws");
    assert!(list.contains("ObjectStore") && list.contains("VolumeSnapshotter"), "{list}");
    let deployment = get(&["-n", "lifeboat", "deployment", "lifeboat"]);
    let context = &deployment["spec"]["template"]["spec"]["initContainers"][0]["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], false, "the server completed it: {context}");

    let s3 = s3();
    let tls = unique("tls");
    velero()
        .args(["backup-location", "create", &tls, "--provider", "aws", "--bucket", "lifeboat"])
        .args(["--prefix", &tls, "--cacert", &s3.ca, "--config", &s3.tls_config()])
        .args(["--credential", "cloud-credentials=cloud"])
        .ok();
    installation.wait_for_phase(&tls, "Available", 120);
    let shown = lifeboat().args(["backup-location", "get", &tls]).ok();
    assert!(shown.contains("velero-plugin-for-aws"), "it says who stores:\n{shown}");

    let app = Namespace::new("stored");
    app.apply(&sample_app(&app.name));
    wait_until_running(&app.name);
    let before = objects_of(&app.name);
    let name = unique("stored");
    velero()
        .args(["backup", "create", &name, "--include-namespaces", &app.name, "--storage-location", &tls])
        .ok();
    assert_completed("backup", &name);
    // Files that the plugin wrote are read through it, and its links point to them.
    let log = velero().args(["backup", "logs", &name, "--cacert", &s3.ca]).ok();
    assert!(log.contains("level=info"), "{log}");
    delete_namespace(&app.name);
    velero().args(["restore", "create", &name, "--from-backup", &name]).ok();
    assert_completed("restore", &name);
    wait_until_running(&app.name);
    assert_same_objects(&before, &objects_of(&app.name));
    velero().args(["backup", "delete", &name, "--confirm"]).ok();
    wait_for("the end of the backup", 90, || {
        let object = get(&["-n", "lifeboat", "backups.velero.io", &name]);
        if object.is_null() { Ok(()) } else { Err(object["status"].to_string()) }
    });
    velero().args(["backup-location", "delete", &tls, "--confirm"]).ok();
}

#[test]
fn plugins_are_added_listed_and_removed_by_both_command_lines() {
    Installation::ensure();
    {
        let _added = Added::new(RECORDER);
        let list = listed("example.io/block");
        for (name, kind) in [
            ("example.io/backup-v1", "BackupItemAction"),
            ("example.io/backup-v2", "BackupItemActionV2"),
            ("example.io/restore-v1", "RestoreItemAction"),
            ("example.io/restore-v2", "RestoreItemActionV2"),
            ("example.io/delete", "DeleteItemAction"),
            ("example.io/snapshotter", "VolumeSnapshotter"),
            ("example.io/block", "ItemBlockAction"),
        ] {
            let found = list.lines().any(|line| line.split_whitespace().eq([name, kind]));
            assert!(found, "{name} {kind} is missing in:\n{list}");
        }
        // A complete backup and restore with all of them, in pods.
        let app = Namespace::new("recorder");
        recorded_item(&app, "settings", "password", &[("operation", "op"), ("wait", "yes")]);
        let name = unique("recorded");
        lifeboat().args(["backup", "create", &name, "--include-namespaces", &app.name]).ok();
        // Its operations count recorded requests, which are not recorded here.
        wait_for("operations of the backup", 90, || {
            let status = get(&["-n", "lifeboat", "backups.velero.io", &name])["status"].clone();
            if status["phase"] == "WaitingForPluginOperations" { Ok(()) } else { Err(status.to_string()) }
        });
        lifeboat().args(["backup", "cancel", &name]).ok();
        assert_eq!(ended("backup", &name), "Failed");
    }
    rolled_out();
    wait_for("the removal", 90, || {
        let output = velero().args(["plugin", "get"]).run();
        if output.stdout.contains("example.io/") { Err(output.stdout) } else { Ok(()) }
    });
    let added = lifeboat().args(["plugin", "add", WAITING]).ok();
    assert!(added.contains("example.io/wait-for-database"), "{added}");
    let list = lifeboat().args(["plugin", "get"]).ok();
    assert!(list.contains("example.io/wait-for-database"), "{list}");
    lifeboat().args(["plugin", "remove", WAITING]).ok();
    rolled_out();
}

#[test]
fn an_image_that_does_not_exist_is_named_and_the_old_server_goes_on() {
    let installation = Installation::ensure();
    let leader = installation.leader();
    // Removed when the test ends in any way: the next test would wait for this image in vain.
    let missing = Added::without_rollout("localhost/none/no-such-plugin:v1");
    wait_for("an event that names the image", 120, || {
        let events = get(&["-n", "lifeboat", "events"]).to_string();
        let named = events.contains("no-such-plugin:v1") && events.contains("lifeboat plugin remove");
        if named { Ok(()) } else { Err("no event names it".to_owned()) }
    });
    assert_eq!(installation.leader(), leader, "the server that ran before leads");
    lifeboat().args(["plugin", "remove", missing.0]).ok();
    rolled_out();
}

#[test]
fn an_application_is_restored_when_its_database_answers() {
    Installation::ensure();
    let _added = Added::new(WAITING);
    listed("example.io/wait-for-database");
    let app = Namespace::new("shop");
    app.apply(&SHOP.replace("DATABASES", DATABASES));
    app.kubectl().args(["rollout", "status", "statefulset/orders-db", "--timeout=120s"]).ok();
    let name = unique("shop");
    lifeboat().args(["backup", "create", &name, "--include-namespaces", &app.name]).ok();
    assert_completed("backup", &name);
    delete_namespace(&app.name);
    lifeboat().args(["restore", "create", &name, "--from-backup", &name]).ok();
    assert_completed("restore", &name);
    let database = get(&["-n", &app.name, "pod", "orders-db-0"]);
    let shop = get(&["-n", &app.name, "deployment", "shop"]);
    // The database was ready before the application was created: its container runs by then.
    let started = database["status"]["containerStatuses"][0]["state"]["running"]["startedAt"].clone();
    let made = shop["metadata"]["creationTimestamp"].clone();
    assert!(
        started.as_str().unwrap() <= made.as_str().unwrap(),
        "the database started at {started}, the shop was made at {made}"
    );
    let log = lifeboat().args(["restore", "logs", &name]).ok();
    assert!(log.contains("waits for its database"), "{log}");
}

const SHOP: &str = "
apiVersion: v1
kind: Service
metadata: {name: orders-db}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: orders-db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: orders-db}
spec:
  serviceName: orders-db
  selector: {matchLabels: {app: orders-db}}
  template:
    metadata: {labels: {app: orders-db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: DATABASES
        imagePullPolicy: IfNotPresent
        command: [run-postgres]
        env: [{name: POSTGRES_PASSWORD, value: not-a-real-secret}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
  annotations:
    example.io/database: orders-db:5432
    example.io/database-workload: statefulsets.apps/orders-db
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
";
