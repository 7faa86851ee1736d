//! Reads what the decision about a Restore needs: the backup, or the schedule's backups, its location, the ConfigMaps
//! with modifiers and policies.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use lifeboat_api::common::TypedLocalObjectReference;
use lifeboat_api::velero::names::SCHEDULE_NAME;
use lifeboat_api::velero::{Backup, BackupStorageLocation, Restore};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::items::versions::{self, VersionPreferences};
use lifeboat_plan::velero::schedule::own_name;

use crate::context::Context;
use crate::locations::{self, LocationError};

/// Everything that was read.
#[derive(Default)]
pub(super) struct Gathered {
    /// The backups of the schedule, if the Restore names one.
    pub(super) of_schedule: Vec<Backup>,
    pub(super) backup: Option<Backup>,
    /// The backup's location, or why it cannot be read.
    pub(super) location: Option<Result<BackupStorageLocation, LocationError>>,
    /// The ConfigMap with resource modifiers that the Restore names, if it exists.
    pub(super) modifiers: Option<ConfigMap>,
    /// The ConfigMap with resource policies that the Restore names, if it exists.
    pub(super) policies: Option<ConfigMap>,
}

pub(super) async fn gather(context: &Context, restore: &Restore) -> Result<Gathered, ApiError> {
    let namespace = &context.namespace;
    let api = objects::namespaced(&context.client, namespace, &objects::resource_of::<Backup>());
    let mut gathered = Gathered::default();
    let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    if let Some(schedule) = named(&restore.spec.schedule_name) {
        let schedule = own_name(&schedule);
        let options = ListParams::default().labels(&format!("{SCHEDULE_NAME}={schedule}"));
        let listed = api.list(&options).await.attempt("list Backups of the schedule")?;
        // Labels are compared here as well, in case the server ignores the selector.
        let labelled = listed.items.iter().filter(|backup| {
            backup.metadata.labels.as_ref().and_then(|labels| labels.get(SCHEDULE_NAME)) == Some(&schedule)
        });
        gathered.of_schedule = labelled.filter_map(|backup| objects::typed(backup).ok()).collect();
    }
    let newest = lifeboat_plan::velero::restore::validate::newest_completed(&gathered.of_schedule).ok();
    let name = named(&restore.spec.backup_name).or_else(|| newest?.metadata.name.clone());
    if let Some(name) = name {
        let found = api.get_opt(&name).await.attempt(format!("read Backup {name}"))?;
        gathered.backup = found.and_then(|backup| objects::typed(&backup).ok());
    }
    if let Some(backup) = &gathered.backup {
        let name = backup.spec.storage_location.clone().unwrap_or_default();
        gathered.location = Some(match locations::find(context, &name).await {
            Ok(location) => Ok(location),
            Err(LocationError::Api(error)) => return Err(error),
            Err(error) => Err(error),
        });
    }
    gathered.modifiers = config_map(context, restore.spec.resource_modifier.as_ref()).await?;
    gathered.policies = config_map(context, restore.spec.resource_policy.as_ref()).await?;
    Ok(gathered)
}

/// The API versions that the user prefers; empty if there is no such ConfigMap.
pub(super) async fn preferred_versions(context: &Context) -> Result<VersionPreferences, ApiError> {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &context.namespace);
    let found = maps.get_opt(versions::CONFIG_MAP).await;
    let found = found.attempt(format!("read ConfigMap {}", versions::CONFIG_MAP))?;
    let text = found.and_then(|map| map.data?.remove(versions::CONFIG_KEY)).unwrap_or_default();
    let (wishes, others) = VersionPreferences::parse(&text);
    for line in others {
        tracing::warn!(line, "ConfigMap {} has a line that is not TYPE=VERSION,...", versions::CONFIG_MAP);
    }
    Ok(wishes)
}

async fn config_map(
    context: &Context,
    reference: Option<&TypedLocalObjectReference>,
) -> Result<Option<ConfigMap>, ApiError> {
    let Some(TypedLocalObjectReference { name, .. }) = reference else { return Ok(None) };
    let namespace = &context.namespace;
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    maps.get_opt(name).await.attempt(format!("read ConfigMap {namespace}/{name}"))
}
