//! What a deletion needs to know, and the objects that are deleted at its end.

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_api::velero::{Backup, BackupPhase, Restore};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::backup::ATTEMPT;
use lifeboat_plan::velero::deletion::{Extent, Identity, Known, Stored, restore_runs};
use lifeboat_plan::velero::garbage::LocationState;
use serde_json::Value;

use crate::context::Context;
use crate::locations::{self, Location, LocationError, stored_backup};
use crate::volume_plugin::{Kind, delete_all};

pub(super) struct Gathered {
    pub(super) name: String,
    pub(super) backup: Option<DynamicObject>,
    pub(super) location_name: String,
    pub(super) location: Option<Location>,
    location_state: LocationState,
    pub(super) stored: Stored,
    /// All Restores of this backup.
    pub(super) restores: Vec<DynamicObject>,
    running: Vec<String>,
}

impl Gathered {
    pub(super) fn phase(&self) -> Option<BackupPhase> {
        let phase = self.backup.as_ref()?.data.pointer("/status/phase").and_then(Value::as_str);
        Some(phase.filter(|phase| !phase.is_empty()).map_or(BackupPhase::New, BackupPhase::from))
    }

    /// The schedule that created the backup, for the metrics.
    pub(super) fn schedule(&self) -> String {
        let labels = self.backup.as_ref().map(ResourceExt::labels);
        let name = labels.and_then(|labels| labels.get(lifeboat_api::velero::names::SCHEDULE_NAME));
        name.cloned().unwrap_or_default()
    }

    fn identity(&self) -> Identity {
        let Some(backup) = &self.backup else { return Identity::default() };
        Identity {
            uid: backup.uid().unwrap_or_default(),
            claimed: backup.annotations().contains_key(ATTEMPT),
            started: text(backup, "/status/startTimestamp"),
            failure: text(backup, "/status/failureReason"),
        }
    }

    /// What the cluster and storage know of the backup. `asked_uid`: the UID that the request names.
    pub(super) fn known<'a>(&'a self, asked_uid: &'a str) -> Known<'a> {
        Known {
            backup: &self.name,
            phase: self.phase(),
            identity: self.identity(),
            stored: self.stored.clone(),
            asked_uid,
            location: &self.location_name,
            location_state: self.location_state,
            running_restores: &self.running,
        }
    }
}

pub(super) async fn gather(context: &Context, name: &str) -> Result<Gathered, ApiError> {
    let backup = context.objects::<Backup>().get_opt(name).await.attempt(format!("read Backup {name}"))?;
    let location_name =
        backup.as_ref().map(|backup| text(backup, "/spec/storageLocation")).unwrap_or_default();
    let (location, location_state) = match locations::find(context, &location_name).await {
        Ok(found) => {
            let state = LocationState::of(&found);
            match locations::open_found(context, found).await {
                Ok(location) => (Some(location), state),
                // The API server may answer the next time.
                Err(LocationError::Api(error)) => return Err(error),
                Err(error) => (None, error.state()),
            }
        }
        Err(LocationError::Api(error)) => return Err(error),
        Err(error) => (None, error.state()),
    };
    let listed = context.objects::<Restore>().list(&ListParams::default()).await.attempt("list Restores")?;
    let restores: Vec<_> =
        listed.items.into_iter().filter(|restore| text(restore, "/spec/backupName") == name).collect();
    let runs = |restore: &&DynamicObject| restore_runs(&objects::to_json(restore));
    let running = restores.iter().filter(runs).map(ResourceExt::name_any).collect();
    let stored = match &location {
        Some(location) if backup.is_some() && location_state == LocationState::Usable => {
            stored_backup(location, name).await
        }
        _ => Stored::Unreadable("was not read".to_owned()),
    };
    let name = name.to_owned();
    Ok(Gathered { name, backup, location_name, location, location_state, stored, restores, running })
}

/// Deletes the Restores of the backup, then the Backup; with `ObjectOnly` the Restores stay, because they belong to
/// another backup.
pub(super) async fn delete_objects(context: &Context, gathered: &Gathered, extent: Extent) -> Vec<String> {
    let restores = context.objects::<Restore>();
    let its_own = if extent == Extent::Everything { gathered.restores.as_slice() } else { &[] };
    for restore in its_own {
        if let Err(error) = objects::delete(&restores, restore).await {
            return vec![error.chain()];
        }
    }
    // They are deleted with their owner; those of a synced backup may have none.
    let snapshots = delete_all(&context.client, Kind::Backup, &context.namespace, &gathered.name);
    if let Err(error) = snapshots.await {
        return vec![error.chain()];
    }
    match &gathered.backup {
        Some(backup) => match objects::delete(&context.objects::<Backup>(), backup).await {
            Ok(()) => Vec::new(),
            Err(error) => vec![error.chain()],
        },
        None => Vec::new(),
    }
}

fn text(object: &DynamicObject, path: &str) -> String {
    object.data.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}
