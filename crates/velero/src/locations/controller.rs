//! BackupStorageLocation: validates each bucket when it is due and shows whether backups can be stored there. gather
//! (read what the decision needs) -> validate -> plan (is a check due, which default stays) -> apply (check, unset)
//! -> status (one patch).

mod apply;
mod gather;
mod plan;
mod settled;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::{Known, locked};
use lifeboat_plan::velero::location::PastLook;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;
use settled::Settled;

/// What outlives one reconcile: when and with which inputs each location was last checked, and what was read for it, by UID.
struct State {
    resource: ApiResource,
    looked_at: Mutex<BTreeMap<String, PastLook>>,
    settled: Mutex<BTreeMap<String, Settled>>,
    /// How often Secrets of the namespace have changed, as far as the watch has seen.
    secret_changes: Arc<AtomicU64>,
}

impl State {
    fn new(resource: ApiResource) -> Self {
        Self {
            resource,
            looked_at: Mutex::default(),
            settled: Mutex::default(),
            secret_changes: Arc::default(),
        }
    }

    fn past(&self, object: &DynamicObject) -> Option<PastLook> {
        let looked_at = locked(&self.looked_at);
        looked_at.get(object.metadata.uid.as_deref()?).cloned()
    }

    fn remember(&self, object: &DynamicObject, look: PastLook) {
        let mut looked_at = locked(&self.looked_at);
        looked_at.insert(object.uid().unwrap_or_default(), look);
    }

    /// Forgets every location whose UID is not in `existing`.
    fn retain(&self, existing: &BTreeSet<String>) {
        locked(&self.looked_at).retain(|uid, _| existing.contains(uid));
        locked(&self.settled).retain(|uid, _| existing.contains(uid));
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<BackupStorageLocation>();
    // After new credentials, another certificate authority or an exported password, every location whose inputs
    // changed is checked again.
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &context.namespace);
    let (kind, state) = (resource.clone(), Arc::new(State::new(resource.clone())));
    let changes = state.secret_changes.clone();
    let watches = context
        .watches(&resource)
        .triggered_by(&secrets, move |_, locations| {
            changes.fetch_add(1, Ordering::Relaxed);
            every_location(locations, &kind)
        })
        .until(shutdown);
    let existing = watches.known();
    tokio::join!(
        dynamic::drive("backup-storage-location", watches, context.clone(), state.clone(), reconcile),
        forget_deleted(context, &state, existing, shutdown),
    );
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if let Some(rest) = state.rest(&object, context.now()) {
        return Ok(dynamic::again_after(rest));
    }
    let gathered = gather::gather(&context, &state, object).await?;
    let validated = validate::validate(&gathered, &context.plugins);
    let past = state.past(&gathered.object);
    let plan =
        plan::plan(&gathered, validated, past.as_ref(), context.settings.validation_frequency, context.now());
    let outcome = apply::apply(&context, &state, &gathered, plan).await?;
    status::write(&context, &state, &gathered, outcome).await
}

fn every_location(locations: &Known, kind: &ApiResource) -> Vec<ObjectRef<DynamicObject>> {
    locations
        .state()
        .iter()
        .map(|location| ObjectRef::from_obj_with(location.as_ref(), kind.clone()))
        .collect()
}

/// Removes deleted locations from the metrics and from memory.
async fn forget_deleted(context: &Context, state: &State, locations: Known, shutdown: &CancellationToken) {
    loop {
        let existing = locations.state();
        context.metrics.retain_locations(&existing.iter().map(|location| location.name_any()).collect());
        state.retain(&existing.iter().filter_map(|location| location.uid()).collect());
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(Duration::from_secs(5)) => {}
        }
    }
}
