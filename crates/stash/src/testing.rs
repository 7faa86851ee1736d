//! For tests: a server whose cluster is the API server in memory, and whose tenants' storage is in memory.

pub(crate) mod movers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::TryStreamExt;
use lifeboat_cluster::exec::{Commands, ExecError, ExecOutput, ExecRequest};
use lifeboat_cluster::testing::failure;
use lifeboat_control::locked;
use lifeboat_control::testing::{ApiServer, Requests};
use lifeboat_repository::backup::{BackupOptions, Source, backup};
use lifeboat_repository::lock::LockOptions;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::{InitOptions, Options, Repository as OpenRepository};
use lifeboat_store::Store;
use lifeboat_transfer::repositories::{ServerOpening, TenantStorage};
use lifeboat_transfer::{MoverSettings, TransferService};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::policies::Policies;
use crate::repository::{RepositoryKey, key_of, ready};
use crate::settings::StashSettings;
use crate::tenant_stores::TenantStores;

/// The namespace of the tenant.
pub(crate) const SHOP: &str = "shop";
/// The password of repositories.
pub(crate) const PASSWORD: &str = "correct horse";

/// Commands of hooks: they are noted with their pod, and fail where they say so.
#[derive(Default)]
pub(crate) struct FakeCommands(pub(crate) Mutex<Vec<String>>);

#[async_trait]
impl Commands for FakeCommands {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
        let command = request.command.join(" ");
        locked(&self.0).push(format!("{}: {command}", request.pod));
        if command.contains("fail") {
            return Err(ExecError::Failed { message: "it failed".to_owned() });
        }
        Ok(ExecOutput::default())
    }
}

/// When a server is killed: before its last write reaches the API server, or after that was carried out and before the answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// Kills servers at their writes.
pub(crate) struct Killer(Arc<Kill>);

struct Kill {
    written: AtomicUsize,
    fatal: Mutex<Option<(usize, Moment)>>,
    dies: Notify,
}

impl Kill {
    /// Counts a write; whether it does not reach the API server.
    fn is_lost(&self) -> bool {
        let number = self.written.fetch_add(1, Ordering::SeqCst) + 1;
        match *locked(&self.fatal) {
            Some((fatal, Moment::Before)) => number >= fatal,
            Some((fatal, Moment::After)) => number > fatal,
            None => false,
        }
    }
}

impl Killer {
    pub(crate) fn on(server: &ApiServer) -> Self {
        let kill =
            Arc::new(Kill { written: AtomicUsize::new(0), fatal: Mutex::default(), dies: Notify::new() });
        let (counts, watches) = (kill.clone(), kill.clone());
        server.answer(move |_, asked| {
            let is_lost = Requests::writes().includes(asked) && counts.is_lost();
            is_lost.then(|| failure(503, "ServiceUnavailable"))
        });
        server.after(move |_, asked, _| {
            let is_fatal = locked(&watches.fatal)
                .is_some_and(|(fatal, _)| watches.written.load(Ordering::SeqCst) >= fatal);
            if Requests::writes().includes(asked) && is_fatal {
                watches.dies.notify_one();
            }
        });
        Self(kill)
    }

    /// Runs a server until its nth write, at which it is killed. None if it was; else what it gave.
    pub(crate) async fn kill_at<T>(
        &self,
        nth: usize,
        moment: Moment,
        server: impl Future<Output = T>,
    ) -> Option<T> {
        self.0.written.store(0, Ordering::SeqCst);
        *locked(&self.0.fatal) = Some((nth, moment));
        let ended = tokio::select! {
            biased;
            () = self.0.dies.notified() => None,
            ended = server => Some(ended),
        };
        *locked(&self.0.fatal) = None;
        // A server that ended with its last write was not killed by it.
        let _ = self.0.dies.notified().now_or_never();
        ended
    }
}

