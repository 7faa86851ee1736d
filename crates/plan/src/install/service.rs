//! The Service for downloads, where the server serves files of backups itself. Metrics need no Service: they are
//! scraped from each pod.

use serde_json::{Value, json};

use super::{InstallOptions, labels};

/// The port of downloads.
pub(super) const DOWNLOAD_PORT: u16 = 8086;

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
