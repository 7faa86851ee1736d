//! Makes the [`Context`] of a server from its parts. Called once by `server_part`, and by tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use lifeboat_cluster::exec::PodCommands;
use lifeboat_control::{Core, Turns};
use lifeboat_plugin::actions::Registry;
use lifeboat_plugin::host::PluginHost;
use lifeboat_transfer::movers::Movers;
use lifeboat_transfer::repositories::Repositories;
use lifeboat_web::Metrics;

use crate::context::Context;
use crate::csi;
use crate::metrics::VeleroMetrics;
use crate::plugin_store::PluginStores;
use crate::settings::VeleroSettings;
use crate::transfers::VeleroTasks;

impl Context {
    /// Registers the metrics of Velero's API and of movers: called once for each `metrics`.
    pub(crate) fn new(client: Client, metrics: Metrics, settings: Arc<VeleroSettings>) -> Self {
        let mut actions = Registry {
            backup: lifeboat_plugin::builtin::backup::actions(),
            blocks: lifeboat_plugin::builtin::backup::blocks(),
            restore: lifeboat_plugin::builtin::restore::actions(),
            delete: csi::delete_actions(&client),
        };
        actions.backup.extend(csi::backup_actions(&client));
        actions.restore.extend(csi::restore_actions(&client));
        let commands = Arc::new(PodCommands(client.clone()));
        let velero_metrics = VeleroMetrics::register(&metrics);
        let core = Core::new(client, metrics, &settings.namespace, &settings.identity);
        Self {
            movers: Movers::new(&core, settings.movers.clone(), Arc::new(VeleroTasks(core.clone()))),
            core: Arc::new(core),
            settings,
            metrics: velero_metrics,
            actions: Arc::new(actions),
            plugins: PluginHost::empty(),
            snapshotters: BTreeMap::new(),
            turns: Turns::default(),
            stores: PluginStores::default(),
            repositories: Repositories::default(),
            commands,
        }
    }

    pub(crate) fn with_plugins(mut self, plugins: PluginHost) -> Self {
        self.plugins = plugins;
        self
    }

    /// Restores write through `direct`: a client that makes each request once.
    pub(crate) fn with_direct_client(mut self, direct: Client) -> Self {
        Arc::make_mut(&mut self.core).direct = direct;
        self
    }

    /// Hooks run through `patient`: a client that waits for commands which print nothing for a long time.
    pub(crate) fn with_patient_client(mut self, patient: Client) -> Self {
        self.commands = Arc::new(PodCommands(patient));
        self
    }
}