/// Buckets in memory, by name.
#[derive(Clone, Default)]
pub(crate) struct MemoryStores(Arc<Mutex<BTreeMap<String, Store>>>);

impl MemoryStores {
    /// The whole bucket.
    pub(crate) fn bucket(&self, name: &str) -> Store {
        locked(&self.0).entry(name.to_owned()).or_insert_with(Store::memory).clone()
    }

    /// The keys in a bucket that begin with a text.
    pub(crate) async fn keys(&self, bucket: &str, begin: &str) -> Vec<String> {
        let listed: Vec<_> = self.bucket(bucket).list(begin).try_collect().await.unwrap();
        listed.into_iter().map(|info| info.key).collect()
    }
}

#[async_trait]
impl TenantStores for MemoryStores {
    async fn open(&self, storage: &TenantStorage, _: Option<usize>) -> lifeboat_store::Result<ServerOpening> {
        let TenantStorage::Bucket(config) = storage else {
            return Ok(ServerOpening::MoversOnly("it is on a volume".to_owned()));
        };
        assert!(config.credentials.is_some(), "a bucket is opened with the keys of its Secret");
        Ok(ServerOpening::Store(self.bucket(&config.bucket).below(&config.prefix)?))
    }
}

/// A cluster with a tenant's namespace.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) context: Context,
    pub(crate) stores: MemoryStores,
}

impl World {
    /// An AppBinding `db` of namespace `shop` with its Secret.
    pub(crate) fn put_app(&self) {
        self.put_app_in(SHOP, "auth");
    }

