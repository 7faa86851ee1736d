//! The Service of downloads, where the server answers links to files of backups itself. Metrics have none: they are read
//! from each pod.

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
