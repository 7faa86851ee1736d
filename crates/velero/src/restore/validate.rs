//! Whether a Restore can run, by its spec and by what was gathered. The messages are upstream's where upstream has
//! some.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use lifeboat_api::velero::names::SCHEDULE_NAME;
use lifeboat_api::velero::{Backup, BackupPhase, BackupStorageLocationPhase, Restore};
use lifeboat_plan::items::modifiers::Modifiers;
use lifeboat_plan::policy::items::ItemPolicies;
use lifeboat_plan::velero::restore::validate::{newest_completed, problems, source_problem};

use super::gather::Gathered;

/// A Restore that passed validation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) backup: String,
    /// The schedule's name; empty for none.
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
        found.push(problem.to_string());
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
    let policies = policies(restore, gathered.policies.as_ref());
    found.extend(policies.err().map(|problem| problem.to_string()));
    let modifiers = modifiers(restore, gathered.modifiers.as_ref());
    found.extend(modifiers.err().map(|problem| problem.to_string()));
    if !found.is_empty() {
        return Err(found);
    }
    let schedule = from_schedule.or_else(|| backup.labels().get(SCHEDULE_NAME).cloned());
    Ok(Claim { backup: backup.name_any(), schedule: schedule.unwrap_or_default() })
}

/// A backup that is unfinished or is being deleted has no reliable archive.
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
        Err(message) => Some(format!("Error retrieving backup: {message}")),
        Ok(location) if location.phase() == Some(&BackupStorageLocationPhase::Available) => None,
        Ok(location) => {
            Some(format!("The BSL {} is unavailable, cannot retrieve the backup", location.name_any()))
        }
    }
}

/// Why resource policies cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error("invalid restore resource policies: spec.resourcePolicy has kind {0:?}; only ConfigMap is known")]
    Kind(String),
    #[error("invalid restore resource policies: there is no ConfigMap {0}")]
    Missing(String),
    #[error("invalid restore resource policies: ConfigMap {config_map}: {problem}")]
    Content { config_map: String, problem: String },
}

/// The resource policies that the Restore names.
pub(super) fn policies(restore: &Restore, map: Option<&ConfigMap>) -> Result<ItemPolicies, PolicyError> {
    let Some(reference) = &restore.spec.resource_policy else { return Ok(ItemPolicies::default()) };
    let config_map = format!("{}/{}", restore.namespace().unwrap_or_default(), reference.name);
    if !reference.kind.eq_ignore_ascii_case("configmap") {
        return Err(PolicyError::Kind(reference.kind.clone()));
    }
    let Some(map) = map else { return Err(PolicyError::Missing(config_map)) };
    ItemPolicies::from_data(&map.data.clone().unwrap_or_default())
        .map_err(|error| PolicyError::Content { config_map, problem: error.to_string() })
}

/// Why resource modifiers cannot be used. Upstream's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ModifierError {
    #[error("spec.resourceModifier has kind {0:?}; only ConfigMap is known")]
    Kind(String),
    #[error("failed to get resource modifiers configmap {0}: there is no such ConfigMap")]
    Missing(String),
    #[error(
        "Error in parsing resource modifiers provided in configmap {config_map}: illegal resource modifiers {config_map} configmap: it must have exactly one key, and has {count}"
    )]
    Keys { config_map: String, count: usize },
    #[error("Error in parsing resource modifiers provided in configmap {config_map}: {problem}")]
    Content { config_map: String, problem: String },
}

/// The resource modifiers that the Restore names.
pub(super) fn modifiers(restore: &Restore, map: Option<&ConfigMap>) -> Result<Modifiers, ModifierError> {
    let Some(reference) = &restore.spec.resource_modifier else { return Ok(Modifiers::default()) };
    let config_map = format!("{}/{}", restore.namespace().unwrap_or_default(), reference.name);
    if !reference.kind.eq_ignore_ascii_case("configmap") {
        return Err(ModifierError::Kind(reference.kind.clone()));
    }
    let Some(map) = map else { return Err(ModifierError::Missing(config_map)) };
    let data: Vec<&String> = map.data.iter().flat_map(|data| data.values()).collect();
    let [yaml] = data.as_slice() else {
        return Err(ModifierError::Keys { config_map, count: data.len() });
    };
    Modifiers::parse(yaml).map_err(|error| ModifierError::Content { config_map, problem: error.to_string() })
}
