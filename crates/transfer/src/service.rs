//! Moves the data of volumes for all APIs of a server: one queue of movers with one set of metrics, one limit of open
//! repositories, and one gateway. Created once by crate `operator`, which passes it to each API and runs it for each term of leadership.

use lifeboat_control::Core;
use tokio_util::sync::CancellationToken;

use crate::MoverSettings;
use crate::gateway::{Gateway, GatewaySettings};
use crate::movers::Movers;
use crate::repositories::Repositories;

/// Movers, repositories and the gateway of a server. Clones share them.
#[derive(Clone)]
pub struct TransferService {
    pub movers: Movers,
    pub repositories: Repositories,
    pub gateway: Gateway,
}

impl TransferService {
    /// Registers the metrics of movers: called once for each server. Each API adds its records of tasks to the movers.
    pub fn new(core: &Core, settings: MoverSettings) -> Self {
        let (movers, repositories) = (Movers::new(core, settings), Repositories::default());
        let gateway = Gateway::new(core, &movers, &repositories, GatewaySettings::default());
        Self { movers, repositories, gateway }
    }

    /// With these settings of the gateway; called before an API adds its repositories to it.
    #[must_use]
    pub fn with_gateway(self, core: &Core, settings: GatewaySettings) -> Self {
        Self { gateway: Gateway::new(core, &self.movers, &self.repositories, settings), ..self }
    }

    /// Starts a term of leadership; when `shutdown` is cancelled, movers are left to the next leader.
    pub fn begin_term(&self, shutdown: &CancellationToken) {
        self.movers.begin_term(shutdown);
    }

    /// Sweeps and counts movers until `shutdown` is cancelled.
    pub async fn run(&self, shutdown: &CancellationToken) {
        self.movers.run(shutdown).await;
    }

    /// Called when this server is no longer the leader: removes the metrics that only a leader can know, and closes the
    /// repositories.
    pub fn end_term(&self) {
        self.movers.end_term();
        self.repositories.close_all();
    }
}
