//! The Services of the server: the gateway, through which movers in users' namespaces reach repositories, and downloads,
//! where the server serves files of backups itself. Metrics need no Service: they are scraped from each pod.

use serde_json::{Value, json};

use super::{InstallOptions, labels};

/// The port of downloads.
pub(super) const DOWNLOAD_PORT: u16 = 8086;
/// The port of the gateway, with TLS.
pub(super) const GATEWAY_PORT: u16 = 8087;

/// The Service of downloads.
pub const DOWNLOADS: &str = "lifeboat-downloads";
/// The Service of the gateway.
pub const GATEWAY: &str = "lifeboat-gateway";

pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    let mut objects = Vec::new();
    if options.download_url.is_some() {
        objects.push(service(options, DOWNLOADS, "downloads", DOWNLOAD_PORT));
    }
    objects.push(service(options, GATEWAY, "gateway", GATEWAY_PORT));
    objects
}

/// A Service for one port of every replica, also of those on standby.
fn service(options: &InstallOptions, name: &str, port: &str, number: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels()},
        "spec": {
            "selector": labels(),
            "ports": [{"name": port, "port": number, "targetPort": port}],
        },
    })
}
