//! Storage that becomes full, disappears or stops answering during a backup.

use lifeboat_e2e::{Fault, HostServer, Namespace, wait_for};
use rstest::rstest;

use super::{backup, fill};

fn refused(code: &str, message: &str) -> String {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>")
}

#[rstest]
#[case::full(
    Fault::Answer(403, refused("QuotaExceeded", "the bucket is full")),
    &["QuotaExceeded", "the bucket is full"]
)]
#[case::gone(
    Fault::Answer(404, refused("NoSuchBucket", "the bucket does not exist")),
    &["bucket"]
)]
fn a_backup_says_why_storage_did_not_take_it(#[case] fault: Fault, #[case] texts: &[&str]) {
    let server = HostServer::start("nostore", &[]);
    let app = Namespace::new("nostore-app");
    fill(&app, 5);
    server.storage.close("PUT", "", fault, usize::MAX);
    let made = backup(&server, "refused", &app.name);
    server.assert_phase(&made, &["Failed"]);
    let reason = made["status"]["failureReason"].as_str().unwrap();
    for text in texts {
        assert!(reason.contains(text), "{text:?} is not in {reason:?}");
    }
    server.storage.open();
    assert_nothing_is_left(&server, "refused");
    // The next backup is not affected.
    server.backup_and_compare("next", &[&app.name], &[]);
}

#[test]
fn a_bucket_that_fills_up_half_way_leaves_nothing_behind() {
    let server = HostServer::start("halfway", &[]);
    let app = Namespace::new("halfway-app");
    app.fill_with_large_objects();
    let full = Fault::Answer(403, refused("QuotaExceeded", "the bucket is full"));
    server.storage.close("PUT", "partNumber=3", full, usize::MAX);
    let made = backup(&server, "halfway", &app.name);
    server.assert_phase(&made, &["Failed"]);
    assert!(made["status"]["failureReason"].as_str().unwrap().contains("full"), "{}", made["status"]);
    let parts = server.storage.seen().iter().filter(|line| line.contains("partNumber=1")).count();
    assert!(parts > 0, "no part was uploaded before the bucket was full");
    server.storage.open();
    assert_nothing_is_left(&server, "halfway");
}

#[test]
fn a_backup_ends_when_storage_breaks_every_connection() {
    let server = HostServer::start("cutstore", &["--storage-outage-timeout=5s"]);
    let app = Namespace::new("cutstore-app");
    fill(&app, 5);
    server.storage.close("PUT", "", Fault::Cut, usize::MAX);
    let made = backup(&server, "cut", &app.name);
    server.assert_phase(&made, &["Failed"]);
    server.storage.open();
    assert_nothing_is_left(&server, "cut");
}

#[test]
fn a_backup_survives_storage_that_breaks_some_connections() {
    let server = HostServer::start("flaky", &[]);
    let app = Namespace::new("flaky-app");
    fill(&app, 5);
    server.storage.close("PUT", ".tar.gz", Fault::Cut, 1);
    server.storage.close("PUT", "-logs.gz", Fault::Answer(503, refused("SlowDown", "slow down")), 2);
    server.backup_and_compare("flaky", &[&app.name], &[]);
    assert!(server.described("backup", "flaky").contains("map-4"));
}

#[test]
fn a_backup_waits_for_storage_that_is_away_and_says_since_when() {
    let server = HostServer::start("awaystore", &[]);
    let app = Namespace::new("awaystore-app");
    fill(&app, 5);
    server.storage.close("PUT", "", Fault::Cut, usize::MAX);
    let namespace = ["--include-namespaces", &app.name];
    server.lifeboat().args(["backup", "create", "away"]).args(namespace).ok();
    // Longer than the seven tries of a request that does not wait.
    wait_for("the backup to show what it waits for", 60, || {
        let said = server.described("backup", "away");
        if said.contains("the backup waits for storage location default") { Ok(()) } else { Err(said) }
    });
    server.storage.open();
    let made = server.ended("backup", "away");
    server.assert_restores(&made, &[&app.name]);
    assert!(!server.described("backup", "away").contains("waits for"));
}

/// It is not listed as a backup, and no upload is left open.
fn assert_nothing_is_left(server: &HostServer, name: &str) {
    wait_for("open uploads to go", 60, || {
        let open = server.bucket.open_uploads();
        if open.is_empty() { Ok(()) } else { Err(format!("{open:?}")) }
    });
    let last = format!("backups/{name}/velero-backup.json");
    let keys = server.bucket.keys();
    assert!(!keys.contains(&last), "{keys:?}");
}
