//! Builds the [`Context`] of a server from its parts. Called once by `server_part`, and by tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use lifeboat_cluster::exec::PodCommands;
use lifeboat_control::{Core, Turns};
use lifeboat_plugin::actions::Registry;
use lifeboat_plugin::host::PluginHost;
use lifeboat_transfer::TransferService;

use crate::context::Context;
use crate::csi;
use crate::metrics::VeleroMetrics;
use crate::plugin_store::PluginStores;
use crate::settings::VeleroSettings;
use crate::transfers::VeleroTasks;

impl Context {
    /// Registers the metrics of Velero's API and its records of tasks: called once for each server.
    pub(crate) fn new(core: Core, transfer: TransferService, settings: Arc<VeleroSettings>) -> Self {
        let client = &core.client;
        let mut actions = Registry {
            backup: lifeboat_plugin::builtin::backup::actions(),
            blocks: lifeboat_plugin::builtin::backup::blocks(),
            restore: lifeboat_plugin::builtin::restore::actions(),
            delete: csi::delete_actions(client),
        };
        actions.backup.extend(csi::backup_actions(client, &core.clock));
        actions.restore.extend(csi::restore_actions(client));
        let TransferService { movers, repositories, .. } = transfer;
        movers.add_records(Arc::new(VeleroTasks(core.clone())));
        Self {
            settings,
            metrics: VeleroMetrics::register(&core.metrics),
            actions: Arc::new(actions),
            plugins: PluginHost::empty(),
            snapshotters: BTreeMap::new(),
            turns: Turns::default(),
            stores: PluginStores::default(),
            movers,
            repositories,
            commands: Arc::new(PodCommands(core.patient.clone())),
            core: Arc::new(core),
        }
    }

    pub(crate) fn with_plugins(mut self, plugins: PluginHost) -> Self {
        self.plugins = plugins;
        self
    }
}
