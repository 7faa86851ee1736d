//! The program without a cluster: help, output, exit codes.
#![allow(clippy::unwrap_used)] // tests end by panicking

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn lifeboat(arguments: &[&str]) -> Output {
    run(Path::new(env!("CARGO_BIN_EXE_lifeboat")), arguments)
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", "/nonexistent").env("HOME", "/nonexistent");
    command.env_remove("LIFEBOAT_NAMESPACE").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn called_as_kubectl_plugin_help_shows_what_the_user_typed() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("kubectl-lifeboat");
    symlink(env!("CARGO_BIN_EXE_lifeboat"), &plugin).unwrap();
    let help = stdout(&run(&plugin, &["backup-location", "--help"]));
    assert!(help.contains("Usage: kubectl lifeboat backup-location"), "{help}");
}

#[test]
fn crds_prints_what_is_installed_and_with_all_every_kind() {
    let installed = stdout(&lifeboat(&["crds"]));
    assert!(installed.contains("name: backups.velero.io") && installed.contains("name: backupbatches.stash"));
    assert!(!installed.contains("name: recoveries.stash"), "no controller reconciles these");
    let of_velero = stdout(&lifeboat(&["crds", "--stash=false"]));
    assert!(of_velero.contains("name: backups.velero.io") && !of_velero.contains("appscode.com"));
    let all = stdout(&lifeboat(&["crds", "--all", "-o", "table"]));
    assert!(
        all.contains("BackupBatch") && all.contains("AppBinding") && all.contains("VolumePluginRestore"),
        "{all}"
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lifeboat"))
        .args(["crds", "--all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
}

#[test]
fn every_shell_gets_a_completion_script() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&lifeboat(&["completion", shell]));
        assert!(script.contains("backup-location"), "{shell}");
    }
}

#[test]
fn without_a_cluster_the_error_says_how_to_name_one() {
    let output = lifeboat(&["backup-location", "get"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--context"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_ends_with_2_and_refusals_with_4() {
    assert_eq!(lifeboat(&["backup-location", "create"]).status.code(), Some(2));
    let output = lifeboat(&["uninstall", "--delete-crds"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("--yes-delete-every-backup-object"), "{}", stderr(&output));
}

#[test]
fn create_with_output_prints_the_object_and_needs_no_cluster() {
    let arguments = ["backup-location", "create", "x", "--provider", "aws", "--bucket", "b", "-o", "yaml"];
    let output = lifeboat(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("kind: BackupStorageLocation"));
}

#[test]
fn a_misspelt_log_level_is_refused_before_the_server_starts() {
    let output = lifeboat(&["server", "--log-level", "inof"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("inof"), "{}", stderr(&output));
}
