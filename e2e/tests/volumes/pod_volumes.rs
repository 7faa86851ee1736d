//! File copies of pod volumes: backup, restore, deletion.

use lifeboat_e2e::{DataApp, Engine, HostServer, VOLUMES, contents, get};
use serde_json::Value;

/// All objects of a kind that belong to a backup or restore.
fn of(server: &HostServer, kind: &str, label: &str, name: &str) -> Vec<Value> {
    let list = get(&["-n", &server.namespace, kind, "-l", &format!("{label}={name}")]);
    list["items"].as_array().cloned().unwrap()
}

fn backed_up(server: &HostServer, app: &DataApp, name: &str) {
    let namespace = app.namespace.name.clone();
    let flags = ["--include-namespaces", &namespace, "--default-volumes-to-fs-backup"];
    let backup = server.backup(name, &flags);
    server.assert_phase(&backup, &["Completed"]);
    let volumes = of(server, "podvolumebackups", "velero.io/backup-name", name);
    assert_eq!(volumes.len(), VOLUMES.len(), "{volumes:?}");
    for volume in &volumes {
        assert_eq!(volume["status"]["phase"], "Completed", "{volume}");
        assert!(!volume["status"]["snapshotID"].as_str().unwrap_or_default().is_empty(), "{volume}");
        assert_eq!(
            volume["status"]["progress"]["bytesDone"], volume["status"]["progress"]["totalBytes"],
            "{volume}"
        );
    }
    server.no_mover_is_left();
}

fn restored(server: &HostServer, app: &DataApp, name: &str, from: &str) {
    let restore = server.restore(name, from, &[]);
    server.assert_phase(&restore, &["Completed"]);
    app.wait_until_running();
    let volumes = of(server, "podvolumerestores", "velero.io/restore-name", name);
    assert_eq!(volumes.len(), VOLUMES.len(), "{volumes:?}");
    server.no_mover_is_left();
}

#[test]
fn volumes_of_pods_come_back_byte_for_byte_and_no_pod_is_disturbed() {
    let server = HostServer::start("volumes", &[]);
    let app = DataApp::start("shop");
    let (before, restarts) = (app.fill(), app.restarts());
    backed_up(&server, &app, "first");
    assert_eq!(app.restarts(), restarts, "a backup disturbs no pod");
    app.assert_same(&before);

    // The second backup adds only new data.
    std::fs::write(app.directory(VOLUMES[2]).join("new"), vec![7; 100_000]).unwrap();
    let before = app.contents();
    backed_up(&server, &app, "second");
    let second = of(&server, "podvolumebackups", "velero.io/backup-name", "second");
    let added: i64 = second.iter().map(|one| one["status"]["incrementalBytes"].as_i64().unwrap_or(0)).sum();
    assert!(added < 1_000_000, "{added} bytes were stored again");

    app.delete();
    restored(&server, &app, "back", "second");
    app.assert_same(&before);
    for seen in app.seen_at_start() {
        assert!(seen.lines().any(|line| line == "which"), "a container started before its data: {seen:?}");
    }

    // Stock restic finds no error in the repository and restores the files.
    let repository = server.repository(&app.namespace.name);
    repository.ok(Engine::Restic, &["check", "--read-data"]);
    let volume = &second[0];
    let snapshot = volume["status"]["snapshotID"].as_str().unwrap();
    let target = tempfile::tempdir().unwrap();
    repository.ok(Engine::Restic, &["restore", snapshot, "--target", target.path().to_str().unwrap()]);
    let pod = volume["spec"]["pod"]["name"].as_str().unwrap().to_owned();
    let (label, number) = if pod.starts_with("db") { ("db", pod.ends_with('1').into()) } else { ("web", 0) };
    let named = VOLUMES.into_iter().find(|(one, at, name)| {
        *one == label && *at == number && volume["spec"]["volume"].as_str() == Some(name)
    });
    let mut found = contents(target.path());
    let mut expected = before[&named.unwrap()].clone();
    for listing in [&mut found, &mut expected] {
        listing.0.remove(std::path::Path::new(""));
    }
    expected.assert_same(&found, "restored by stock restic");

    // Deleted backups free their snapshots.
    server.lifeboat().args(["backup", "delete", "first", "--confirm", "--wait"]).ok();
    let left = repository.ok(Engine::Restic, &["snapshots", "--json"]);
    let left: Vec<Value> = serde_json::from_str(&left).unwrap();
    assert_eq!(left.len(), VOLUMES.len(), "{left:?}");
    repository.ok(Engine::Restic, &["check"]);
}

