//! What the controllers of Velero's kinds share: [`Core`], which every controller needs, and what only they use.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use kube::core::ApiResource;
use lifeboat_cluster::exec::Commands;
use lifeboat_control::{Core, Scope, Turns, Watches};
use lifeboat_plugin::actions::Registry;
use lifeboat_plugin::host::PluginHost;
use lifeboat_plugin::volume::VolumeSnapshotter;
use lifeboat_transfer::movers::Movers;
use lifeboat_transfer::repositories::Repositories;

use crate::metrics::VeleroMetrics;
use crate::plugin_store::PluginStores;
use crate::settings::VeleroSettings;

/// Shared by all controllers of one term of leadership.
#[derive(Clone)]
pub(crate) struct Context {
    /// In an `Arc`, because every reconcile gets the context by value.
    pub(crate) core: Arc<Core>,
    pub(crate) settings: Arc<VeleroSettings>,
    /// The metrics of Velero's API; those of every controller are in [`Core`].
    pub(crate) metrics: VeleroMetrics,
    /// The built-in actions. `acting` creates the registry of one operation, which includes plugins.
    pub(crate) actions: Arc<Registry>,
    /// The plugins installed in the plugin directory.
    pub(crate) plugins: PluginHost,
    /// Snapshotters that are not plugins, by provider.
    pub(crate) snapshotters: BTreeMap<String, Arc<dyn VolumeSnapshotter>>,
    /// Locks that a restore takes before it creates a volume from a snapshot.
    pub(crate) turns: Turns,
    /// Plugins that serve the stores of locations.
    pub(crate) stores: PluginStores,
    /// Runs movers, in one queue with those of other APIs.
    pub(crate) movers: Movers,
    /// The open repositories of volume data, also those of other APIs.
    pub(crate) repositories: Repositories,
    /// Runs hooks in pods.
    pub(crate) commands: Arc<dyn Commands>,
}

impl Context {
    /// The watches of one of Velero's kinds: its objects are in the server's own namespace.
    pub(crate) fn watches(&self, resource: &ApiResource) -> Watches {
        Watches::new(&self.core, &Scope::Namespace(self.core.namespace.clone()), resource)
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
