//! Validates a Restore's spec, with upstream's messages, and fills in defaults. Called by the controller before the
//! restore starts.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::catalogue::Catalogue;
use lifeboat_api::velero::names::{BACKUP_NAME, RESTORE_NAME, RESTORE_STATUS};
use lifeboat_api::velero::{Backup, BackupPhase, ExistingResourcePolicy, RestoreSpec};

use super::hooks::RestoreHooks;
use crate::includes::Includes;
use crate::items::existing::ExistingPolicy;
use crate::items::filter::{
    COMMANDS, FilterError, NEVER_RESTORED, NameLists, RestoreFilter, Selection, StatusFilter,
};
use crate::items::modifiers::Modifiers;
use crate::items::rules::ItemRules;
use crate::own::{LeftOutOwn, OwnObjects};

/// A validated Restore.
#[derive(Clone, Debug)]
pub struct ValidRestore {
    /// The rules for all items.
    pub rules: ItemRules,
    pub hooks: RestoreHooks,
    /// Whether the data of volumes is restored.
    pub volumes: bool,
}

/// Compiles the spec, which has passed [`problems`].
pub fn compile(
    spec: &RestoreSpec,
    catalogue: &Catalogue,
    modifiers: Modifiers,
) -> Result<ValidRestore, FilterError> {
    Ok(ValidRestore {
        rules: ItemRules {
            filter: RestoreFilter::new(&selection(spec), catalogue)?,
            status: status_filter(spec, catalogue)?,
            mapping: spec.namespace_mapping.clone().unwrap_or_default(),
            existing: policy(spec).map(existing),
            modifiers,
            versions: BTreeMap::new(),
            own: LeftOutOwn::default(),
            own_labels: &[BACKUP_NAME, RESTORE_NAME],
        },
        hooks: RestoreHooks::new(spec)?,
        volumes: spec.restore_pvs != Some(false),
    })
}

/// The server's own objects, unless the spec names them.
pub fn left_out(spec: &RestoreSpec, own: OwnObjects, catalogue: &Catalogue) -> LeftOutOwn {
    let namespaces = spec.included_namespaces.as_deref().unwrap_or_default();
    LeftOutOwn::new(own, namespaces, spec.included_resources.iter().flatten(), catalogue)
}

/// The namespaces of the cluster that the spec names: in its list, without patterns, or as the target of a mapping.
pub fn named_targets(spec: &RestoreSpec) -> BTreeSet<String> {
    let mapping = spec.namespace_mapping.clone().unwrap_or_default();
    let listed =
        spec.included_namespaces.iter().flatten().filter(|name| !name.contains(['*', '?', '[', '{']));
    let listed = listed.map(|name| mapping.get(name).unwrap_or(name).clone());
    listed.chain(mapping.values().cloned()).collect()
}

/// Problems of the spec that need no cluster.
pub fn problems(spec: &RestoreSpec) -> Vec<String> {
    let list = |names: &Option<Vec<String>>| names.clone().unwrap_or_default();
    let mut problems = Vec::new();
    let included = list(&spec.included_resources);
    let never = NEVER_RESTORED.iter().chain(&COMMANDS);
    for name in never.filter(|name| included.iter().any(|wanted| wanted == *name)) {
        problems.push(format!("{name} are non-restorable resources"));
    }
    for problem in Includes::problems(&included, &list(&spec.excluded_resources)) {
        problems.push(format!("Invalid included/excluded resource lists: {problem}"));
    }
    let (namespaces, excluded) = (list(&spec.included_namespaces), list(&spec.excluded_namespaces));
    for problem in Includes::problems(&namespaces, &excluded) {
        problems.push(format!("Invalid included/excluded namespace lists: {problem}"));
    }
    if spec.label_selector.is_some() && spec.or_label_selectors.is_some() {
        problems.push(
            "encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified"
                .to_owned(),
        );
    }
    for error in
        [RestoreFilter::new(&selection(spec), &Catalogue::default()).err(), RestoreHooks::new(spec).err()]
            .into_iter()
            .flatten()
    {
        problems.push(format!("invalid restore spec: {error}"));
    }
    problems.extend(RestoreHooks::problems(spec));
    if let Some(ExistingResourcePolicy::Other(text)) = policy(spec) {
        problems.push(format!("Invalid ExistingResourcePolicy: {text}; use none or update"));
    }
    problems.extend(mapping_problems(spec));
    problems
}

/// Whether exactly one source is named; checked before the server fills in the other one.
pub fn source_problem(spec: &RestoreSpec) -> Option<String> {
    let given = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    (given(&spec.backup_name) == given(&spec.schedule_name)).then(|| {
        "Either a backup or schedule must be specified as a source for the restore, but not both".to_owned()
    })
}

