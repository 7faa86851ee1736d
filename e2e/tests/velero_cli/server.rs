//! What the stock command line learns about the server.

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
fn the_list_of_plugins_is_empty_and_not_an_error() {
    Installation::ensure().leader();
    // This command prints errors on standard output with exit code 0, and nothing where there is no plugin.
    let said = velero().args(["plugin", "get", "--timeout", "30s"]).ok();
    assert_eq!(said, "");
}

#[test]
fn every_list_of_the_stock_client_answers() {
    Installation::ensure();
    for kind in ["backup", "restore", "schedule", "backup-location", "snapshot-location", "repo"] {
        let said = velero().args([kind, "get"]).ok();
        assert!(said.is_empty() || said.starts_with("NAME"), "{kind}: {said}");
    }
}
