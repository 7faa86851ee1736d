//! Velero's API as part of the server: crate `operator` creates [`Velero`] once; its controllers run for each term of
//! leadership, and every replica serves download links.

use std::sync::Arc;

use lifeboat_control::Core;
use lifeboat_plugin::host::PluginHost;
use lifeboat_transfer::TransferService;
use lifeboat_web::WebError;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::downloads::Links;
use crate::settings::VeleroSettings;
use crate::{controllers, credential_files};

/// Velero's API in a server.
pub struct Velero {
    context: Context,
}

impl Velero {
    /// Registers its metrics and its records of tasks, removes what an earlier process left in the spool directory, and runs
    /// each plugin program once. `core` and `transfer` are the server's, which other APIs share.
    pub async fn new(core: &Core, transfer: &TransferService, settings: VeleroSettings) -> Self {
        let settings = Arc::new(settings);
        let context = Context::new(core.clone(), transfer.clone(), settings.clone());
        credential_files::clear(&settings.storage.spool_directory);
        let plugins = discover_plugins(&core.namespace, &settings).await;
        Self { context: context.with_plugins(plugins) }
    }

    /// Runs every controller until `shutdown` is cancelled and reconciles in flight have ended.
    pub async fn run_controllers(&self, shutdown: &CancellationToken) {
        Box::pin(controllers::run(&self.context, shutdown)).await;
    }

    /// Called when this replica is no longer the leader: removes the metrics that only a leader can know.
    pub fn end_term(&self) {
        self.context.metrics.end_term();
    }

    /// Serves download links until `stop` is cancelled, if the settings enable that; otherwise it never returns.
    pub async fn serve_downloads(&self, stop: &CancellationToken) -> Result<(), WebError> {
        let Some(settings) = &self.context.settings.storage.downloads else {
            return std::future::pending().await;
        };
        let links = Arc::new(Links { context: self.context.clone() });
        lifeboat_web::serve_downloads(settings.address, links, stop.clone()).await
    }

    /// Ends the plugins that serve the stores of locations.
    pub async fn close(&self) {
        self.context.stores.close().await;
    }
}

/// Runs each program of the plugin directory once. A program that cannot be used does not prevent the server from starting.
async fn discover_plugins(namespace: &str, settings: &VeleroSettings) -> PluginHost {
    let Some(plugins) = &settings.plugins else { return PluginHost::empty() };
    let backups = &settings.backup;
    let volume = backups.defaults.item_operation_timeout;
    let host = PluginHost::discover(plugins.host(namespace, &backups.features, volume)).await;
    for plugin in host.plugins() {
        tracing::info!(kind = %plugin.kind, name = plugin.name, program = %plugin.program.display(), "plugin found");
    }
    for problem in host.problems() {
        tracing::error!(path = %problem.path.display(), "plugin not used: {}", problem.message);
    }
    host
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    #[tokio::test]
    async fn what_only_a_leader_knows_is_gone_from_the_metrics_after_its_term() {
        let cluster = Cluster::new().await;
        let velero = Velero { context: cluster.context.clone() };
        let (known, all) = (&velero.context.metrics, &velero.context.core.metrics);
        let before = all.render();
        known.set_location("default", true);
        known.set_password(true, false);
        known.set_backup_total(3);
        known.set_restore_total(2);
        let text = all.render();
        for line in [
            "velero_backup_location_status_gauge{backup_location_name=\"default\"} 1",
            "lifeboat_repository_password_exported 1",
            "velero_backup_total 3",
            "velero_restore_total 2",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
        }
        velero.end_term();
        assert_eq!(all.render(), before, "as in a replica that never led");
    }
}
