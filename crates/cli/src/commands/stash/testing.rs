//! For tests: a tenant's namespace on the API server in memory, and a repository in a directory.

use lifeboat_control::testing::{ApiServer, ServedType};
use serde_json::{Value, json};

use super::Tenant;

/// The namespace of the tenant.
pub(super) const SHOP: &str = "shop";

pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) tenant: Tenant,
}

impl World {
    pub(super) async fn new() -> Self {
        let server = ApiServer::default();
        let kinds = [
            ("v1alpha1", "repositories", "Repository"),
            ("v1beta1", "backupconfigurations", "BackupConfiguration"),
            ("v1beta1", "backupbatches", "BackupBatch"),
            ("v1beta1", "backupsessions", "BackupSession"),
            ("v1beta1", "restoresessions", "RestoreSession"),
            ("v1beta1", "restorebatches", "RestoreBatch"),
        ];
        server.serve(kinds.map(|(version, plural, kind)| {
            ServedType::new(&format!("stash.appscode.com/{version}"), plural, kind).with_status()
        }));
        let tenant = Tenant { client: server.client().await, namespace: SHOP.to_owned() };
        Self { server, tenant }
    }

    /// Puts an object of a kind of Stash's API.
    pub(super) fn put(&self, plural: &str, name: &str, mut object: Value) {
        let (version, kind) = match plural {
            "repositories" => ("v1alpha1", "Repository"),
            "backupconfigurations" => ("v1beta1", "BackupConfiguration"),
            "backupbatches" => ("v1beta1", "BackupBatch"),
            "backupsessions" => ("v1beta1", "BackupSession"),
            "restoresessions" => ("v1beta1", "RestoreSession"),
            _ => ("v1beta1", "RestoreBatch"),
        };
        object["apiVersion"] = json!(format!("stash.appscode.com/{version}"));
        object["kind"] = json!(kind);
        self.server.put(&path(plural, name), object);
    }

    /// Puts a Secret of the tenant.
    pub(super) fn put_secret(&self, name: &str, entries: &[(&str, &str)]) {
        use base64::Engine;
        let encoded = |value: &str| base64::engine::general_purpose::STANDARD.encode(value);
        let data: Value =
            entries.iter().map(|(key, value)| ((*key).to_owned(), json!(encoded(value)))).collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": data});
        self.server.put(&format!("/api/v1/namespaces/{SHOP}/secrets/{name}"), secret);
    }
}

/// The path of an object of Stash's API.
pub(super) fn path(plural: &str, name: &str) -> String {
    let version = if plural == "repositories" { "v1alpha1" } else { "v1beta1" };
    format!("/apis/stash.appscode.com/{version}/namespaces/{SHOP}/{plural}/{name}")
}
