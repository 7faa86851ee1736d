//! Which replica is the leader, whether the server works, and faults that move leadership; for the tests of leadership
//! and the soak test.

use std::fs;

use serde_json::Value;

use crate::{Program, get, kubectl, lifeboat, s3, wait_for, xtask};

/// How long leadership may take to move, in seconds.
const MOVE: u64 = 20;

fn holder() -> Option<String> {
    let lease = get(&["-n", "lifeboat", "lease", "lifeboat-server"]);
    lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
}

/// Waits until a pod other than `old` holds the lease; returns its name.
pub fn wait_for_another(old: &str) -> String {
    wait_for("another leader", MOVE, || match holder() {
        Some(holder) if holder != old => Ok(holder),
        other => Err(format!("{other:?}")),
    })
}

/// Waits until exactly one pod reports that it is the leader, and it holds the lease; returns its name. A pod whose
/// container is down reports nothing and is not the leader.
pub fn wait_for_one_leader(seconds: u64) -> String {
    wait_for("exactly one leader", seconds, || {
        let leading: Vec<String> = pods().into_iter().filter(|pod| leads(pod)).collect();
        match (&leading[..], holder()) {
            ([only], Some(holder)) if *only == holder => Ok(holder),
            (_, holder) => Err(format!("{leading:?} say that they lead, {holder:?} holds the lease")),
        }
    })
}

fn pods() -> Vec<String> {
    let pods = get(&["-n", "lifeboat", "pods", "-l", "component=velero"]);
    let items = pods["items"].as_array().cloned().unwrap_or_default();
    items
        .iter()
        .filter_map(|pod| pod.pointer("/metadata/name").and_then(Value::as_str))
        .map(str::to_owned)
        .collect()
}

/// Waits until both replicas answer: a replica that is restarting cannot take over.
pub fn wait_for_every_replica(seconds: u64) {
    wait_for("an answer of both replicas", seconds, || {
        let silent: Vec<String> =
            pods().into_iter().filter(|pod| !says(pod).contains("lifeboat_leader ")).collect();
        if silent.is_empty() && pods().len() == 2 { Ok(()) } else { Err(format!("{silent:?} are silent")) }
    });
}

fn leads(pod: &str) -> bool {
    says(pod).contains("\nlifeboat_leader 1\n")
}

/// The pod's metrics; empty if it does not answer.
fn says(pod: &str) -> String {
    let path = format!("/api/v1/namespaces/lifeboat/pods/{pod}:8085/proxy/metrics");
    kubectl().args(["get", "--raw", &path, "--request-timeout=5s"]).run().stdout
}

/// Checks that a new location is validated, so a leader is working.
pub fn everything_works(name: &str) {
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
pub fn process_of(pod: &str) -> String {
    let wanted = format!("LIFEBOAT_IDENTITY={pod}");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            return entry.file_name().to_string_lossy().into_owned();
        }
    }
    panic!("no process of {pod} on this machine");
}

pub fn signal(signal: &str, process: &str) {
    Program::new("kill").args([signal, process]).ok();
}

/// Restarts the box's API server; when this returns it answers, also at the address that pods use. An API server that
/// stops removes itself from that Service, and kube-proxy, which backs off after each failure, may need a minute to add
/// it again: until then every connection of a pod is refused, whatever the server does.
pub fn restart_api_server() {
    let service = get(&["-n", "default", "service", "kubernetes"]);
    let address = format!("--server=https://{}:443", service["spec"]["clusterIP"].as_str().unwrap());
    xtask().args(["box", "stop", "kube-apiserver"]).ok();
    xtask().args(["box", "start", "kube-apiserver"]).ok();
    wait_for("the API server", 60, || {
        let output = kubectl().args(["get", "--raw", "/readyz"]).run();
        if output.code == 0 { Ok(()) } else { Err(output.stderr) }
    });
    wait_for("the API server's service", 120, || {
        let output = kubectl().args(["get", "--raw", "/readyz", "--request-timeout=5s", &address]).run();
        if output.code == 0 { Ok(()) } else { Err(output.stderr) }
    });
}
