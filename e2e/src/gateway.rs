//! The gateway in front of a repository in a directory, on loopback, for clients with the tokens `backup` and `restore`. It
//! ends when the value is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use lifeboat_repository::repository::{Options, Repository};
use lifeboat_store::Store;
use lifeboat_transfer::gateway::StoredFiles;
use lifeboat_web::Metrics;
use lifeboat_web::gateway::{
    Authority, FileAccess, FilesError, Gatekeeper, Gateway, GatewaySocket, Grant, NoGrant, RepositoryFiles,
    serve_gateway, server_config,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Program;

/// The path of the repository in URLs.
const PATH: &str = "stash/shop/backups";

/// A running gateway.
pub struct GatewayServer {
    _runtime: Runtime,
    authority: PathBuf,
    port: u16,
}

impl GatewayServer {
    /// Serves the repository in `directory`. The certificate authority and temporary files are put into `work`.
    pub fn start(directory: &Path, password: &str, work: &Path) -> Self {
        let runtime = Runtime::new().unwrap();
        let (now, end) = (Timestamp::now(), Timestamp::now() + SignedDuration::from_hours(48));
        let made = Authority::new(now, end).unwrap();
        let authority = work.join("gateway-ca.pem");
        std::fs::write(&authority, &made.certificate).unwrap();
        let tls = server_config(&made, &["localhost".to_owned()], now, end).unwrap();
        let port = runtime.block_on(async {
            let store = Store::local(directory).unwrap();
            let opened =
                Repository::open(store, &password.to_owned().into(), Options::default()).await.unwrap();
            // The user name that restic writes into its locks.
            let lock_user = Program::new("id").arg("-un").ok().trim().to_owned();
            let keeper = Keeper { files: Arc::new(StoredFiles::new(opened)), lock_user };
            let gateway = Gateway::new(Arc::new(keeper), work.to_owned(), &Metrics::new("0"));
            let socket = GatewaySocket::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let port = socket.address().unwrap().port();
            let (_, newest) = watch::channel(tls);
            tokio::spawn(serve_gateway(socket, Arc::new(gateway), newest, CancellationToken::new()));
            port
        });
        Self { _runtime: runtime, authority, port }
    }

    /// The repository in restic's notation, for a client with this token.
    pub fn url(&self, token: &str) -> String {
        format!("rest:https://lifeboat:{token}@localhost:{}/{PATH}/", self.port)
    }

    /// The file with the certificate authority, for restic's flag `--cacert`.
    pub fn authority(&self) -> &str {
        self.authority.to_str().unwrap()
    }
}

struct Keeper {
    files: Arc<StoredFiles>,
    lock_user: String,
}

#[async_trait]
impl Gatekeeper for Keeper {
    async fn grant(&self, token: &str) -> Result<Grant, NoGrant> {
        let access = match token {
            "backup" => FileAccess::Add,
            "restore" => FileAccess::Read,
            _ => return Err(NoGrant::Invalid),
        };
        let (repository, lock_user) = (PATH.to_owned(), self.lock_user.clone());
        Ok(Grant { repository, task: token.to_owned(), access, lock_user })
    }

    async fn files(&self, _: &Grant) -> Result<Arc<dyn RepositoryFiles>, FilesError> {
        Ok(self.files.clone())
    }
}
