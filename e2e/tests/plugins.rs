//! Plugins at work in backups and restores, on a real cluster: Go plugins on Velero's own framework, Velero's plugin for S3,
//! the examples on our SDK, programs that misbehave. Mostly with a server of our own process; with pods, images and the stock
//! command line in `installed`.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

#[path = "plugins/actions.rs"]
mod actions;
#[path = "plugins/installed.rs"]
mod installed;
#[path = "plugins/misbehaving.rs"]
mod misbehaving;
#[path = "plugins/snapshots.rs"]
mod snapshots;
#[path = "plugins/waits.rs"]
mod waits;

use lifeboat_e2e::{HostServer, Namespace, kubectl, variable};

/// A server with the recording plugins.
fn recorder(prefix: &str, flags: &[&str]) -> HostServer {
    HostServer::with_plugins(prefix, flags, &[("recorder", &variable("LIFEBOAT_GO_PLUGIN"))])
}

/// A config map that the recording plugins are for, with annotations that tell them what to do, and a Secret that they name.
fn told(namespace: &Namespace, name: &str, secret: &str, annotations: &[(&str, &str)]) {
    let told: Vec<String> = annotations
        .iter()
        .map(|(key, value)| format!("recorder.lifeboat.dev/{key}: '{value}'"))
        .chain([format!("recorder.lifeboat.dev/secret: {secret}")])
        .collect();
    namespace.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {secret}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{recorder: 'yes'}}, annotations: {{{}}}}}\n",
        told.join(", ")
    ));
}

/// Config maps that no recording plugin is for.
fn unrelated(namespace: &Namespace, count: usize) {
    let maps: Vec<String> = (0..count)
        .map(|n| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{n}}}\ndata: {{n: '{n}'}}\n")
        })
        .collect();
    namespace.apply(&maps.join("---\n"));
}

fn delete_namespace(name: &str) {
    kubectl().args(["delete", "namespace", name, "--timeout=120s"]).ok();
}
