//! What the server's controllers share: [`Core`], which any controller needs, and what only those of Stash's kinds use.

use std::ops::Deref;
use std::sync::Arc;

use kube::core::ApiResource;
use lifeboat_cluster::exec::{Commands, PodCommands};
use lifeboat_control::{Core, Turns, Watches};
use lifeboat_transfer::TransferService;
use lifeboat_transfer::attempts::Effects;
use lifeboat_transfer::gateway::Gateway;
use lifeboat_transfer::movers::Movers;
use lifeboat_transfer::repositories::Repositories;

use crate::abandoned::Abandoned;
use crate::doubts::Doubts;
use crate::looks::MoverLooks;
use crate::metrics::StashMetrics;
use crate::openings::Lanes;
use crate::policies::Policies;
use crate::reserved::Records;
use crate::scope::ServedNamespaces;
use crate::settings::StashSettings;
use crate::tenant_stores::{GuardedStores, TenantStores};

/// Shared by all controllers of one server.
#[derive(Clone)]
pub(crate) struct Context {
    /// Shared, because a context is handed to every reconcile by value.
    pub(crate) core: Arc<Core>,
    pub(crate) settings: Arc<StashSettings>,
    /// The namespaces that this server serves.
    pub(crate) served: ServedNamespaces,
    /// Whether the API server checks who may create what this server acts on.
    pub(crate) policies: Policies,
    /// Runs movers.
    pub(crate) movers: Movers,
    /// Open repositories.
    pub(crate) repositories: Repositories,
    /// The gateway, through which movers access a Repository of another namespace.
    pub(crate) gateway: Gateway,
    /// Opens the storage of Repositories.
    pub(crate) stores: Arc<dyn TenantStores>,
    /// Limit how many repositories are opened, and how many are listed, at a time.
    pub(crate) openings: Lanes,
    pub(crate) listings: Lanes,
    /// What movers found in repositories that the server cannot open.
    pub(crate) looks: MoverLooks,
    /// Who uses which repository, as far as the watch has seen.
    pub(crate) records: Records,
    /// Runs hooks in pods.
    pub(crate) commands: Arc<dyn Commands>,
    /// Carries out transfers; None for movers. Tests replace it.
    pub(crate) effects: Option<Arc<dyn Effects>>,
    /// One session at a time works on a target; named by the target's kind, namespace and name.
    pub(crate) targets: Turns,
    /// Sessions whose end cannot be recorded.
    pub(crate) abandoned: Abandoned,
    /// Invokers, and Repositories, of which a session failed.
    pub(crate) invoker_doubts: Doubts,
    pub(crate) repository_doubts: Doubts,
    /// The metrics of Stash's API; those of every controller are in [`Core`].
    pub(crate) metrics: StashMetrics,
}

impl Context {
    /// Registers the metrics of Stash's API: called once for each server. `core` and `transfer` are the server's, which other APIs
    /// share.
    pub(crate) fn new(core: Core, transfer: TransferService, settings: StashSettings) -> Self {
        let TransferService { movers, repositories, gateway } = transfer;
        Self {
            served: ServedNamespaces::new(&settings),
            policies: Policies::new(),
            stores: Arc::new(GuardedStores(settings.guard.clone())),
            openings: Lanes::of_openings(),
            listings: Lanes::of_listings(),
            looks: MoverLooks::default(),
            records: Records::default(),
            settings: Arc::new(settings),
            movers,
            repositories,
            gateway,
            commands: Arc::new(PodCommands(core.patient.clone())),
            effects: None,
            targets: Turns::default(),
            abandoned: Abandoned::default(),
            invoker_doubts: Doubts::default(),
            repository_doubts: Doubts::default(),
            metrics: StashMetrics::register(&core.metrics),
            core: Arc::new(core),
        }
    }

    /// The watches of one of Stash's kinds, in the namespaces that this server may serve. When it gets or loses a
    /// namespace, all objects are reconciled again.
    pub(crate) fn watches(&self, resource: &ApiResource) -> Watches {
        Watches::new(&self.core, &self.served.scope(), resource).all_when(&self.served.changed)
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
