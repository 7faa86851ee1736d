//! The gateway for movers: gives them tokens instead of the keys of a repository, and serves the repository to
//! clients with a valid token. Every replica serves, whether it is the leader or not. Crate `web` implements the
//! protocol; this module has the keys of tokens and certificates, the check whether a task is still recorded, and the
//! open repositories. Tokens and the renewal of certificates are decided in `plan::transfer::gateway`; the design
//! note is docs/design/0008-gateway.md.

mod certificates;
mod files;
mod keeper;
mod pass;
mod secrets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_control::{Core, locked};
pub use lifeboat_plan::transfer::gateway::Rights;
use lifeboat_plan::transfer::gateway::{self as plan, PORT};
use lifeboat_web::WebError;
use lifeboat_web::gateway::{Gateway as Protocol, GatewaySocket, serve_gateway};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::movers::Movers;
use crate::repositories::{AccessSource, Repositories, RepositoryKey};
pub use files::StoredFiles;
use keeper::{Checked, OpenFiles};
pub use pass::GatewayPass;
use secrets::{GatewaySecrets, SecretsError};

/// How long the Secret of the gateway is believed before it is read again.
const SECRET_AGE: Duration = Duration::from_mins(1);

/// Where the gateway is.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// The address on which this replica listens.
    pub address: SocketAddr,
    /// The URL under which movers reach it; None for the Service of the installation.
    pub url: Option<Url>,
    /// The directory for files that are being received.
    pub temporary: PathBuf,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
        Self { address, url: None, temporary: std::env::temp_dir() }
    }
}

/// The gateway of a server. Clones share it.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    core: Core,
    settings: GatewaySettings,
    movers: Movers,
    repositories: Repositories,
    /// What opens the repositories of an API, by the storage of their keys.
    sources: Mutex<BTreeMap<String, Arc<dyn AccessSource>>>,
    secrets: tokio::sync::Mutex<Option<(Instant, Arc<GatewaySecrets>)>>,
    checked: Checked,
    opened: OpenFiles,
}

impl Gateway {
    pub(crate) fn new(
        core: &Core,
        movers: &Movers,
        repositories: &Repositories,
        settings: GatewaySettings,
    ) -> Self {
        let shared = Shared {
            core: core.clone(),
            settings,
            movers: movers.clone(),
            repositories: repositories.clone(),
            sources: Mutex::default(),
            secrets: tokio::sync::Mutex::default(),
            checked: Checked::default(),
            opened: OpenFiles::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds what opens the repositories of an API. `storage` is that of their keys.
    pub fn add_source(&self, storage: &str, source: Arc<dyn AccessSource>) {
        locked(&self.shared.sources).insert(storage.to_owned(), source);
    }

    /// What lets the mover of a transfer reach its repository through this gateway.
    pub fn pass(&self, rights: Rights) -> GatewayPass {
        GatewayPass::new(self.clone(), rights)
    }

    /// Serves until `stop` is cancelled. Registers metrics: called once for each server.
    pub async fn serve(&self, stop: &CancellationToken) -> Result<(), WebError> {
        let socket = GatewaySocket::bind(self.shared.settings.address).await?;
        self.serve_on(socket, stop).await;
        Ok(())
    }

    async fn serve_on(&self, socket: GatewaySocket, stop: &CancellationToken) {
        let Some((certificates, newest)) = self.first_certificate(stop).await else { return };
        let (keeper, spool) = (Arc::new(self.clone()), self.shared.settings.temporary.clone());
        let protocol = Arc::new(Protocol::new(keeper, spool, &self.shared.core.metrics));
        tokio::select! {
            () = serve_gateway(socket, protocol, newest, stop.clone()) => {}
            () = self.renew_certificates(certificates) => {}
        }
    }

    fn source(&self, key: &RepositoryKey) -> Option<Arc<dyn AccessSource>> {
        locked(&self.shared.sources).get(key.storage().as_str()).cloned()
    }

    /// The URL of a repository.
    fn url(&self, key: &RepositoryKey) -> String {
        let base = match &self.shared.settings.url {
            Some(url) => url.to_string(),
            None => plan::url(&self.shared.core.namespace),
        };
        format!("{}/{key}/", base.trim_end_matches('/'))
    }

    /// The names for which this replica has a certificate.
    fn names(&self) -> Vec<String> {
        let mut names = plan::names(&self.shared.core.namespace);
        let given = self.shared.settings.url.as_ref().and_then(Url::host_str);
        // An IPv6 address is in brackets in a URL.
        names.extend(given.map(|host| host.trim_matches(['[', ']']).to_owned()));
        names
    }

    /// The keys of tokens and certificates, which are created if they do not exist.
    async fn secrets(&self) -> Result<Arc<GatewaySecrets>, SecretsError> {
        let mut known = self.shared.secrets.lock().await;
        if let Some((read, secrets)) = known.as_ref()
            && read.elapsed() < SECRET_AGE
        {
            return Ok(Arc::clone(secrets));
        }
        let secrets = Arc::new(secrets::ensure(&self.shared.core).await?);
        *known = Some((Instant::now(), Arc::clone(&secrets)));
        Ok(secrets)
    }
}
