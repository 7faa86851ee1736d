//! Creates Schedules that are not due and Backups that ended long ago, in a location that is not synced.

use futures::{StreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use crate::error::Result;
use crate::fill::{api, create};
use crate::types::Type;

const LOCATION: &str = "archive";

pub(crate) async fn fill(client: &Client, namespace: &str, schedules: usize, backups: usize) -> Result<()> {
    let location = json!({"provider": "aws", "objectStorage": {"bucket": "lifeboat", "prefix": "bench-archive"},
        "backupSyncPeriod": "0s", "validationFrequency": "0s"});
    let objects = std::iter::once(("BackupStorageLocation", LOCATION.to_owned(), location, Value::Null))
        .chain((0..schedules).map(|number| {
            let template =
                json!({"includedNamespaces": [format!("team-{number}")], "storageLocation": LOCATION});
            let spec = json!({"schedule": "0 0 1 1 *", "skipImmediately": true, "template": template});
            ("Schedule", format!("schedule-{number:04}"), spec, Value::Null)
        }))
        .chain((0..backups).map(|number| {
            let spec = json!({"includedNamespaces": [format!("team-{number}")], "storageLocation": LOCATION,
                "ttl": "87600h0m0s"});
            ("Backup", format!("backup-{number:04}"), spec, ended())
        }));
    let mut made = stream::iter(objects)
        .map(|(kind, name, spec, status)| {
            let plural = match kind {
                "Backup" => "backups",
                "Schedule" => "schedules",
                _ => "backupstoragelocations",
            };
            let known =
                Type { api_version: "velero.io/v1", plural, kind, namespaced: true, fields: |_| Value::Null };
            let api = api(client, &known, Some(namespace));
            let mut object =
                json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
            if !status.is_null() {
                object["metadata"]["labels"] = json!({"velero.io/storage-location": LOCATION});
                object["status"] = status;
            }
            async move { create(&api, object).await }
        })
        .buffer_unordered(32);
    while let Some(each) = made.next().await {
        each?;
    }
    Ok(())
}

fn ended() -> Value {
    json!({"phase": "Completed", "version": 1, "formatVersion": "1.1.0", "startTimestamp": "2026-01-01T00:00:00Z",
        "completionTimestamp": "2026-01-01T00:01:00Z", "expiration": "2036-01-01T00:00:00Z",
        "progress": {"totalItems": 100, "itemsBackedUp": 100}})
}
