//! Whether a Restore can run, by its spec and by what was gathered. The words are upstream's where it has some.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use lifeboat_api::velero::names::SCHEDULE_NAME;
use lifeboat_api::velero::{Backup, BackupPhase, BackupStorageLocationPhase, Restore};
use lifeboat_plan::policy::items::ItemPolicies;
use lifeboat_plan::restore::modifiers::Modifiers;
use lifeboat_plan::restore::validate::{newest_completed, problems, source_problem};

use super::gather::Gathered;

/// What is known of a Restore that may run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) backup: String,
    /// Empty for none.
    pub(super) schedule: String,
}

pub(super) fn validate(restore: &Restore, gathered: &Gathered) -> Result<Claim, Vec<String>> {
    let spec = &restore.spec;
    let mut found = problems(spec);
    if let Some(problem) = source_problem(spec) {
        found.push(problem);
        return Err(found);
    }
    let from_schedule = spec.schedule_name.clone().filter(|name| !name.is_empty());
    if from_schedule.is_some()
        && let Err(problem) = newest_completed(&gathered.of_schedule)
    {
        found.push(problem.to_owned());
        return Err(found);
    }
    let Some(backup) = &gathered.backup else {
        let name = spec.backup_name.as_deref().unwrap_or_default();
        let namespace = restore.namespace().unwrap_or_default();
        found.push(format!(
            "Error retrieving backup: can't find backup {namespace}/{name}: backups.velero.io \"{name}\" not found"
        ));
        return Err(found);
    };
    found.extend(phase_problem(backup));
    found.extend(location_problem(gathered));
    found.extend(policies(restore, gathered.policies.as_ref()).err());
    if let Err(problem) = modifiers(restore, gathered.modifiers.as_ref()) {
        found.push(problem);
    }
    if !found.is_empty() {
        return Err(found);
    }
    let schedule = from_schedule.or_else(|| backup.labels().get(SCHEDULE_NAME).cloned());
    Ok(Claim { backup: backup.name_any(), schedule: schedule.unwrap_or_default() })
}

/// A backup that is still being made, or being deleted, has no archive to rely on.
fn phase_problem(backup: &Backup) -> Option<String> {
    let phase = backup.phase();
    let name = backup.name_any();
    match phase {
        BackupPhase::Completed | BackupPhase::PartiallyFailed | BackupPhase::Failed => None,
        BackupPhase::Deleting => Some(format!("backup {name} is being deleted")),
        BackupPhase::FailedValidation => Some(format!("backup {name} never ran: it is in phase {phase}")),
        _ => Some(format!("backup {name} is in phase {phase}; create the restore when it has ended")),
    }
}

fn location_problem(gathered: &Gathered) -> Option<String> {
    match gathered.location.as_ref()? {
        Err(words) => Some(format!("Error retrieving backup: {words}")),
        Ok(location) if location.phase() == Some(&BackupStorageLocationPhase::Available) => None,
        Ok(location) => {
            Some(format!("The BSL {} is unavailable, cannot retrieve the backup", location.name_any()))
        }
    }
}

/// The resource policies that the Restore names.
pub(super) fn policies(restore: &Restore, map: Option<&ConfigMap>) -> Result<ItemPolicies, String> {
    let Some(reference) = &restore.spec.resource_policy else { return Ok(ItemPolicies::default()) };
    let place = format!("{}/{}", restore.namespace().unwrap_or_default(), reference.name);
    let wrong = |words: String| format!("invalid restore resource policies: {words}");
    if !reference.kind.eq_ignore_ascii_case("configmap") {
        return Err(wrong(format!(
            "spec.resourcePolicy has kind {:?}; only ConfigMap is known",
            reference.kind
        )));
    }
    let map = map.ok_or_else(|| wrong(format!("there is no ConfigMap {place}")))?;
    ItemPolicies::from_data(&map.data.clone().unwrap_or_default())
        .map_err(|error| wrong(format!("ConfigMap {place}: {error}")))
}

/// The rules that the Restore names.
pub(super) fn modifiers(restore: &Restore, map: Option<&ConfigMap>) -> Result<Modifiers, String> {
    let Some(reference) = &restore.spec.resource_modifier else { return Ok(Modifiers::default()) };
    let place = format!("{}/{}", restore.namespace().unwrap_or_default(), reference.name);
    if !reference.kind.eq_ignore_ascii_case("configmap") {
        return Err(format!("spec.resourceModifier has kind {:?}; only ConfigMap is known", reference.kind));
    }
    let map = map.ok_or_else(|| {
        format!("failed to get resource modifiers configmap {place}: there is no such ConfigMap")
    })?;
    let data: Vec<&String> = map.data.iter().flat_map(|data| data.values()).collect();
    let [yaml] = data.as_slice() else {
        return Err(format!(
            "Error in parsing resource modifiers provided in configmap {place}: illegal resource modifiers {place} configmap: it must have exactly one key, and has {}",
            data.len()
        ));
    };
    Modifiers::parse(yaml).map_err(|error| {
        format!("Error in parsing resource modifiers provided in configmap {place}: {error}")
    })
}
