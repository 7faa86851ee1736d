//! What a Restore can be told, and what becomes of backups over time: on a real cluster, with a server of our own process.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

#[path = "restore/choices.rs"]
mod choices;
#[path = "restore/lifetime.rs"]
mod lifetime;

use lifeboat_e2e::{HostServer, kubectl};
use serde_json::Value;

fn backup(server: &HostServer, name: &str, arguments: &[&str]) -> Value {
    server.lifeboat().args(["backup", "create", name]).args(arguments).ok();
    server.ended("backup", name)
}

fn restore(server: &HostServer, name: &str, from: &str, arguments: &[&str]) -> Value {
    server.lifeboat().args(["restore", "create", name, "--from-backup", from]).args(arguments).ok();
    server.ended("restore", name)
}

fn delete_namespace(name: &str) {
    kubectl().args(["delete", "namespace", name, "--timeout=120s"]).ok();
}
