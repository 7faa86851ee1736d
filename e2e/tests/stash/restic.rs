//! Restics, on a server that serves them: the volume sample of the design discussion, and backups that run once.

use std::fs;
use std::path::PathBuf;

use lifeboat_e2e::{Engine, StashTest, condition, get, wait_for};
use serde_json::Value;

use super::workloads::fill;

const FLAG: &str = "--experimental-restics";
const RESTIC: &str = "Restic";
const REPOSITORY: &str = "stash-backup";
const DIRECTORY: &str = "/volumes/deployment/stash-demo";

const DEPLOYMENT: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: one}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: two}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: stash-demo, labels: {app: stash-demo}}
spec:
  selector: {matchLabels: {app: stash-demo}}
  template:
    metadata: {labels: {app: stash-demo}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeMounts:
        - {name: vol-1, mountPath: /one}
        - {name: vol-2, mountPath: /two}
      volumes:
      - {name: vol-1, persistentVolumeClaim: {claimName: one}}
      - {name: vol-2, persistentVolumeClaim: {claimName: two}}
";

/// The sample as it is in the document, in the tenant's namespace.
fn sample() -> String {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/seeds/002-restic-restic-volume-demo.yaml");
    let text = fs::read_to_string(file).unwrap();
    let own: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("namespace:")).collect();
    own.join("\n") + "\n"
}

fn start() -> StashTest {
    let test = StashTest::alone(&[FLAG]);
    test.put_repository(REPOSITORY);
    test.tenant.apply(DEPLOYMENT);
    test.wait_for_ready("stash-demo", 1);
    test
}

fn backup_repos(test: &StashTest) -> Value {
    let found = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", REPOSITORY]);
    found["status"]["backupRepos"].clone()
}

#[test]
fn the_volume_sample_keeps_five_snapshots_of_each_volume_in_the_directory_of_its_workload() {
    let test = start();
    let volumes = ["vol-1", "vol-2"];
    let before = volumes.map(|volume| fill(&test.directory("stash-demo", 0, volume), volume));
    test.tenant.apply(&sample());
    let ready = test.wait_for_phase(RESTIC, "restic-volume-demo", "Ready");
    assert_eq!(condition(&ready, "CronJobCreated").0, "True", "{ready}");
    wait_for("a session of the schedule", 150, || {
        let sessions = test.sessions();
        if sessions.is_empty() { Err("none") } else { Ok(()) }
    });
    test.patch(RESTIC, "restic-volume-demo", r#"{"spec": {"paused": true}}"#);
    test.wait_until_idle();
    for _ in 0..6 {
        test.run(RESTIC, "restic-volume-demo", "Succeeded");
    }
    let stored = test.repository(&format!("{REPOSITORY}{DIRECTORY}"));
    let listed = stored.list();
    for (volume, expected) in volumes.iter().zip(&before) {
        let tag = format!("lifeboat-volume={volume}");
        let own = listed.iter().filter(|one| one["tags"].to_string().contains(&tag));
        assert_eq!(own.count(), 5, "{tag}: {listed:?}");
        stored.assert_restores(&["latest", "--tag", &tag], "/source/data", expected);
    }
    stored.ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
    let record = backup_repos(&test);
    assert_eq!(record.as_array().map(Vec::len), Some(1), "{record}");
    let entry = &record[0];
    for (field, expected) in [
        ("type", "Volumes"),
        ("workloadKind", "Deployment"),
        ("workloadName", "stash-demo"),
        ("resticName", "restic-volume-demo"),
        ("repoDir", DIRECTORY),
    ] {
        assert_eq!(entry[field], expected, "{entry}");
    }
    assert!(entry["backupCount"].as_i64().is_some_and(|count| count >= 7), "{entry}");
    assert!(entry["lastBackupDuration"].is_string() && entry["firstBackupTime"].is_string(), "{entry}");
}

#[test]
fn an_instant_restic_backs_up_once_also_after_the_server_was_killed() {
    let mut test = start();
    let instant = sample()
        .replace("backupType: Scheduled", "backupType: Instant")
        .replace("  schedule: '@every 1m'\n", "");
    test.tenant.apply(&instant);
    wait_for("the session", 120, || {
        let sessions = test.sessions();
        if sessions.iter().any(|one| one["status"]["phase"] == "Succeeded") {
            Ok(())
        } else {
            Err(format!("{sessions:?}"))
        }
    });
    test.kill_server();
    test.patch(RESTIC, "restic-volume-demo", r#"{"metadata": {"labels": {"seen": "again"}}}"#);
    test.run(RESTIC, "restic-volume-demo", "Succeeded");
    let scheduled = test.sessions().iter().filter(|one| is_due(one)).count();
    assert!(scheduled <= 1, "the only other session is the one by hand");
    assert_eq!(backup_repos(&test)[0]["backupCount"], 2);
}

fn is_due(session: &Value) -> bool {
    session["metadata"]["annotations"]["lifeboat.io/due-time"].is_string()
}
