//! Two replicas of a server with a gateway each, behind one address: a mover at work does not notice which of them answers.

use std::fs;
use std::net::TcpStream;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{Balancer, Engine, Fault, RESTORE_SESSIONS, StashTest, contents, wait_for};
use rstest::rstest;

use super::isolation::{allow, configuration_elsewhere, restore_elsewhere};
use super::workloads::{dead_movers, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";
const LEADER: &str = "one";
const STANDBY: &str = "two";

/// Two namespaces of one server, the second of which may use Repository `repo` of the first.
fn vault_and_shop(balancer: &Balancer) -> (StashTest, StashTest) {
    let mut vault = StashTest::alone(&[&format!("--gateway-url={}", balancer.url())]);
    vault.add_replica(STANDBY);
    vault.server.wait_for_leader(LEADER);
    let shop = vault.beside();
    shop.delete(&["secret", "keys"]);
    vault.put_repository("repo");
    allow(&vault, &shop);
    (vault, shop)
}

/// The other replica.
fn other(replica: &str) -> &'static str {
    if replica == LEADER { STANDBY } else { LEADER }
}

/// Movers reach this replica, and the other one when it is gone.
fn prefer(balancer: &Balancer, vault: &StashTest, replica: &str) {
    for identity in [LEADER, STANDBY] {
        wait_for("the gateway of each replica", 60, || {
            TcpStream::connect(vault.server.gateway(identity)).map(drop).map_err(|error| error.to_string())
        });
    }
    balancer.set(&[replica, other(replica)].map(|identity| vault.server.gateway(identity)));
}

/// The requests to storage with this method that are about data.
fn requests(vault: &StashTest, method: &str) -> usize {
    let is_one = |line: &&String| line.starts_with(method) && line.contains("/data/");
    vault.storage.seen().iter().filter(is_one).count()
}

/// Kills a replica while the mover's requests through it are held, and lets those through the other one pass.
fn kill_at_work(vault: &StashTest, replica: &str, method: &str) {
    vault.storage.wait_until_reached(120);
    let before = requests(vault, method);
    vault.server.signal("-KILL", replica);
    wait_for("requests through the other replica", 120, || {
        let now = requests(vault, method);
        if now > before { Ok(()) } else { Err(format!("{now} requests")) }
    });
    vault.storage.open();
    vault.server.wait_for_leader(other(replica));
}

/// A Deployment of the second namespace that is backed up to the first; gives its content.
fn put_shop(vault: &StashTest, shop: &StashTest) -> Listing {
    let before = put_deployment(shop, "web");
    shop.tenant.apply(&configuration_elsewhere(vault));
    shop.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    before
}

fn assert_whole(vault: &StashTest, shop: &StashTest) {
    shop.assert_no_mover_is_left();
    vault.repository("repo").ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
    vault.assert_nothing_is_left("repo");
}

#[rstest]
#[case::the_leader(LEADER)]
#[case::the_standby(STANDBY)]
fn a_backup_through_the_gateway_goes_on_without(#[case] killed: &str) {
    let balancer = Balancer::start();
    let (vault, shop) = vault_and_shop(&balancer);
    prefer(&balancer, &vault, killed);
    let before = put_shop(&vault, &shop);
    vault.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let session = shop.begin(CONFIGURATION, "nightly");
    kill_at_work(&vault, killed, "PUT");
    let session = shop.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{:#}", session["status"]);
    assert_eq!(dead_movers(&session), 0, "the mover went on: {session}");
    vault.assert_stored("repo", "app", "/source/data", &before);
    assert_eq!(vault.snapshots("repo"), ["app /source/data"]);
    // The one that is left serves the next session as well.
    shop.run(CONFIGURATION, "nightly", "Succeeded");
    assert_whole(&vault, &shop);
}

#[rstest]
#[case::the_leader(LEADER)]
#[case::the_standby(STANDBY)]
fn a_restore_through_the_gateway_goes_on_without(#[case] killed: &str) {
    let balancer = Balancer::start();
    let (vault, shop) = vault_and_shop(&balancer);
    prefer(&balancer, &vault, killed);
    let before = put_shop(&vault, &shop);
    shop.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(shop.directory("web", 0, "data").join("which"), "damaged").unwrap();
    vault.storage.close("GET", "/data/", Fault::Hold, 1000);
    shop.tenant.apply(&restore_elsewhere(&vault));
    kill_at_work(&vault, killed, "GET");
    let back = shop.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert!(back["status"]["stats"][0]["deadOwners"].is_null(), "the mover went on: {back}");
    shop.wait_for_ready("web", 1);
    before.assert_same(&contents(&shop.directory("web", 0, "data")), "restored");
    assert_whole(&vault, &shop);
}
