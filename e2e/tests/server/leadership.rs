//! One replica leads; whatever happens to it, another one goes on.

use std::fs;

use lifeboat_e2e::{Installation, Program, get, kubectl, lifeboat, s3, wait_for, xtask};

/// How long leadership may take to move.
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
fn a_leader_that_hangs_loses_its_lease_and_does_not_lead_when_it_wakes_up() {
    let installation = Installation::ensure();
    let old = installation.leader();
    let process = process_of(&old);
    signal("-STOP", &process);
    let outcome = std::panic::catch_unwind(|| wait_for_another(&old));
    signal("-CONT", &process);
    let new = outcome.unwrap();
    // The old one finds out and says so in its metrics; the new one goes on leading.
    wait_for("the old leader's word", 30, || {
        let path = format!("/api/v1/namespaces/lifeboat/pods/{old}:8085/proxy/metrics");
        let output = kubectl().args(["get", "--raw", &path]).run();
        if output.stdout.contains("\nlifeboat_leader 0\n") { Ok(()) } else { Err(output.stdout) }
    });
    assert_eq!(installation.leader(), new);
    everything_works("after-hang");
}

#[test]
fn the_server_recovers_by_itself_from_a_restart_of_the_api_server() {
    let installation = Installation::ensure();
    if std::env::var("LIFEBOAT_CONTEXT").is_ok() {
        return; // only the box lets us stop its API server
    }
    xtask().args(["box", "stop", "kube-apiserver"]).ok();
    xtask().args(["box", "start", "kube-apiserver"]).ok();
    wait_for("the API server", 60, || {
        let output = kubectl().args(["get", "--raw", "/readyz"]).run();
        if output.code == 0 { Ok(()) } else { Err(output.stderr) }
    });
    installation.leader();
    everything_works("after-restart");
}

fn wait_for_another(old: &str) -> String {
    wait_for("another leader", MOVE, || {
        let lease = get(&["-n", "lifeboat", "lease", "lifeboat-server"]);
        match lease["spec"]["holderIdentity"].as_str() {
            Some(holder) if holder != old => Ok(holder.to_owned()),
            other => Err(format!("{other:?}")),
        }
    })
}

/// A new location gets its verdict: somebody leads and works.
fn everything_works(name: &str) {
    let create = lifeboat()
        .args([
            "backup-location",
            "create",
            name,
            "--provider",
            "aws",
            "--bucket",
            "lifeboat",
            "--prefix",
            "e2e",
        ])
        .args(["--config", &s3().config(), "--wait"]);
    wait_for("a verdict", 60, || {
        let output = create.run();
        if output.code == 0 {
            return Ok(());
        }
        lifeboat().args(["backup-location", "delete", name, "--confirm"]).run();
        Err(output.stderr)
    });
    lifeboat().args(["backup-location", "delete", name, "--confirm"]).ok();
}

/// The server's process on this machine, found by the identity in its environment.
fn process_of(pod: &str) -> String {
    let wanted = format!("LIFEBOAT_IDENTITY={pod}");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            return entry.file_name().to_string_lossy().into_owned();
        }
    }
    panic!("no process of {pod} on this machine");
}

fn signal(signal: &str, process: &str) {
    Program::new("kill").args([signal, process]).ok();
}
