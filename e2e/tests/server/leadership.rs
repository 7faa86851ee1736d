//! One replica is the leader; if it fails, another one takes over.

use lifeboat_e2e::{
    Installation, everything_works, get, kubectl, process_of, restart_api_server, signal, wait_for,
    wait_for_another,
};

/// How long leadership may take to move, or to return.
const MOVE: u64 = 20;

#[test]
fn deleting_the_leader_moves_leadership() {
    let installation = Installation::ensure();
    let old = installation.leader();
    installation.kubectl().args(["delete", "pod", &old, "--grace-period=0", "--force"]).ok();
    wait_for_another(&old);
    everything_works("after-delete");
}

#[test]
fn a_leader_that_is_killed_is_replaced_or_comes_back() {
    let installation = Installation::ensure();
    let renewed = || get(&["-n", "lifeboat", "lease", "lifeboat-server"])["spec"]["renewTime"].to_string();
    signal("-KILL", &process_of(&installation.leader()));
    let last = renewed();
    wait_for("a renewed lease", MOVE, || {
        let now = renewed();
        if now == last { Err(now) } else { Ok(()) }
    });
    everything_works("after-kill");
}

#[test]
fn a_leader_that_hangs_loses_its_lease_and_does_not_lead_when_it_wakes_up() {
    let installation = Installation::ensure();
    let old = installation.leader();
    let process = process_of(&old);
    signal("-STOP", &process);
    let outcome = std::panic::catch_unwind(|| wait_for_another(&old));
    signal("-CONT", &process);
    let new = outcome.unwrap();
    // The old leader notices and reports it in its metrics; the new one stays the leader.
    wait_for("the old leader's word", 30, || {
        let path = format!("/api/v1/namespaces/lifeboat/pods/{old}:8085/proxy/metrics");
        let output = kubectl().args(["get", "--raw", &path]).run();
        if output.stdout.contains("\nlifeboat_leader 0\n") { Ok(()) } else { Err(output.stdout) }
    });
    // Metrics of a leader disappear with the lease.
    let path = format!("/api/v1/namespaces/lifeboat/pods/{old}:8085/proxy/metrics");
    let metrics = kubectl().args(["get", "--raw", &path]).ok();
    assert!(!metrics.contains("\nvelero_backup_location_status_gauge{"), "{metrics}");
    assert_eq!(installation.leader(), new);
    everything_works("after-hang");
}

#[test]
fn the_server_recovers_by_itself_from_a_restart_of_the_api_server() {
    let installation = Installation::ensure();
    restart_api_server();
    installation.leader();
    everything_works("after-restart");
}