    /// An AppBinding `db` of a namespace with its Secret.
    pub(crate) fn put_app_in(&self, namespace: &str, secret: &str) {
        self.server.put(
            &format!("/apis/appcatalog.appscode.com/v1alpha1/namespaces/{namespace}/appbindings/db"),
            json!({
                "apiVersion": "appcatalog.appscode.com/v1alpha1", "kind": "AppBinding",
                "spec": {"clientConfig": {"service": {"name": "db", "port": 3306}}, "secret": {"name": secret}},
            }),
        );
        let data = json!({"username": "cm9vdA==", "password": "czNjcmV0"});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "data": data});
        self.server.put(&format!("/api/v1/namespaces/{namespace}/secrets/{secret}"), object);
    }

    pub(crate) async fn new() -> Self {
        Self::with_settings(StashSettings::default()).await
    }

    pub(crate) async fn with_settings(settings: StashSettings) -> Self {
        Self::with_movers(settings, MoverSettings::default()).await
    }

    pub(crate) async fn with_movers(settings: StashSettings, movers: MoverSettings) -> Self {
        let server = ApiServer::default();
        for (name, uid) in [("kube-system", "cluster"), ("lifeboat", "l"), (SHOP, "s"), ("bank", "b")] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"uid": uid}});
            server.put(&format!("/api/v1/namespaces/{name}"), namespace);
        }
        let core = server.core().await;
        let transfer = TransferService::new(&core, movers);
        let stores = MemoryStores::default();
        let mut context = Context::new(core, transfer, settings);
        context.stores = Arc::new(stores.clone());
        context.policies = Policies::in_force(&context.core.namespace);
        let world = Self { server, context, stores };
        world.put_secret(SHOP, PASSWORD);
        world
    }

    /// Dry runs of movers' pods are admitted: the API server in memory would make the pods.
    pub(crate) fn admit_movers(&self) {
        self.server.answer(|_, asked| asked.query.contains("dryRun").then(|| (201, asked.body.clone())));
    }

    /// The Secret `keys` of a namespace, with the keys of S3 and a password.
    pub(crate) fn put_secret(&self, namespace: &str, password: &str) {
        let entries =
            [("RESTIC_PASSWORD", password), ("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "key")];
        let data: BTreeMap<&str, String> =
            entries.iter().map(|(key, value)| (*key, STANDARD.encode(value))).collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": data});
        self.server.put(&format!("/api/v1/namespaces/{namespace}/secrets/keys"), secret);
    }

    /// A Repository in bucket `bkt`, with a prefix of its own.
    pub(crate) fn put_repository(&self, name: &str) -> RepositoryKey {
        self.put_backend(name, json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": name}}))
    }

    pub(crate) fn put_backend(&self, name: &str, backend: Value) -> RepositoryKey {
        self.put_repository_in(SHOP, name, backend)
    }

    pub(crate) fn put_repository_in(&self, namespace: &str, name: &str, mut backend: Value) -> RepositoryKey {
        backend["storageSecretName"] = json!("keys");
        let object = json!({
            "apiVersion": "stash.appscode.com/v1alpha1",
            "kind": "Repository",
            "metadata": {"generation": 1, "uid": format!("uid-{namespace}-{name}")},
            "spec": {"backend": backend},
        });
        self.server.put(&path(namespace, name), object);
        key_of(namespace, name)
    }

    /// A Repository of the tenant, as it is now.
    pub(crate) fn repository(&self, name: &str) -> Value {
        self.server.get(&path(SHOP, name)).unwrap()
    }

    pub(crate) fn change(&self, name: &str, with: &Value) {
        self.server.change(&path(SHOP, name), with);
    }

    /// The prefix of a Repository's bucket.
    pub(crate) fn store(&self, name: &str) -> Store {
        self.stores.bucket("bkt").below(name).unwrap()
    }

    /// Opens the repository; where there is none, it is made.
    pub(crate) async fn opened(&self, key: &RepositoryKey) -> OpenRepository {
        let ready = ready(&self.context, key).await.unwrap();
        self.context.repositories.open(&ready.access).await.unwrap()
    }

    /// Makes a repository in storage that the server need not know.
    pub(crate) async fn make_in(store: Store) {
        let password = SecretString::from(PASSWORD.to_owned());
        OpenRepository::init(store, &password, InitOptions::default(), Options::default()).await.unwrap();
    }

    /// Stores a snapshot of a host at path `/data` in storage that the server need not know; gives its ID.
    pub(crate) async fn snapshot_in(store: Store, host: &str, tags: &[&str]) -> String {
        Self::snapshot_at(store, host, "/data", tags).await
    }

    /// Stores a snapshot of a host at another path.
    pub(crate) async fn snapshot_at(store: Store, host: &str, path: &str, tags: &[&str]) -> String {
        let password = SecretString::from(PASSWORD.to_owned());
        let repository = OpenRepository::open(store, &password, Options::default()).await.unwrap();
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("file"), tags.join(",")).unwrap();
        let directory = std::fs::File::open(source.path()).unwrap().into();
        let mut options = BackupOptions::new(Source::Root { directory, path: path.to_owned() }, host);
        options.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        let (lock, progress) = (LockOptions::default(), Arc::new(Progress::default()));
        let made = backup(&repository, options, &lock, progress, CancellationToken::new()).await;
        made.unwrap().snapshot_id.unwrap().to_string()
    }

    /// Stores a snapshot of a host with these tags; gives its ID.
    pub(crate) async fn snapshot(&self, key: &RepositoryKey, host: &str, tags: &[&str]) -> String {
        let repository = self.opened(key).await;
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("file"), tags.join(",")).unwrap();
        let mut options = BackupOptions::new(Source::Paths(vec![source.path().to_owned()]), host);
        options.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        let progress = Arc::new(Progress::default());
        let lock = LockOptions::default();
        let made = backup(&repository, options, &lock, progress, CancellationToken::new()).await;
        made.unwrap().snapshot_id.unwrap().to_string()
    }
}

/// The path of a Repository.
pub(crate) fn path(namespace: &str, name: &str) -> String {
    format!("/apis/stash.appscode.com/v1alpha1/namespaces/{namespace}/repositories/{name}")
}

/// Status and message of a condition.
pub(crate) fn condition(object: &Value, kind: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}
