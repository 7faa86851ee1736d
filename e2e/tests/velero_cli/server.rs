//! What stock Velero's command line shows about the server.

use lifeboat_e2e::{Installation, apply, velero};

use super::{Own, row};

#[test]
fn version_shows_a_server_that_needs_no_warning() {
    Installation::ensure().leader();
    let said = velero().args(["version", "--timeout", "30s"]).ok();
    let (client, server) =
        said.split_once("Server:").unwrap_or_else(|| panic!("no server answered:\n{said}"));
    assert!(client.contains("Version: v1.18.3\n"), "{said}");
    assert!(server.contains("Version: v1.18."), "{said}");
    assert!(!said.contains("WARNING"), "{said}");
}

#[test]
fn the_list_of_plugins_has_the_actions_that_are_built_in() {
    Installation::ensure().leader();
    // This command prints errors on standard output with exit code 0.
    let said = velero().args(["plugin", "get", "--timeout", "30s"]).ok();
    assert!(said.starts_with("NAME"), "{said}");
    let pod =
        |line: &str| line.starts_with("velero.io/pod ") && line.trim_end().ends_with("BackupItemAction");
    assert!(said.lines().any(pod), "{said}");
}

/// Objects that no controller works on, one for each list, each with the same name: an empty list prints nothing.
const LISTED: [(&str, &str, &str, &str); 5] = [
    ("backup", "backups.velero.io", "Backup", "spec: {}, status: {phase: Failed}"),
    ("restore", "restores.velero.io", "Restore", "spec: {backupName: listed}, status: {phase: Failed}"),
    (
        "schedule",
        "schedules.velero.io",
        "Schedule",
        "spec: {schedule: '0 0 1 1 *', paused: true, template: {}}, status: {phase: Enabled}",
    ),
    (
        "snapshot-location",
        "volumesnapshotlocations",
        "VolumeSnapshotLocation",
        "spec: {provider: example.io/none}",
    ),
    (
        "repo",
        "backuprepositories",
        "BackupRepository",
        "spec: {backupStorageLocation: none, volumeNamespace: listed, repositoryType: restic, \
         resticIdentifier: '', maintenanceFrequency: 24h0m0s}",
    ),
];

#[test]
fn every_list_of_the_stock_client_answers() {
    Installation::ensure();
    let table = velero().args(["backup-location", "get"]).ok();
    assert_eq!(row(&table, "default").first(), Some(&"default"), "{table}");
    for (list, resource, kind, content) in LISTED {
        let _object = Own::new(resource, "cli-listed");
        let metadata = "metadata: {name: cli-listed, namespace: lifeboat}";
        apply(&format!("{{apiVersion: velero.io/v1, kind: {kind}, {metadata}, {content}}}"));
        let table = velero().args([list, "get"]).ok();
        assert!(table.starts_with("NAME"), "{list}: {table}");
        assert_eq!(row(&table, "cli-listed").first(), Some(&"cli-listed"), "{list}: {table}");
    }
}
