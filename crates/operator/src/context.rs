//! What the server's controllers share: [`Core`], which any controller needs, and what only those of Velero's kinds use.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use kube::Client;
use lifeboat_cluster::exec::{Commands, PodCommands};
use lifeboat_control::{Core, Turns};
use lifeboat_plugin::actions::Registry;
use lifeboat_plugin::host::PluginHost;
use lifeboat_plugin::volume::VolumeSnapshotter;
use lifeboat_transfer::movers::Movers;
use lifeboat_transfer::repositories::Repositories;
use lifeboat_web::Metrics;

use crate::carrying::VeleroTasks;
use crate::csi;
use crate::locations::PluginStores;
use crate::settings::ServerSettings;

/// Shared by all controllers of one term of leadership.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) core: Core,
    pub(crate) settings: Arc<ServerSettings>,
    /// Built-in actions; one operation's own, plugins' included, are made by `acting`.
    pub(crate) actions: Arc<Registry>,
    /// What is installed in the plugin directory.
    pub(crate) plugins: PluginHost,
    /// Snapshotters that are no plugins, by provider.
    pub(crate) snapshotters: BTreeMap<String, Arc<dyn VolumeSnapshotter>>,
    /// Whoever makes a volume from a snapshot takes one.
    pub(crate) turns: Turns,
    /// Plugins that are the stores of locations.
    pub(crate) stores: PluginStores,
    /// Runs movers.
    pub(crate) movers: Movers,
    /// Repositories of volume data.
    pub(crate) repositories: Repositories,
    /// Runs hooks in pods.
    pub(crate) commands: Arc<dyn Commands>,
}

impl Context {
    pub(crate) fn new(client: Client, metrics: Metrics, settings: Arc<ServerSettings>) -> Self {
        let mut actions = Registry {
            backup: lifeboat_plugin::builtin::backup::actions(),
            blocks: lifeboat_plugin::builtin::backup::blocks(),
            restore: lifeboat_plugin::builtin::restore::actions(),
            delete: csi::delete_actions(&client),
        };
        actions.backup.extend(csi::backup_actions(&client));
        actions.restore.extend(csi::restore_actions(&client));
        let commands = Arc::new(PodCommands(client.clone()));
        let core = Core::new(client, metrics, &settings.namespace, &settings.identity);
        Self {
            movers: Movers::new(&core, settings.movers.clone(), Arc::new(VeleroTasks(core.clone()))),
            core,
            settings,
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
        self.core.direct = direct;
        self
    }

    /// Hooks run through `patient`: a client that waits for commands which print nothing for a long time.
    pub(crate) fn with_patient_client(mut self, patient: Client) -> Self {
        self.commands = Arc::new(PodCommands(patient));
        self
    }
}

impl Deref for Context {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl AsRef<Core> for Context {
    fn as_ref(&self) -> &Core {
        &self.core
    }
}

/// Lifeboat's own version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
