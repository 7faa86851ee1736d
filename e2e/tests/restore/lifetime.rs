//! Expiry, sync of backups whose files are gone, read-only locations, downloads through the server.

use std::net::TcpListener;

use lifeboat_e2e::{HostServer, Namespace, get, wait_for};

fn small(prefix: &str, flags: &[&str]) -> (HostServer, Namespace) {
    let server = HostServer::start(prefix, flags);
    let app = Namespace::new(&format!("{prefix}-app"));
    app.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\n");
    (server, app)
}

fn wait_until_gone(server: &HostServer, name: &str) {
    wait_for(&format!("the end of Backup {name}"), 240, || {
        let found = get(&["-n", &server.namespace, "backups.velero.io", name]);
        if found.is_null() { Ok(()) } else { Err(found["status"].to_string()) }
    });
}

#[test]
fn an_expired_backup_goes_from_cluster_and_bucket_and_others_stay() {
    let (server, app) = small("expired", &["--garbage-collection-frequency=5s"]);
    server.assert_phase(&server.backup("long", &["--include-namespaces", &app.name]), &["Completed"]);
    let short = server.backup("short", &["--include-namespaces", &app.name, "--ttl", "10s"]);
    server.assert_phase(&short, &["Completed"]);
    wait_until_gone(&server, "short");
    let keys = server.bucket.keys();
    assert!(!keys.iter().any(|key| key.starts_with("backups/short/")), "{keys:?}");
    assert!(keys.iter().any(|key| key == "backups/long/velero-backup.json"), "{keys:?}");
    assert_eq!(get(&["-n", &server.namespace, "backups.velero.io", "long"])["status"]["phase"], "Completed");
}

#[test]
fn a_backup_that_is_gone_from_the_bucket_goes_from_the_cluster() {
    let (server, app) = small("unsynced", &[]);
    for name in ["stays", "goes"] {
        server.assert_phase(&server.backup(name, &["--include-namespaces", &app.name]), &["Completed"]);
    }
    for key in server.bucket.keys() {
        if key.starts_with("backups/goes/") {
            server.bucket.delete(&key);
        }
    }
    // The box's S3 server lists a directory for a while after its last object was deleted.
    wait_until_gone(&server, "goes");
    assert_eq!(get(&["-n", &server.namespace, "backups.velero.io", "stays"])["status"]["phase"], "Completed");
}

#[test]
fn a_read_only_location_takes_no_backup_and_loses_none() {
    let (server, app) = small("readonly", &[]);
    server.assert_phase(&server.backup("before", &["--include-namespaces", &app.name]), &["Completed"]);
    let patch = "{\"spec\":{\"accessMode\":\"ReadOnly\"}}";
    server.kubectl().args(["patch", "bsl", "default", "--type=merge", "-p", patch]).ok();
    let keys = server.bucket.keys();
    let refused =
        server.lifeboat().args(["backup", "create", "after", "--include-namespaces", &app.name]).run();
    if refused.code == 0 {
        server.assert_phase(&server.ended("backup", "after"), &["FailedValidation"]);
    } else {
        assert!(refused.stderr.to_lowercase().contains("read"), "{}", refused.stderr);
    }
    server.lifeboat().args(["backup", "delete", "before", "--confirm"]).run();
    wait_for("a word about the deletion", 60, || {
        let requests = get(&["-n", &server.namespace, "deletebackuprequests.velero.io"]);
        let text = requests.to_string();
        if text.contains("read-only") || text.contains("ReadOnly") { Ok(()) } else { Err(text) }
    });
    assert_eq!(server.bucket.keys(), keys, "a read-only location was changed");
}

#[test]
fn files_come_through_the_server_where_it_says_so() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("--download-url=http://127.0.0.1:{port}");
    let address = format!("--download-address=127.0.0.1:{port}");
    let (server, app) = small("through", &[&url, &address]);
    server.assert_phase(&server.backup("whole", &["--include-namespaces", &app.name]), &["Completed"]);
    let seen = server.storage.seen().len();
    let log = server.lifeboat().args(["backup", "logs", "whole"]).ok();
    assert!(log.contains("Backed up"), "{log}");
    assert!(server.storage.seen().len() > seen, "the server did not fetch the file");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("whole.tar.gz");
    server.lifeboat().args(["backup", "download", "whole", "-o", &file.to_string_lossy()]).ok();
    lifeboat_e2e::Program::new("tar").args(["-tzf", &file.to_string_lossy()]).ok();
}