/// The spec's list of excluded types plus those that are never restored, as upstream writes it back; types that only
/// Lifeboat leaves out are not written.
pub fn excluded_resources(spec: &RestoreSpec) -> Vec<String> {
    let mut names = spec.excluded_resources.clone().unwrap_or_default();
    for name in NEVER_RESTORED {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Why a schedule has nothing to restore; upstream's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBackup {
    #[error("No backups found for schedule")]
    None,
    #[error("No completed backups found for schedule")]
    NoneCompleted,
}

/// The newest completed backup of a schedule.
pub fn newest_completed(backups: &[Backup]) -> Result<&Backup, NoBackup> {
    if backups.is_empty() {
        return Err(NoBackup::None);
    }
    let started = |backup: &Backup| backup.status.as_ref().and_then(|status| status.start_timestamp.clone());
    backups
        .iter()
        .filter(|backup| *backup.phase() == BackupPhase::Completed)
        .max_by_key(|backup| started(backup).map(|time| time.0))
        .ok_or(NoBackup::NoneCompleted)
}

/// An empty policy means none.
fn policy(spec: &RestoreSpec) -> Option<&ExistingResourcePolicy> {
    spec.existing_resource_policy.as_ref().filter(|policy| !policy.as_str().is_empty())
}

/// An invalid policy is refused by [`problems`] before.
fn existing(policy: &ExistingResourcePolicy) -> ExistingPolicy {
    match policy {
        ExistingResourcePolicy::Update => ExistingPolicy::Update,
        ExistingResourcePolicy::None | ExistingResourcePolicy::Other(_) => ExistingPolicy::None,
    }
}

/// The items that the spec selects.
pub(crate) fn selection(spec: &RestoreSpec) -> Selection<'_> {
    Selection {
        namespaces: lists(spec.included_namespaces.as_ref(), spec.excluded_namespaces.as_ref()),
        types: lists(spec.included_resources.as_ref(), spec.excluded_resources.as_ref()),
        selectors: spec.label_selector.iter().chain(spec.or_label_selectors.iter().flatten()).collect(),
        cluster: spec.include_cluster_resources,
    }
}

/// The types whose status the spec restores.
pub(crate) fn status_filter(spec: &RestoreSpec, catalogue: &Catalogue) -> Result<StatusFilter, FilterError> {
    let types = spec.restore_status.as_ref();
    let types =
        types.map(|types| lists(types.included_resources.as_ref(), types.excluded_resources.as_ref()));
    StatusFilter::new(types, RESTORE_STATUS, catalogue)
}

fn lists<'a>(included: Option<&'a Vec<String>>, excluded: Option<&'a Vec<String>>) -> NameLists<'a> {
    let list = |names: Option<&'a Vec<String>>| names.map(Vec::as_slice).unwrap_or_default();
    NameLists { included: list(included), excluded: list(excluded) }
}

/// Empty names in the mapping. Two namespaces may map to one, as upstream allows; objects with the same name are
/// reported when they collide.
fn mapping_problems(spec: &RestoreSpec) -> Vec<String> {
    let mapping = spec.namespace_mapping.iter().flatten();
    let empty = mapping
        .filter(|(from, to)| from.is_empty() || to.is_empty())
        .map(|(from, to)| format!("spec.namespaceMapping has an empty name: {from:?} to {to:?}"));
    empty.collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: &Value) -> RestoreSpec {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[rstest]
    #[case::nothing_wrong(json!({"backupName": "b"}), "")]
    #[case::never_restored(json!({"includedResources": ["nodes"]}), "nodes are non-restorable resources")]
    #[case::commands(json!({"includedResources": ["deletebackuprequests.velero.io"]}), "deletebackuprequests.velero.io are non-restorable resources")]
    #[case::resources(json!({"includedResources": ["*", "pods"]}), "Invalid included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items")]
    #[case::namespaces(json!({"excludedNamespaces": ["*"]}), "Invalid included/excluded namespace lists: excludes list cannot contain '*'")]
    #[case::selectors(json!({"labelSelector": {}, "orLabelSelectors": [{}]}), "encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified")]
    #[case::policy(json!({"existingResourcePolicy": "replace"}), "Invalid ExistingResourcePolicy: replace; use none or update")]
    #[case::no_policy(json!({"existingResourcePolicy": ""}), "")]
    #[case::mapping(json!({"namespaceMapping": {"a": ""}}), "spec.namespaceMapping has an empty name: \"a\" to \"\"")]
    #[case::init_container(json!({"hooks": {"resources": [{"name": "h", "postHooks": [{"init": {"initContainers": [{"name": "x"}]}}]}]}}), "invalid init container in restore hook \"h\": invalid InitContainer in restore hook, it doesn't have Command, Name or Image field")]
    fn problems_have_upstreams_messages(#[case] given: Value, #[case] expected: &str) {
        assert_eq!(problems(&spec(&given)).join("; "), expected);
    }

    #[rstest]
    #[case(json!({"backupName": "b"}), true)]
    #[case(json!({"scheduleName": "s", "backupName": ""}), true)]
    #[case(json!({"scheduleName": "s", "backupName": "b"}), false)]
    #[case(json!({}), false)]
    fn a_restore_has_one_source(#[case] given: Value, #[case] fine: bool) {
        assert_eq!(source_problem(&spec(&given)).is_none(), fine);
    }

    #[test]
    fn the_newest_completed_backup_of_a_schedule_is_taken() {
        let backup = |name: &str, phase: &str, time: &str| -> Backup {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {},
                "status": {"phase": phase, "startTimestamp": time}}))
            .unwrap()
        };
        let backups = [
            backup("old", "Completed", "2026-11-15T10:00:00Z"),
            backup("new", "Completed", "2026-11-15T11:00:00Z"),
            backup("newest", "PartiallyFailed", "2026-11-15T12:00:00Z"),
        ];
        assert_eq!(newest_completed(&backups).unwrap().metadata.name.as_deref(), Some("new"));
        assert_eq!(newest_completed(&backups[2..]), Err(NoBackup::NoneCompleted));
        assert_eq!(NoBackup::NoneCompleted.to_string(), "No completed backups found for schedule");
        assert_eq!(newest_completed(&[]), Err(NoBackup::None));
        assert_eq!(NoBackup::None.to_string(), "No backups found for schedule");
    }

    #[test]
    fn what_is_never_restored_is_written_back_once() {
        let names = excluded_resources(&spec(&json!({"excludedResources": ["events", "secrets"]})));
        assert_eq!(names[..3], ["events", "secrets", "nodes"]);
        assert_eq!(names.len(), 10);
    }
}
