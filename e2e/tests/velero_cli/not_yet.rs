//! Kinds that the stock command line makes and this version does not serve: each is ended at once, and the commands
//! that people look with say why.

use std::time::{Duration, Instant};

use lifeboat_e2e::{Installation, get, velero, wait_for};
use serde_json::Value;

use super::{Own, row};

/// "At once", on two busy cores.
const AT_ONCE: u64 = 20;

const WORDS: &str = "not supported by this version";

/// Waits until the object has an end; gives its status.
fn ended(kind: &str, name: &str) -> Value {
    wait_for(&format!("the end of {kind} {name}"), AT_ONCE, || {
        let object = get(&["-n", "lifeboat", kind, name]);
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        if phase.starts_with("Failed") { Ok(object["status"].clone()) } else { Err(object.to_string()) }
    })
}

fn create_backup(name: &str) {
    let said = velero().args(["backup", "create", name, "--include-namespaces", "default"]).ok();
    assert!(said.contains("submitted successfully"), "{said}");
}

/// `velero KIND describe NAME`. It asks for files of the backup with a DownloadRequest and waits half a minute for an
/// answer; the server must end that wait, and leave no request behind.
fn describe(kind: &str, name: &str) -> String {
    let start = Instant::now();
    let said = velero().args([kind, "describe", name]).ok();
    assert!(start.elapsed() < Duration::from_secs(AT_ONCE), "describe took {:?}:\n{said}", start.elapsed());
    let requests = get(&["-n", "lifeboat", "downloadrequests.velero.io"]);
    let left =
        requests["items"].as_array().into_iter().flatten().find(|it| it["spec"]["target"]["name"] == name);
    assert_eq!(left, None);
    said
}

#[test]
fn a_backup_fails_at_once_and_describe_says_why() {
    Installation::ensure().leader();
    let _backup = Own::new("backups.velero.io", "cli-backup");
    create_backup("cli-backup");
    let status = ended("backups.velero.io", "cli-backup");
    assert!(status.to_string().contains(WORDS), "{status}");
    let table = velero().args(["backup", "get", "cli-backup"]).ok();
    assert_eq!(row(&table, "cli-backup")[1], status["phase"], "{table}");
    let said = describe("backup", "cli-backup");
    assert!(said.contains(WORDS), "{said}");
}

#[test]
fn deleting_a_backup_is_refused_in_words_that_describe_shows() {
    Installation::ensure().leader();
    let _backup = Own::new("backups.velero.io", "cli-undeletable");
    create_backup("cli-undeletable");
    ended("backups.velero.io", "cli-undeletable");
    velero().args(["backup", "delete", "cli-undeletable", "--confirm"]).ok();
    let selector =
        ["-n", "lifeboat", "deletebackuprequests.velero.io", "-l", "velero.io/backup-name=cli-undeletable"];
    let name = wait_for("the end of the request", AT_ONCE, || {
        let list = get(&selector);
        let request = &list["items"][0];
        match request["metadata"]["name"].as_str() {
            Some(name) if request["status"]["phase"] == "Processed" => Ok(name.to_owned()),
            _ => Err(list.to_string()),
        }
    });
    let _request = Own { kind: "deletebackuprequests.velero.io", name: &name };
    let said = describe("backup", "cli-undeletable");
    let (_, deletion) = said.split_once("Deletion Attempts").unwrap_or_else(|| panic!("{said}"));
    assert!(deletion.contains(WORDS), "{said}");
}

#[test]
fn a_restore_fails_at_once_and_describe_says_why() {
    Installation::ensure().leader();
    let _backup = Own::new("backups.velero.io", "cli-source");
    create_backup("cli-source");
    ended("backups.velero.io", "cli-source");
    let _restore = Own::new("restores.velero.io", "cli-restore");
    velero().args(["restore", "create", "cli-restore", "--from-backup", "cli-source"]).ok();
    let status = ended("restores.velero.io", "cli-restore");
    assert!(status.to_string().contains(WORDS), "{status}");
    let table = velero().args(["restore", "get", "cli-restore"]).ok();
    assert_eq!(row(&table, "cli-restore")[2], status["phase"], "{table}");
    let said = describe("restore", "cli-restore");
    assert!(said.contains(WORDS), "{said}");
}

#[test]
fn a_restore_from_nothing_is_refused_by_the_client_itself() {
    Installation::ensure();
    let said =
        velero().args(["restore", "create", "cli-nothing", "--from-backup", "cli-no-such-backup"]).refused();
    assert!(said.contains("\"cli-no-such-backup\" not found"), "{said}");
    assert_eq!(get(&["-n", "lifeboat", "restores.velero.io", "cli-nothing"]), Value::Null);
}
