//! The APIs that this server serves. Each is made from what a server has once ([`Core`], [`TransferService`]) and from settings
//! of its own; another API is one more field here and one more line in each function.

use lifeboat_control::Core;
use lifeboat_stash::Stash;
use lifeboat_transfer::TransferService;
use lifeboat_velero::Velero;
use lifeboat_web::WebError;
use tokio_util::sync::CancellationToken;

use crate::settings::ServerSettings;

pub(crate) struct Apis {
    velero: Velero,
    /// None unless the settings ask for it.
    stash: Option<Stash>,
}

impl Apis {
    pub(crate) async fn new(core: &Core, transfer: &TransferService, settings: &ServerSettings) -> Self {
        let stash = settings.stash.clone().map(|settings| Stash::new(core, transfer, settings));
        Self { velero: Velero::new(core, transfer, settings.velero.clone()).await, stash }
    }

    /// Runs all controllers until `shutdown` is cancelled and reconciles in flight have ended.
    pub(crate) async fn run_controllers(&self, shutdown: &CancellationToken) {
        let stash = async {
            if let Some(stash) = &self.stash {
                stash.run_controllers(shutdown).await;
            }
        };
        tokio::join!(self.velero.run_controllers(shutdown), stash);
    }

    /// This replica leads no more: metrics do not show what only a leader knows.
    pub(crate) fn end_term(&self) {
        self.velero.end_term();
        if let Some(stash) = &self.stash {
            stash.end_term();
        }
    }

    /// Answers requests of users in every replica, until `stop` is cancelled.
    pub(crate) async fn serve(&self, stop: &CancellationToken) -> Result<(), WebError> {
        self.velero.serve_downloads(stop).await
    }

    /// Ends what a process has for the APIs, such as plugins.
    pub(crate) async fn close(&self) {
        self.velero.close().await;
    }
}
