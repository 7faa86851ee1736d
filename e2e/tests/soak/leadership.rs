//! Each round kills the leader, freezes the leader and restarts the API server; after each fault a new location must be
//! validated and exactly one replica must be the leader.

use std::time::Instant;

use lifeboat_e2e::{
    Installation, Program, everything_works, process_of, restart_api_server, signal, wait_for_another,
    wait_for_every_replica, wait_for_one_leader, xtask,
};

/// How long it may take until exactly one leader is seen, in seconds.
const SETTLED: u64 = 60;
/// How long both replicas may take to answer before the next fault: the kubelet backs off after each kill.
const REPLICAS: u64 = 330;

struct Fault {
    name: &'static str,
    /// Called with the leader.
    inject: fn(&str),
}

const FAULTS: [Fault; 3] = [
    Fault { name: "kill -9 of the leader", inject: |leader| signal("-KILL", &process_of(leader)) },
    Fault { name: "leader hangs until another leads, then wakes up", inject: hang },
    Fault { name: "API server stopped and started", inject: |_| restart_api_server() },
];

/// Measurements after one fault, in seconds since it started.
struct Seen {
    fault: &'static str,
    verdict: f64,
    one_leader: f64,
    moved: bool,
}

#[test]
fn after_every_fault_one_replica_leads_and_works() {
    Installation::ensure();
    let _api_server = ApiServerRuns;
    let mut all = Vec::new();
    for round in 1..=rounds() {
        for (number, fault) in FAULTS.iter().enumerate() {
            let seen = once(fault, &format!("soak-{round}-{number}"));
            println!(
                "round {round}: {}: verdict after {:.1} s, one leader after {:.1} s, leadership {}",
                fault.name,
                seen.verdict,
                seen.one_leader,
                if seen.moved { "moved" } else { "stayed" }
            );
            all.push(seen);
        }
    }
    println!("{}", table(&all));
}

fn rounds() -> u32 {
    std::env::var("LIFEBOAT_SOAK_ROUNDS")
        .map_or(10, |text| text.parse().expect("LIFEBOAT_SOAK_ROUNDS is a number"))
}

fn once(fault: &Fault, location: &str) -> Seen {
    wait_for_every_replica(REPLICAS);
    let old = wait_for_one_leader(SETTLED);
    let start = Instant::now();
    (fault.inject)(&old);
    everything_works(location);
    let verdict = start.elapsed().as_secs_f64();
    let new = wait_for_one_leader(SETTLED);
    Seen { fault: fault.name, verdict, one_leader: start.elapsed().as_secs_f64(), moved: new != old }
}

fn hang(leader: &str) {
    let stopped = Stopped { process: process_of(leader) };
    signal("-STOP", &stopped.process);
    wait_for_another(leader);
}

/// A frozen process, which continues when this is dropped.
struct Stopped {
    process: String,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The kubelet may have killed it meanwhile.
        Program::new("kill").args(["-CONT", &self.process]).run();
    }
}

/// Starts the box's API server again when dropped.
struct ApiServerRuns;

impl Drop for ApiServerRuns {
    fn drop(&mut self) {
        xtask().args(["box", "start", "kube-apiserver"]).run();
    }
}

/// One row for each fault, for docs/reliability.md.
fn table(all: &[Seen]) -> String {
    let mut lines = vec![
        "| fault | times | leadership moved | verdict after: median, longest | one leader after: median, longest |".into(),
        "| --- | --- | --- | --- | --- |".into(),
    ];
    for fault in &FAULTS {
        let seen: Vec<&Seen> = all.iter().filter(|seen| seen.fault == fault.name).collect();
        lines.push(format!(
            "| {} | {} | {} | {} | {} |",
            fault.name,
            seen.len(),
            seen.iter().filter(|seen| seen.moved).count(),
            spread(seen.iter().map(|seen| seen.verdict).collect()),
            spread(seen.iter().map(|seen| seen.one_leader).collect()),
        ));
    }
    lines.join("\n")
}

fn spread(mut seconds: Vec<f64>) -> String {
    seconds.sort_by(f64::total_cmp);
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
    format!("{median:.1} s, {:.1} s", seconds.last().copied().unwrap_or_default())
}
