//! Movers that reach a repository through the gateway: tokens, certificates, and what becomes of them.

mod movers;
mod secrets;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use lifeboat_api::common::{NamespaceName, RepositoryName, StorageName, TaskId};
use lifeboat_cluster::ApiError;
use lifeboat_control::testing::ApiServer;
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner};
use lifeboat_repository::config::Version;
use lifeboat_repository::repository::{Options, Repository};
use lifeboat_repository::testing::{new_repository, opened, password};
use lifeboat_store::{Store, StoreConfig};

use super::*;
use crate::MoverSettings;
use crate::movers::{TaskRecords, TaskState};
use crate::repositories::{
    Access, Key, Passwords, RepositoryProblem, ServerOpening, TenantRepository, TenantStorage,
};

/// What opens the storage, and must not reach a tenant.
const PLANTED: &str = "PLANTED-STORAGE-CREDENTIALS";

fn key() -> RepositoryKey {
    RepositoryKey::new(StorageName::new("stash"), RepositoryName::new("shop/backups"))
}

fn job(task: &str) -> MoverJob {
    MoverJob {
        task: TaskId::new(task),
        owner: Owner {
            kind: "BackupSession".into(),
            namespace: NamespaceName::new("bank"),
            name: "nightly".into(),
            uid: "u".into(),
        },
        place: MoverPlace::Anywhere,
        repository: key().to_string(),
        group: "g".into(),
        deadline_seconds: 60,
        namespace: NamespaceName::new("bank"),
        pod: MoverSettings::default().pod("lifeboat"),
    }
}

/// The records of an API: every task stands as a test says.
#[derive(Default)]
struct Records(AtomicU8);

impl Records {
    fn end_all(&self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl TaskRecords for Records {
    async fn state(&self, _: &str, owner: &Owner, _: &TaskId) -> Result<TaskState, ApiError> {
        assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("BackupSession", "u"));
        Ok(if self.0.load(Ordering::Relaxed) == 0 { TaskState::Open } else { TaskState::Over })
    }
}

/// One Repository, in memory, whose Secret has planted credentials.
struct Source {
    store: Store,
    /// Why only movers open it.
    movers_only: Option<&'static str>,
}

#[async_trait]
impl AccessSource for Source {
    async fn access(&self, key: &RepositoryKey) -> Result<Access, RepositoryProblem> {
        let config = StoreConfig {
            provider: "aws".into(),
            bucket: "bkt".into(),
            ca_pem: Some(PLANTED.into()),
            credentials: Some(PLANTED.as_bytes().to_vec().into()),
            ..StoreConfig::default()
        };
        let opening = match self.movers_only {
            Some(reason) => ServerOpening::MoversOnly(reason.to_owned()),
            None => ServerOpening::Store(self.store.clone()),
        };
        let repository = TenantRepository {
            identifier: "s3:x/bkt".into(),
            storage: TenantStorage::Bucket(config),
            opening,
        };
        let passwords = Passwords { to_try: vec![password()], missing: String::new() };
        let options = Options { threads: 1, ..Options::default() };
        Ok(Access::of_tenant(key.clone(), repository, passwords, options))
    }
}

/// A server with a gateway on loopback, and a repository.
struct World {
    api: ApiServer,
    store: Store,
    records: Arc<Records>,
    gateway: Gateway,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn new() -> Self {
        Self::with(None).await
    }

    async fn with(movers_only: Option<&'static str>) -> Self {
        let (api, store) = (ApiServer::default(), Store::memory());
        new_repository(store.clone(), Version::V2).await;
        let socket = GatewaySocket::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let url = format!("https://localhost:{}/", socket.address().unwrap().port());
        let (gateway, records) = replica(&api, &store, movers_only, Some(url.parse().unwrap())).await;
        let (serving, stop) = (gateway.clone(), CancellationToken::new());
        let stopped = stop.clone();
        tokio::spawn(async move { serving.serve_on(socket, &stopped).await });
        Self { api, store, records, gateway, stop }
    }

    /// The credentials of the mover of a task, with an hour left.
    async fn key_of(&self, task: &str, rights: Rights) -> Result<Key, RepositoryProblem> {
        let deadline = self.gateway.shared.core.now() + jiff::SignedDuration::from_hours(1);
        self.gateway.pass(rights).keys(&key(), &job(task), deadline).read().await
    }

    async fn repository(&self) -> Repository {
        opened(self.store.clone()).await.unwrap()
    }
}

/// A gateway of a server of this cluster.
async fn replica(
    api: &ApiServer,
    store: &Store,
    movers_only: Option<&'static str>,
    url: Option<Url>,
) -> (Gateway, Arc<Records>) {
    let core = api.core().await;
    let settings = GatewaySettings { url, ..GatewaySettings::default() };
    let (movers, repositories) = (Movers::new(&core, MoverSettings::default()), Repositories::default());
    let records = Arc::new(Records::default());
    movers.add_records(records.clone());
    let gateway = Gateway::new(&core, &movers, &repositories, settings);
    gateway.add_source("stash", Arc::new(Source { store: store.clone(), movers_only }));
    (gateway, records)
}

fn text(key: &Key, name: &str) -> String {
    use secrecy::ExposeSecret;
    String::from_utf8(key.files[name].expose_secret().to_vec()).unwrap()
}
