//! What a deletion has to know, and the objects that go at its end.

use kube::api::{DynamicObject, ListParams};
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{Backup, BackupPhase, Restore};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::deletion::{Known, restore_runs};
use lifeboat_plan::garbage::LocationState;
use serde_json::Value;

use crate::context::Context;
use crate::locations::{self, Location};

pub(super) struct Gathered {
    pub(super) name: String,
    pub(super) backup: Option<DynamicObject>,
    pub(super) location_name: String,
    pub(super) location: Option<Location>,
    location_state: LocationState,
    /// All Restores from this backup.
    pub(super) restores: Vec<DynamicObject>,
    running: Vec<String>,
}

impl Gathered {
    pub(super) fn phase(&self) -> Option<BackupPhase> {
        let phase = self.backup.as_ref()?.data.pointer("/status/phase").and_then(Value::as_str);
        Some(phase.filter(|phase| !phase.is_empty()).map_or(BackupPhase::New, BackupPhase::from))
    }

    /// The schedule that made the backup, for the metrics.
    pub(super) fn schedule(&self) -> String {
        let labels = self.backup.as_ref().map(ResourceExt::labels);
        let name = labels.and_then(|labels| labels.get(lifeboat_api::velero::names::SCHEDULE_NAME));
        name.cloned().unwrap_or_default()
    }

    pub(super) fn known(&self) -> Known<'_> {
        Known {
            backup: &self.name,
            phase: self.phase(),
            location: &self.location_name,
            location_state: self.location_state,
            running_restores: &self.running,
        }
    }
}

pub(super) async fn gather(context: &Context, name: &str) -> Result<Gathered, ApiError> {
    let backup = api::<Backup>(context).get_opt(name).await.attempt(format!("read Backup {name}"))?;
    let location_name =
        backup.as_ref().map(|backup| text(backup, "/spec/storageLocation")).unwrap_or_default();
    let (location, location_state) = match locations::find(context, &location_name).await {
        Ok(found) => {
            let state = LocationState::of(&found);
            match locations::open_found(context, found).await {
                Ok(location) => (Some(location), state),
                Err(error) => (None, error.state()),
            }
        }
        Err(error) => (None, error.state()),
    };
    let listed = api::<Restore>(context).list(&ListParams::default()).await.attempt("list Restores")?;
    let restores: Vec<_> =
        listed.items.into_iter().filter(|restore| text(restore, "/spec/backupName") == name).collect();
    let runs = |restore: &&DynamicObject| restore_runs(&objects::to_json(restore));
    let running = restores.iter().filter(runs).map(ResourceExt::name_any).collect();
    Ok(Gathered { name: name.to_owned(), backup, location_name, location, location_state, restores, running })
}

/// Deletes the Restores of the backup, then the Backup.
pub(super) async fn delete_objects(context: &Context, gathered: &Gathered) -> Vec<String> {
    let restores = api::<Restore>(context);
    for restore in &gathered.restores {
        if let Err(error) = objects::delete(&restores, restore).await {
            return vec![error.chain()];
        }
    }
    match &gathered.backup {
        Some(backup) => match objects::delete(&api::<Backup>(context), backup).await {
            Ok(()) => Vec::new(),
            Err(error) => vec![error.chain()],
        },
        None => Vec::new(),
    }
}

pub(super) fn api<K: Resource<DynamicType = ()>>(context: &Context) -> kube::Api<DynamicObject> {
    objects::namespaced(&context.client, &context.settings.namespace, &objects::resource_of::<K>())
}

fn text(object: &DynamicObject, path: &str) -> String {
    object.data.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}
