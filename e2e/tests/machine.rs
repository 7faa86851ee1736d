//! The box on this machine: it comes, comes again, survives the death of all its processes, and goes without a trace.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::collections::BTreeSet;
use std::fs;

use lifeboat_e2e::{Program, wait_for, xtask};
use serde_json::Value;

/// What the machine looks like from outside: one line for each thing that a box could leave behind.
fn machine() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let mut add = |what: &str, program: &str, arguments: &[&str]| {
        let text = Program::new(program).args(arguments).run().stdout;
        lines.extend(text.lines().map(|line| format!("{what}: {}", line.trim())));
    };
    add("mount", "findmnt", &["--raw", "--noheadings", "--output", "TARGET,SOURCE,FSTYPE,PROPAGATION"]);
    add("loop device", "losetup", &["--list", "--noheadings", "--output", "NAME,BACK-FILE"]);
    add("interface", "ip", &["-oneline", "-brief", "link"]);
    add("address", "ip", &["-oneline", "-brief", "address"]);
    add("route", "ip", &["route", "show", "table", "all"]);
    add(
        "sysctl",
        "sysctl",
        &[
            "--all",
            "--pattern",
            "^net\\.(ipv4\\.(ip_forward|conf)|bridge|netfilter\\.nf_conntrack_(max|tcp))",
        ],
    );
    for program in ["iptables-save", "ip6tables-save"] {
        let rules = Program::new("sh")
            .args(["-c", &format!("command -v {program} >/dev/null && {program} || true")])
            .run();
        // Counters and times change by themselves; a table without rules is as good as none.
        lines.extend(
            rules
                .stdout
                .lines()
                .filter(|line| line.starts_with('-'))
                .map(|line| format!("{program}: {line}")),
        );
        let chains = rules.stdout.lines().filter(|line| line.starts_with(':') && line.contains(" - "));
        lines.extend(chains.map(|line| format!("{program}: {}", line.split(' ').next().unwrap())));
    }
    lines.extend(cgroups("/sys/fs/cgroup", 3));
    lines.extend(processes());
    lines
}

/// Directories of the control group hierarchies.
fn cgroups(root: &str, depth: u8) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let path = entry.path().to_string_lossy().into_owned();
        if depth > 0 {
            found.extend(cgroups(&path, depth - 1));
        }
        found.push(format!("cgroup: {path}"));
    }
    found
}

/// Programs that a box runs; those of the test itself come and go and do not count.
fn processes() -> Vec<String> {
    let names = [
        "etcd",
        "kube-",
        "kubelet",
        "containerd",
        "weed",
        "coredns",
        "csi-",
        "hostpathplugin",
        "snapshot-controller",
        "lifeboat",
        "pause",
        "box-",
        "registrar",
    ];
    let text = Program::new("ps").args(["-e", "-o", "comm="]).ok();
    let ours = text.lines().map(str::trim).filter(|name| names.iter().any(|known| name.starts_with(known)));
    ours.map(|name| format!("process: {name}")).collect()
}

/// Every process of the box, as its status names them.
fn recorded_processes() -> Vec<String> {
    let status: Value = serde_json::from_str(&xtask().args(["box", "status", "-o", "json"]).ok()).unwrap();
    let components = status["components"].as_array().unwrap();
    components.iter().filter_map(|component| component["pid"].as_u64()).map(|pid| pid.to_string()).collect()
}

#[test]
fn the_box_comes_survives_and_goes_without_a_trace() {
    xtask().args(["box", "down"]).ok();
    let before = machine();

    xtask().args(["box", "up"]).ok();
    let first = recorded_processes();
    xtask().args(["box", "up"]).ok();
    assert_eq!(recorded_processes(), first, "a second up restarted something");
    assert!(machine() != before, "the comparison sees nothing of a running box");

    for pid in &first {
        Program::new("kill").args(["-9", pid]).run();
    }
    wait_for("the box to be found dead", 30, || {
        let output = xtask().args(["box", "status"]).run();
        if output.code == 0 { Err(output.stdout) } else { Ok(()) }
    });
    from_another_clone(&["box", "up"]);
    xtask().args(["box", "status"]).ok();

    xtask().args(["box", "down"]).ok();
    let after = machine();
    let left: Vec<_> = after.difference(&before).collect();
    let lost: Vec<_> = before.difference(&after).collect();
    assert!(left.is_empty() && lost.is_empty(), "left behind: {left:#?}\nmissing: {lost:#?}");
}

/// Runs the project's `cargo xtask` from a second clone of this checkout, whose only tie to the box is the machine.
fn from_another_clone(arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let clone = directory.path().join("clone");
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    Program::new("git").args(["clone", "--quiet", checkout, &clone.to_string_lossy()]).ok();
    let manifest = clone.join("Cargo.toml");
    Program::new("cargo")
        .args(["run", "--quiet", "--manifest-path", &manifest.to_string_lossy(), "--package", "xtask", "--"])
        .args(arguments)
        .ok();
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_left_behind() {
    xtask().args(["box", "down"]).ok();
    let before = machine();
    let listener = std::net::TcpListener::bind("127.0.0.1:16443").unwrap();
    let said = xtask().args(["box", "up"]).refused();
    drop(listener);
    assert!(said.contains("16443"), "{said}");
    assert_eq!(machine(), before);
}
