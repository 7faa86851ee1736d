//! The APIs that this server serves. Each is created from what all APIs share ([`Core`], [`TransferService`]) and from its
//! own settings; another API would be one more field here and one more line in each function.

use std::time::Duration;

use kube::Client;
use lifeboat_control::Core;
use lifeboat_stash::Stash;
use lifeboat_transfer::TransferService;
use lifeboat_transfer::gateway::Gateway;
use lifeboat_velero::Velero;
use lifeboat_web::WebError;
use tokio_util::sync::CancellationToken;

use crate::kinds::WantedKinds;
use crate::settings::ServerSettings;

/// The pause between two checks whether the cluster serves the kinds of Stash's API.
const LOOK: Duration = Duration::from_secs(10);

pub(crate) struct Apis {
    client: Client,
    velero: Velero,
    /// Stash's API; None unless the settings enable it.
    stash: Option<Stash>,
    /// For the movers of Stash's API.
    gateway: Gateway,
}

impl Apis {
    pub(crate) async fn new(core: &Core, transfer: &TransferService, settings: &ServerSettings) -> Self {
        let stash = settings.stash.clone().map(|settings| Stash::new(core, transfer, settings));
        let gateway = transfer.gateway.clone();
        let velero = Velero::new(core, transfer, settings.velero.clone()).await;
        Self { client: core.client.clone(), velero, stash, gateway }
    }

    /// Runs all controllers until `shutdown` is cancelled and reconciles in flight have ended.
    pub(crate) async fn run_controllers(&self, shutdown: &CancellationToken) {
        let stash = async {
            if let Some(stash) = &self.stash
                && self.has_stash_kinds(shutdown).await
            {
                stash.run_controllers(shutdown).await;
            }
        };
        tokio::join!(self.velero.run_controllers(shutdown), stash);
    }

    /// Waits for the kinds of Stash's API; false if `shutdown` was cancelled before that. Velero's API does not wait for them: Helm installs
    /// no definitions in an upgrade.
    async fn has_stash_kinds(&self, shutdown: &CancellationToken) -> bool {
        let apply = "lifeboat crds | kubectl apply --server-side -f -";
        let kinds = WantedKinds::new(&lifeboat_api::crds::of_stash(), apply, LOOK);
        tokio::select! {
            () = shutdown.cancelled() => false,
            () = kinds.served(&self.client, || {}) => true,
        }
    }

    /// Called when this replica is no longer the leader: removes the metrics that only a leader can know.
    pub(crate) fn end_term(&self) {
        self.velero.end_term();
        if let Some(stash) = &self.stash {
            stash.end_term();
        }
    }

    /// Serves downloads and repositories in every replica, until `stop` is cancelled.
    pub(crate) async fn serve(&self, stop: &CancellationToken) -> Result<(), WebError> {
        let gateway = async {
            match &self.stash {
                Some(_) => self.gateway.serve(stop).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = self.velero.serve_downloads(stop) => ended,
            ended = gateway => ended,
        }
    }

    /// Ends what the APIs keep in this process, such as plugins.
    pub(crate) async fn close(&self) {
        self.velero.close().await;
    }
}
