//! Databases with continuous writes, backed up with each method, are restored consistently.

use lifeboat_e2e::{Databases, HostServer};

#[test]
fn databases_under_writes_come_back_consistent_by_copied_files() {
    let server = HostServer::start("databases", &[]);
    Databases::start("bank").round_trip(&server, "files", &["--default-volumes-to-fs-backup"]);
}

#[test]
fn databases_under_writes_come_back_consistent_by_snapshots() {
    let server = HostServer::start("databases", &[]);
    Databases::start("bank").round_trip(&server, "snapshots", &[]);
}

#[test]
fn databases_under_writes_come_back_consistent_by_moved_snapshots() {
    let server = HostServer::start("databases", &[]);
    Databases::start("bank").round_trip(&server, "moved", &["--snapshot-move-data"]);
}
