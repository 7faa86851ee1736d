//! What stock Velero's command line shows about the server.

use lifeboat_e2e::{Installation, velero};

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

#[test]
fn every_list_of_the_stock_client_answers() {
    Installation::ensure();
    for kind in ["backup", "restore", "schedule", "backup-location", "snapshot-location", "repo"] {
        let said = velero().args([kind, "get"]).ok();
        assert!(said.is_empty() || said.starts_with("NAME"), "{kind}: {said}");
    }
}
