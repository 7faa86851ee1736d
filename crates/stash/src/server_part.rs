//! The part of the server that serves Stash's API: crate `operator` creates [`Stash`] once; its controllers, which
//! are registered here, run during each term of leadership.

use std::sync::Arc;

use lifeboat_control::Core;
use lifeboat_transfer::TransferService;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::sessions::SessionTasks;
use crate::settings::StashSettings;
use crate::{gateway, invokers, repository, sessions};

/// Stash's API in a server.
pub struct Stash {
    context: Context,
}

impl Stash {
    /// Registers its metrics, its records of tasks, and its repositories at the gateway. `core` and `transfer` are the server's, which
    /// other APIs share.
    pub fn new(core: &Core, transfer: &TransferService, settings: StashSettings) -> Self {
        transfer.movers.add_records(Arc::new(SessionTasks(core.clone())));
        let context = Context::new(core.clone(), transfer.clone(), settings);
        gateway::serve_repositories(&context);
        Self { context }
    }

    /// Called when this replica is no longer the leader: removes the values of metrics that only a leader knows.
    pub fn end_term(&self) {
        self.context.metrics.end_term();
    }

    /// Runs every controller until `shutdown` is cancelled and reconciles in flight have ended.
    pub async fn run_controllers(&self, shutdown: &CancellationToken) {
        let context = &self.context;
        let controllers = async {
            if context.policies.wait_until_known(shutdown).await {
                tokio::join!(
                    Box::pin(repository::controller::run(context, shutdown)),
                    Box::pin(invokers::run(context, shutdown)),
                    Box::pin(sessions::backup::run(context, shutdown)),
                    Box::pin(sessions::restore::run(context, shutdown)),
                );
            }
        };
        tokio::join!(
            context.served.run(&context.core, shutdown),
            context.policies.run(&context.core, shutdown),
            controllers,
        );
    }
}
