//! The box on this machine: it starts, starts again, survives the death of all its processes, and stops without leaving
//! traces.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod processes;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use lifeboat_e2e::{Output, Program, xtask};

/// The state of the machine: one line for each thing that a box could leave behind.
fn machine() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let mut add = |what: &str, program: &str, arguments: &[&str]| {
        let text = Program::new(program).args(arguments).ok();
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
            "^(net\\.(ipv4\\.(ip_forward|conf)|bridge|netfilter\\.nf_conntrack_(max|tcp))|vm\\.(overcommit_memory|panic_on_oom)|\
             kernel\\.(panic|panic_on_oops|keys\\.root_max.*)$)",
        ],
    );
    for program in ["iptables-save", "ip6tables-save"] {
        let rules = Program::new(program).ok();
        // Counters and times change by themselves; a table without rules is equal to a missing one.
        let added = rules.lines().filter(|line| line.starts_with('-')).map(str::to_owned);
        let chains = rules.lines().filter(|line| line.starts_with(':') && line.contains(" - "));
        let chains = chains.map(|line| line.split(' ').next().unwrap().to_owned());
        lines.extend(added.chain(chains).map(|line| format!("{program}: {line}")));
    }
    lines.extend(cgroups("/sys/fs/cgroup", 3));
    lines.extend(PATHS.iter().filter(|path| Path::new(path).exists()).map(|path| format!("path: {path}")));
    lines.extend(processes::of_the_box().iter().map(|process| format!("process: {process:?}")));
    lines
}

/// Paths outside its own directory where the box's programs leave files.
const PATHS: [&str; 8] = [
    "/var/lib/lifeboat-box",
    "/run/containerd",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
    "/opt/containerd",
    "/run/netns",
];

/// Parts of the paths of the box's control groups and those of its container runtimes; groups of other programs change
/// by themselves.
const CGROUPS: [&str; 4] = ["lifeboat-box", "kubepods", "containerd", "k8s.io"];

/// Directories of the control group hierarchies.
fn cgroups(root: &str, depth: u8) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let path = entry.path().to_string_lossy().into_owned();
        if depth > 0 {
            found.extend(cgroups(&path, depth - 1));
        }
        if CGROUPS.iter().any(|name| path.contains(name)) {
            found.push(format!("cgroup: {path}"));
        }
    }
    found
}

/// Stops the box when dropped: later parts start their own.
struct NoBox;

impl NoBox {
    fn here() -> Self {
        xtask().args(["box", "down"]).ok();
        Self
    }
}

impl Drop for NoBox {
    fn drop(&mut self) {
        xtask().args(["box", "down"]).run();
    }
}

fn assert_same(before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let left: Vec<_> = after.difference(before).collect();
    let lost: Vec<_> = before.difference(after).collect();
    assert!(left.is_empty() && lost.is_empty(), "left behind: {left:#?}\nmissing: {lost:#?}");
}

#[test]
fn the_box_comes_survives_and_goes_without_a_trace() {
    let _guard = NoBox::here();
    let before = machine();
    assert!(processes::of_the_box().is_empty(), "{:?}", processes::of_the_box());

    xtask().args(["box", "up"]).ok();
    let first = processes::recorded();
    xtask().args(["box", "up"]).ok();
    assert_eq!(processes::recorded(), first, "a second up restarted something");
    let running = machine();
    for kind in [
        "mount",
        "loop device",
        "interface",
        "address",
        "route",
        "iptables-save",
        "cgroup",
        "process",
        "path",
    ] {
        let of_kind = |lines: &BTreeSet<String>| lines.iter().filter(|line| line.starts_with(kind)).count();
        assert!(of_kind(&running) > of_kind(&before), "the comparison sees no {kind} of a running box");
    }

    processes::kill_everything();
    let status = xtask().args(["box", "status"]).run();
    assert_eq!(status.code, 1, "{}", status.stdout);
    assert!(status.stdout.contains("its processes were killed"), "{}", status.stdout);
    let up = from_another_clone(&["box", "up"]);
    assert!(up.stderr.contains("there was a box, but its processes were killed"), "{}", up.stderr);
    xtask().args(["box", "status"]).ok();

    xtask().args(["box", "down"]).ok();
    assert_same(&before, &machine());
}

/// Runs the project's `cargo xtask` from a second clone of this checkout, which shares only the machine with the box.
/// Dependencies are compiled once for all such clones.
fn from_another_clone(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let clone = directory.path().join("clone");
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    Program::new("git").args(["clone", "--quiet", checkout, &clone.to_string_lossy()]).ok();
    let output = Program::new("cargo")
        .args(["run", "--quiet", "--manifest-path", &clone.join("Cargo.toml").to_string_lossy()])
        .args(["--package", "xtask", "--"])
        .args(arguments)
        .env("CARGO_TARGET_DIR", &target_directory().join("another-clone").to_string_lossy())
        .run();
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    output
}

/// This program is in TARGET/PROFILE/deps.
fn target_directory() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_left_behind() {
    let _guard = NoBox::here();
    let before = machine();
    // Every address, which includes one that does not exist before the box does; and an address of its own.
    for (address, component) in [("0.0.0.0:16443", "kube-apiserver"), ("127.0.0.1:12379", "etcd")] {
        let listener = TcpListener::bind(address).unwrap();
        let said = xtask().args(["box", "up"]).refused();
        drop(listener);
        let (_, port) = address.split_once(':').unwrap();
        assert!(said.contains(&format!("port {port}")) && said.contains(component), "{said}");
        assert_same(&before, &machine());
    }
}

#[test]
fn a_box_whose_record_cannot_be_read_is_cleaned_without_a_person() {
    let _guard = NoBox::here();
    let before = machine();
    xtask().args(["box", "up"]).ok();
    fs::write("/var/lib/lifeboat-box/state.json", "{\"version\": ").unwrap();
    let status = xtask().args(["box", "status"]).run();
    assert_eq!(status.code, 1, "{}", status.stdout);
    assert!(status.stdout.contains("its record cannot be read"), "{}", status.stdout);
    xtask().args(["box", "down"]).ok();
    // Kernel settings stay changed, because only this test knows their former values.
    restore_settings(&before);
    assert_same(&before, &machine());
}

/// Twice, because `ip_forward` changes others.
fn restore_settings(before: &BTreeSet<String>) {
    for _ in 0..2 {
        for line in before.difference(&machine()).filter_map(|line| line.strip_prefix("sysctl: ")) {
            Program::new("sysctl").args(["--quiet", "--write", &line.replacen(" = ", "=", 1)]).ok();
        }
    }
}
