//! Plugins in backups and restores, on a real cluster: Go plugins on Velero's own framework, Velero's plugin for S3,
//! the examples of our SDK, misbehaving programs. Each test has its own server; tests with pods, images and stock
//! Velero's command line are in `plugins_installed.rs`.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod actions;
mod misbehaving;
mod snapshots;
mod waits;

use lifeboat_e2e::{HostServer, Namespace, variable};

/// A server with the recording plugins.
fn recorder(prefix: &str, flags: &[&str]) -> HostServer {
    HostServer::with_plugins(prefix, flags, &[("recorder", &variable("LIFEBOAT_GO_PLUGIN"))])
}

/// ConfigMaps that the recording plugins do not apply to.
fn unrelated(namespace: &Namespace, count: usize) {
    let maps: Vec<String> = (0..count)
        .map(|n| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{n}}}\ndata: {{n: '{n}'}}\n")
        })
        .collect();
    namespace.apply(&maps.join("---\n"));
}
