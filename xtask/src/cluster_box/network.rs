//! The box's bridges and the kernel settings it needs, and how both are undone. There is one bridge per node; its
//! address is the node's address.
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::layout::NODES;
use crate::run;

/// Settings that the box needs. Those that the kernel lacks are skipped (bridge: no bridge filtering there).
const WANTED: [(&str, &str); 2] = [("net/ipv4/ip_forward", "1"), ("net/bridge/bridge-nf-call-iptables", "1")];

/// Settings that the kubelet or kube-proxy change by themselves.
const CHANGED_BY_OTHERS: [&str; 10] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/conf/all/route_localnet",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
];

/// The current values of all settings that may change. `ip_forward` sets `forwarding` of each interface, so those are
/// included.
pub(super) fn settings() -> BTreeMap<String, String> {
    let interfaces = fs::read_dir("/proc/sys/net/ipv4/conf").into_iter().flatten().flatten();
    let forwarding =
        interfaces.map(|entry| format!("net/ipv4/conf/{}/forwarding", entry.file_name().to_string_lossy()));
    WANTED
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .chain(CHANGED_BY_OTHERS.iter().map(|name| (*name).to_owned()))
        .chain(forwarding)
        .filter_map(|name| Some((name.clone(), read(&name)?)))
        .collect()
}

/// Writes back the values that differ. `ip_forward` comes first, because it changes the settings of the interfaces.
pub(super) fn restore_settings(before: &BTreeMap<String, String>) -> Result<()> {
    let (first, others): (Vec<_>, Vec<_>) =
        before.iter().partition(|(name, _)| *name == "net/ipv4/ip_forward");
    for (name, value) in first.into_iter().chain(others) {
        // An interface of another program may have been removed in the meantime.
        if read(name).is_some_and(|now| now != *value) {
            write(name, value)?;
        }
    }
    Ok(())
}

/// Loads the kernel modules that the box needs; they stay loaded, because others may use them by then.
pub(super) fn load_modules() {
    for module in ["overlay", "br_netfilter", "loop"] {
        let _ = run::output(Command::new("modprobe").args(["--quiet", module]));
    }
}

pub(super) fn apply_settings() -> Result<()> {
    for (name, value) in WANTED {
        if read(name).is_some_and(|now| now != value) {
            write(name, value)?;
        }
    }
    Ok(())
}

pub(super) fn create_bridges() -> Result<()> {
    for node in NODES {
        let (_, prefix) = node.subnet.split_once('/').unwrap_or(("", "24"));
        // A fixed hardware address: without one a bridge takes that of a port, which changes when pods start and end,
        // and running pods send to the old one for seconds.
        ip(&["link", "add", node.bridge, "address", node.bridge_hardware, "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/{prefix}", node.address), "dev", node.bridge])?;
        ip(&["link", "set", node.bridge, "up"])?;
    }
    Ok(())
}

/// Removes the bridges and the interfaces that pods left in them.
pub(super) fn remove_bridges() -> Result<()> {
    for node in NODES {
        let bridge = PathBuf::from("/sys/class/net").join(node.bridge);
        for entry in fs::read_dir(bridge.join("brif")).into_iter().flatten().flatten() {
            // The kernel may be removing it right now, together with its pod's network namespace.
            let _ = ip(&["link", "del", &entry.file_name().to_string_lossy()]);
        }
        if bridge.exists() {
            ip(&["link", "del", node.bridge])?;
        }
    }
    Ok(())
}

/// Bridges of the box that exist although no box is recorded; they are assumed to belong to another program.
pub(super) fn existing_bridges() -> Vec<&'static str> {
    NODES
        .iter()
        .map(|node| node.bridge)
        .filter(|name| PathBuf::from("/sys/class/net").join(name).exists())
        .collect()
}

fn ip(arguments: &[&str]) -> Result<String> {
    run::output(Command::new("ip").args(arguments))
}

fn read(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned())
}

fn write(name: &str, value: &str) -> Result<()> {
    fs::write(format!("/proc/sys/{name}"), value).with_context(|| format!("cannot set {name} to {value}"))
}
