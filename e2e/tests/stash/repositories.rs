//! Repositories: retention among others, snapshots as objects, metrics, and `wipeOut`.

use std::fs;

use lifeboat_e2e::{Bucket, Engine, StashTest, condition, get, s3, unique, wait_for};

use super::workloads::{claim_target, deployment, member, put_claim, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";
const BATCH: &str = "BackupBatch";
const SNAPSHOTS: &str = "snapshots.repositories.stash.appscode.com";

#[test]
fn retention_removes_snapshots_of_the_sessions_own_hosts_only() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    put_claim(&test, "files");
    // What somebody else stored there, in the same host's name but at another path, and of another host.
    test.put_batch("all", &[member(&claim_target("files", "files"))], "");
    for _ in 0..3 {
        test.run(BATCH, "all", "Succeeded");
    }
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("file"), "of somebody else").unwrap();
    for _ in 0..3 {
        test.repository("repo").backup(Engine::Restic, source.path(), &["--host", "app"]);
    }
    test.put_configuration("web", &deployment("app", "web"), "");
    for _ in 0..4 {
        test.run(CONFIGURATION, "web", "Succeeded");
    }
    let count = |of: &str| test.snapshots("repo").iter().filter(|one| one.starts_with(of)).count();
    assert_eq!(count("app /source/data"), 2, "the policy keeps two");
    assert_eq!(count("files /stash-data"), 3, "of another invoker's host");
    let elsewhere = source.path().display();
    assert!(count(&format!("app {elsewhere}")) >= 2, "at another path: {:?}", test.snapshots("repo"));
    test.assert_nothing_is_left("repo");
}

#[test]
fn snapshots_are_shown_as_objects_and_deleting_one_deletes_no_data() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_claim(&test, "files");
    test.put_configuration("files", &claim_target("files", "files"), "");
    test.run(CONFIGURATION, "files", "Succeeded");
    let stored = test.backups("repo");
    let id = stored[0]["id"].as_str().unwrap();
    let name = format!("repo-{}", &id[..8]);
    let shown = wait_for("the snapshot", 60, || {
        let found = get(&["-n", &test.tenant.name, SNAPSHOTS, &name]);
        if found.is_null() { Err(format!("{name} is not there")) } else { Ok(found) }
    });
    let labels = &shown["metadata"]["labels"];
    assert_eq!((&labels["repository"], &labels["hostname"]), (&"repo".into(), &"files".into()), "{shown}");
    assert!(shown["status"].to_string().contains(id), "{shown}");
    test.delete(&[SNAPSHOTS, &name]);
    assert_eq!(test.backups("repo").len(), 1);
    // The next session shows it again, beside the new one.
    test.run(CONFIGURATION, "files", "Succeeded");
    wait_for("two snapshots", 60, || {
        let found = get(&["-n", &test.tenant.name, SNAPSHOTS])["items"].as_array().map_or(0, Vec::len);
        if found == 2 { Ok(()) } else { Err(found.to_string()) }
    });
}

#[test]
fn metrics_have_upstreams_names() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_claim(&test, "files");
    test.put_configuration("files", &claim_target("files", "files"), "");
    test.run(CONFIGURATION, "files", "Succeeded");
    let of_tenant = |metrics: &str, name: &str| {
        let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(&test.tenant.name));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    wait_for("the metrics of the session", 30, || {
        let metrics = test.server.metrics();
        for name in METRICS {
            let found = of_tenant(&metrics, name);
            let has_value =
                found.iter().any(|line| line.rsplit(' ').next().is_some_and(|value| value != "0"));
            if !has_value {
                return Err(format!("{name}: {found:?}"));
            }
        }
        Ok(())
    });
    for name in METRICS {
        let line = of_tenant(&test.server.metrics(), name).pop().unwrap();
        assert!(!line.contains(&s3().access_key), "{name}");
    }
}

/// Of each group one, under the older and the newer prefix.
const METRICS: [&str; 6] = [
    "stash_backup_session_success{",
    "stash_appscode_com_backupsession_success{",
    "stash_appscode_com_backupsession_duration_seconds{",
    "stash_appscode_com_backupsession_host_data_size_bytes{",
    "stash_repository_snapshot_count{",
    "stash_appscode_com_repository_size_bytes{",
];

#[test]
fn wiping_out_waits_for_other_users_and_leaves_other_files() {
    let test = StashTest::start();
    let backend = test.s3_backend("repo");
    test.put_repository_with("repo", &backend, "  wipeOut: true\n");
    put_claim(&test, "files");
    test.put_configuration("files", &claim_target("files", "files"), "");
    test.run(CONFIGURATION, "files", "Succeeded");
    let bucket = Bucket::below(&test.tenant.name);
    let foreign = tempfile::NamedTempFile::new().unwrap();
    fs::write(foreign.path(), "of somebody else").unwrap();
    bucket.put("repo/foreign", foreign.path());
    test.kubectl().args(["delete", "repository.stash.appscode.com", "repo", "--wait=false"]).ok();
    wait_for("the reason why it stays", 60, || {
        let found = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", "repo"]);
        let (status, message) = condition(&found, "DataWipedOut");
        if status == "False" && message.contains("files") { Ok(()) } else { Err(found["status"].to_string()) }
    });
    assert_eq!(test.backups("repo").len(), 1, "it is in use, so nothing is deleted");
    test.delete(&["backupconfiguration", "files"]);
    wait_for("the end of the Repository", 120, || {
        let found = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", "repo"]);
        if found.is_null() { Ok(()) } else { Err(found["status"].to_string()) }
    });
    let left: Vec<String> = bucket.keys().into_iter().filter(|key| key.starts_with("repo/")).collect();
    assert_eq!(left, ["repo/foreign"]);
}

/// A Repository that is deleted without `wipeOut` keeps its data, and finds it again.
#[test]
fn a_repository_that_is_made_again_has_the_snapshots_from_before() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_claim(&test, "files");
    test.put_configuration("files", &claim_target("files", "files"), "");
    test.run(CONFIGURATION, "files", "Succeeded");
    test.delete(&["backupconfiguration", "files"]);
    test.delete(&["repository.stash.appscode.com", "repo"]);
    // Under another name, as after the loss of a cluster.
    let name = unique("again");
    test.put_repository_with(&name, &test.s3_backend("repo"), "");
    wait_for("the snapshots", 90, || {
        let found = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", &name]);
        if found["status"]["snapshotCount"] == 1 { Ok(()) } else { Err(found["status"].to_string()) }
    });
}
