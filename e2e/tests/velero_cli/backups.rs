//! `velero backup` and `velero restore`, all commands: their users find what they expect.

use std::fs;

use lifeboat_e2e::{Installation, Namespace, get, velero, wait_for};
use serde_json::Value;

use super::row;

/// A name that no other run uses, because buckets outlive clusters.
fn unique(prefix: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{prefix}-{}", now.as_millis())
}

fn installed() {
    Installation::ensure().wait_for_phase("default", "Available", 60);
}

#[test]
fn a_backup_is_made_shown_downloaded_restored_and_deleted() {
    installed();
    let namespace = Namespace::new("stock");
    namespace.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: one}\n");
    let name = unique("stock");
    let made =
        velero().args(["backup", "create", &name, "--include-namespaces", &namespace.name, "--wait"]).ok();
    assert!(made.contains("completed with status: Completed"), "{made}");
    let table = velero().args(["backup", "get", &name]).ok();
    assert_eq!(row(&table, &name)[1], "Completed", "{table}");
    let described = velero().args(["backup", "describe", &name, "--details"]).ok();
    for text in ["Phase:  Completed", "Resource List:", &format!("{}/settings", namespace.name)] {
        assert!(described.contains(text), "{text:?} is not in:\n{described}");
    }
    let logs = velero().args(["backup", "logs", &name]).ok();
    assert!(logs.contains("level=info"), "{logs}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("backup.tar.gz");
    velero().args(["backup", "download", &name, "-o", &file.to_string_lossy()]).ok();
    let listed = lifeboat_e2e::Program::new("tar").args(["tzf", &file.to_string_lossy()]).ok();
    let entry = format!("resources/configmaps/namespaces/{}/settings.json", namespace.name);
    assert!(listed.lines().any(|line| line == entry), "{listed}");
    assert!(fs::metadata(&file).unwrap().len() > 100);

    namespace.kubectl().args(["delete", "configmap", "settings"]).ok();
    let restored = velero().args(["restore", "create", &name, "--from-backup", &name, "--wait"]).ok();
    assert!(restored.contains("completed with status: Completed"), "{restored}");
    assert_eq!(get(&["-n", &namespace.name, "configmap", "settings"])["data"]["a"], "one");
    let table = velero().args(["restore", "get", &name]).ok();
    assert_eq!(row(&table, &name)[2], "Completed", "{table}");
    let described = velero().args(["restore", "describe", &name, "--details"]).ok();
    assert!(described.contains(&format!("{}/settings(created)", namespace.name)), "{described}");
    assert!(velero().args(["restore", "logs", &name]).ok().contains("level=info"));

    velero().args(["backup", "delete", &name, "--confirm"]).ok();
    wait_for("the backup to be gone", 60, || {
        let found = get(&["-n", "lifeboat", "backups.velero.io", &name]);
        if found.is_null() { Ok(()) } else { Err(found["status"].to_string()) }
    });
}

#[test]
fn a_restore_from_nothing_is_refused_by_the_client_itself() {
    installed();
    let said =
        velero().args(["restore", "create", "cli-nothing", "--from-backup", "cli-no-such-backup"]).refused();
    assert!(said.contains("\"cli-no-such-backup\" not found"), "{said}");
    assert_eq!(get(&["-n", "lifeboat", "restores.velero.io", "cli-nothing"]), Value::Null);
}
