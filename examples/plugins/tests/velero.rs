//! The examples under Velero's own code for plugins (`e2e/plugins/recorder/velerohost`): what is written for Lifeboat runs
//! there too. `cargo xtask test plugins` builds the host and names it in the environment.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use lifeboat_plugin_sdk::serde_json::{self, Value, json};

#[test]
fn velero_loads_the_examples_and_calls_them() {
    let host = std::env::var("LIFEBOAT_VELERO_HOST").expect("run `cargo xtask test plugins`");
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    symlink(env!("CARGO_BIN_EXE_wait-for-database"), path("plugins").join("wait")).unwrap();
    symlink(env!("CARGO_BIN_EXE_directory-snapshotter"), path("plugins").join("snapshotter")).unwrap();
    fs::write(path("volume").join("file"), "content").unwrap();
    let output = Command::new(host)
        .args(["server", "--log-level=debug"])
        .env("HOST_PLUGINS", path("plugins"))
        .env("HOST_VOLUME", path("volume"))
        .env("HOST_SNAPSHOTS", path("snapshots"))
        .env("HOST_VOLUMES", path("volumes"))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let answers: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answers["kind of example.io/wait-for-database"], "RestoreItemActionV2");
    assert_eq!(answers["kind of example.io/directory-snapshotter"], "VolumeSnapshotter");
    assert_eq!(answers["applies to"], json!(["deployments.apps", "statefulsets.apps", "pods"]));
    assert_eq!((&answers["waits"], &answers["ready"]), (&json!(true), &json!(false)));
    assert_eq!((&answers["timeout"], &answers["additional"]), (&json!("1m30s"), &json!("services db")));
    assert_eq!(answers["snapshot"], "nightly-pv-1");
    let restored = answers["volume"].as_str().unwrap();
    assert_eq!(fs::read_to_string(format!("{restored}/file")).unwrap(), "content");
    assert!(answers["error"].as_str().unwrap().contains("cannot copy"), "{answers}");
    assert!(log.contains("waits for its database"), "the plugin's log lines reach Velero's log: {log}");
    assert!(log.contains("pluginName=wait"), "{log}");
}