#[test]
fn everything_comes_back_from_bucket_and_password_alone() {
    let mut server = HostServer::start("volumes", &[]);
    let app = DataApp::start("shop");
    let before = app.fill();
    backed_up(&server, &app, "kept");
    app.delete();
    server.lose_everything(true);
    server.wait_until_synced("kept");
    restored(&server, &app, "back", "kept");
    app.assert_same(&before);
}

#[test]
fn without_the_password_objects_come_back_and_volumes_are_named() {
    let mut server = HostServer::start("volumes", &["--fs-backup-timeout", "60s"]);
    let app = DataApp::start("shop");
    app.fill();
    backed_up(&server, &app, "kept");
    app.delete();
    server.lose_everything(false);
    server.wait_until_synced("kept");
    let restore = server.restore("back", "kept", &[]);
    server.assert_phase(&restore, &["PartiallyFailed"]);
    let said = server.described("restore", "back");
    for (_, _, volume) in VOLUMES {
        assert!(said.contains(volume), "{volume} is not named:\n{said}");
    }
    assert!(said.contains("password"), "{said}");
    let found = app.namespace.kubectl().args(["get", "statefulset,deployment,pvc", "-o", "name"]).ok();
    assert!(found.contains("statefulset.apps/db") && found.contains("uploads"), "{found}");
    server.no_mover_is_left();
}

#[test]
fn single_files_come_back_beside_what_a_running_pod_has() {
    let server = HostServer::start("volumes", &[]);
    let app = DataApp::start("shop");
    app.fill();
    backed_up(&server, &app, "kept");
    let (namespace, volume) = (&app.namespace.name, VOLUMES[2]);
    let directory = app.directory(volume);
    let whole = contents(&directory);
    std::fs::write(directory.join("which"), "damaged").unwrap();
    let (claim, restarts) = (format!("{namespace}/data-db-1"), app.restarts());
    let restore = |from: &str, to: &str, into: &str| {
        let from = format!("{namespace}/{from}");
        server.lifeboat().args(["volume", "restore", "kept", &from, "--to-volume", to, "--directory", into])
    };
    restore("data-db-1:/which", &claim, "one").ok();
    assert_eq!(std::fs::read(directory.join("which")).unwrap(), b"damaged", "what is there stays");
    let names = |at: &std::path::Path| {
        let mut names: Vec<_> = std::fs::read_dir(at).unwrap().map(|one| one.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&directory.join("one")), ["which"]);
    // All files of another volume, into one without a claim.
    let cache = format!("{namespace}/db-1/cache");
    restore("data-db-1", &cache, "all").ok();
    let (mut found, mut expected) = (contents(&app.directory(VOLUMES[3]).join("all")), whole);
    for listing in [&mut found, &mut expected] {
        listing.0.remove(std::path::Path::new(""));
    }
    expected.assert_same(&found, "beside others");
    assert_eq!(app.restarts(), restarts, "no pod is disturbed");
    // Impossible requests are refused, and nothing is left.
    let missing = restore("data-db-1:/nothing", &claim, "two").refused();
    assert!(missing.contains("/nothing: the snapshot does not have it"), "{missing}");
    let refusal = restore("data-db-1", &format!("{namespace}/other"), "two").refused();
    assert!(refusal.contains("no pod of namespace"), "{refusal}");
    let left = get(&["-n", &server.namespace, "podvolumerestores"]);
    assert!(left["items"].as_array().is_none_or(Vec::is_empty), "{left}");
    server.no_mover_is_left();
}
