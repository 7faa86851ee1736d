//! For tests: a tenant's namespace on the API server in memory, and a repository in memory.

use std::fs::File;
use std::sync::Arc;

use lifeboat_control::testing::{ApiServer, ServedType};
use lifeboat_repository::backup::{BackupOptions, Source, backup};
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::lock::LockOptions;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::{InitOptions, Options, Repository};
use lifeboat_store::Store;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Tenant;
use crate::commands::repository::CommonArgs;
use crate::commands::repository::session::Session;
use crate::commands::repository::settings::{PasswordSource, Settings, Variables};

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
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}});
        server.put(&format!("/api/v1/namespaces/{SHOP}"), namespace);
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

/// A session on a new repository in memory.
pub(super) async fn session() -> Session {
    let password = SecretString::from("correct horse");
    let store = Store::memory().with_name("memory");
    let made = Repository::init(store.clone(), &password, InitOptions::default(), Options::default()).await;
    made.unwrap();
    let common = CommonArgs { no_cache: true, quiet: true, ..CommonArgs::default() };
    let mut settings = Settings::resolve(common, Variables::new()).unwrap();
    settings.target.password = PasswordSource::Given(password);
    Session::new(settings, CancellationToken::new()).on_storage(store)
}

/// Stores a snapshot of a host that has a file `file` with this content at a path.
pub(super) async fn back_up(session: &Session, host: &str, path: &str, content: &str) -> SnapshotId {
    let repository = session.open().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), content).unwrap();
    let root = File::open(directory.path()).unwrap().into();
    let options = BackupOptions::new(Source::Root { directory: root, path: path.to_owned() }, host);
    let (lock, progress) = (LockOptions::default(), Arc::new(Progress::default()));
    let made = backup(&repository, options, &lock, progress, CancellationToken::new()).await;
    made.unwrap().snapshot_id.unwrap()
}

/// The path of an object of Stash's API.
pub(super) fn path(plural: &str, name: &str) -> String {
    let version = if plural == "repositories" { "v1alpha1" } else { "v1beta1" };
    format!("/apis/stash.appscode.com/{version}/namespaces/{SHOP}/{plural}/{name}")
}
