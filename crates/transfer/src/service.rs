//! Moves the data of volumes for all APIs of a server: one queue of movers with one set of metrics, and one limit of open
//! repositories. Created once by crate `operator`, which passes it to each API and runs it for each term of leadership.

use lifeboat_control::Core;
use tokio_util::sync::CancellationToken;

use crate::MoverSettings;
use crate::movers::Movers;
use crate::repositories::Repositories;

/// Movers and repositories of a server. Clones share them.
#[derive(Clone)]
pub struct TransferService {
    pub movers: Movers,
    pub repositories: Repositories,
}

impl TransferService {
    /// Registers the metrics of movers: called once for each server. Each API adds its records of tasks to the movers.
    pub fn new(core: &Core, settings: MoverSettings) -> Self {
        Self { movers: Movers::new(core, settings), repositories: Repositories::default() }
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
