//! The Services: for the gateway of movers, and for downloads where the server serves files of backups itself. Metrics need no
//! Service: they are scraped from each pod.

use serde_json::{Value, json};

use super::{InstallOptions, labels};
use crate::transfer::gateway;

/// The port of downloads.
pub(super) const DOWNLOAD_PORT: u16 = 8086;

/// The Service of the gateway of Stash's API, in front of all replicas.
pub(super) fn gateway(options: &InstallOptions) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": gateway::SERVICE, "namespace": options.namespace, "labels": labels()},
        "spec": {
            "selector": labels(),
            "ports": [{"name": "gateway", "port": gateway::PORT, "targetPort": "gateway"}],
        },
    })
}

pub(super) fn object(options: &InstallOptions) -> Option<Value> {
    options.download_url.as_ref()?;
    Some(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "lifeboat-downloads", "namespace": options.namespace, "labels": labels()},
        "spec": {
            "selector": labels(),
            "ports": [{"name": "downloads", "port": DOWNLOAD_PORT, "targetPort": "downloads"}],
        },
    }))
}
