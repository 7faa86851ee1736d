//! The watches of one kind in a [`Scope`]: one for the cluster or one per namespace, because a server may have no
//! permission to list the whole cluster. They are set up and driven together by `dynamic::drive`.

use std::sync::Arc;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Controller, controller, watcher};
use kube::{Api, Resource};
use lifeboat_cluster::connect::WATCH_SECONDS;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{Core, Scope, Signal};

/// How many reconciles of one watch run at the same time.
const CONCURRENCY: u16 = 32;

/// The configuration of every watch.
pub fn watching() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// The watches of a kind.
pub struct Watches(Vec<Controller<DynamicObject>>);

impl Watches {
    pub fn new(core: &Core, scope: &Scope, resource: &ApiResource) -> Self {
        let watch = |api| {
            Controller::new_with(api, watching(), resource.clone())
                .with_config(controller::Config::default().concurrency(CONCURRENCY))
        };
        Self(scope.apis(&core.client, resource).into_iter().map(watch).collect())
    }

    /// The objects that the watches know.
    pub fn known(&self) -> Known {
        Known(self.0.iter().map(Controller::store).collect())
    }

    /// Reconciles objects when other objects change: `affected` selects from the objects that one watch knows.
    #[must_use]
    pub fn triggered_by<K, F, I>(self, api: &Api<K>, affected: F) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
        F: Fn(&K, &Known) -> I + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<DynamicObject>> + 'static,
        I::IntoIter: Send,
    {
        let trigger = |controller: Controller<DynamicObject>| {
            let (known, affected) = (Known(vec![controller.store()]), affected.clone());
            controller.watches(api.clone(), watching(), move |changed| affected(&changed, &known))
        };
        Self(self.0.into_iter().map(trigger).collect())
    }

    /// Reconciles all objects each time the signal is given.
    #[must_use]
    pub fn all_when(self, signal: &Signal) -> Self {
        Self(self.0.into_iter().map(|controller| controller.reconcile_all_on(signal.listen())).collect())
    }

    /// Ends the watches when `shutdown` is cancelled, after running reconciles have ended.
    #[must_use]
    pub fn until(self, shutdown: &CancellationToken) -> Self {
        let end = |controller: Controller<DynamicObject>| {
            controller.graceful_shutdown_on(shutdown.clone().cancelled_owned())
        };
        Self(self.0.into_iter().map(end).collect())
    }

    pub(crate) fn into_controllers(self) -> impl Iterator<Item = Controller<DynamicObject>> {
        self.0.into_iter()
    }
}

/// One controller with its own watches.
impl From<Controller<DynamicObject>> for Watches {
    fn from(controller: Controller<DynamicObject>) -> Self {
        Self(vec![controller])
    }
}

/// The objects of a kind, as the watches of a scope saw them last. Clones share them.
#[derive(Clone)]
pub struct Known(Vec<Store<DynamicObject>>);

impl Known {
    /// All objects, in no order.
    pub fn state(&self) -> Vec<Arc<DynamicObject>> {
        self.0.iter().flat_map(Store::state).collect()
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(Store::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until every watch has listed its objects once; false if one ended before.
    pub async fn wait_until_ready(&self) -> bool {
        for store in &self.0 {
            if store.wait_until_ready().await.is_err() {
                return false;
            }
        }
        true
    }
}
