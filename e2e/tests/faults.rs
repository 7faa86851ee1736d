//! Faults at exact moments, on a real cluster: a server process that is killed, disconnected from storage or gets
//! invalid answers; objects that the API server refuses; malicious archives.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod archives;
mod cluster;
mod kills;
mod refusals;
mod storage;

use lifeboat_e2e::{HostServer, Namespace, get};
use serde_json::Value;

/// Config maps `map-0`, `map-1` and so on.
fn fill(namespace: &Namespace, count: usize) {
    let maps: Vec<String> = (0..count)
        .map(|n| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{n}}}\ndata: {{n: '{n}'}}\n")
        })
        .collect();
    namespace.apply(&maps.join("---\n"));
}

/// How many of the ConfigMaps of `fill` exist.
fn filled(namespace: &str) -> usize {
    let list = get(&["-n", namespace, "configmaps"]);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter(|item| item["metadata"]["name"].as_str().unwrap().starts_with("map-")).count()
}

/// Creates a backup of a namespace and waits for its end.
fn backup(server: &HostServer, name: &str, namespace: &str) -> Value {
    server.backup(name, &["--include-namespaces", namespace])
}

/// A Status in the API server's format.
fn status(code: u16, reason: &str, message: &str) -> String {
    serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
    .to_string()
}
