//! Whether a Backup can run: takes its complete spec (see [`super::defaults`]) and the state of the cluster; gives
//! the compiled settings for the pipeline, or all problems at once, as messages for `status.validationErrors`.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::Catalogue;
use lifeboat_api::velero::BackupSpec;

use crate::includes::Includes;
use crate::own::{LeftOutOwn, OwnObjects};
use crate::policy::{Policies, PolicyError};
use crate::velero::filter::{Filter, uses_old_filters};
use crate::velero::hooks::HookRules;
use crate::velero::order::{Orders, orders};

/// The storage location that the spec names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocationFacts {
    pub read_only: bool,
    pub available: bool,
}

/// A VolumeSnapshotLocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotLocation {
    pub name: String,
    pub provider: String,
}

/// Why the policies that `spec.resourcePolicy` names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoliciesProblem {
    #[error("its kind is {0:?}; only a ConfigMap can hold policies")]
    Kind(String),
    #[error("there is no ConfigMap {0:?} in Lifeboat's namespace")]
    Missing(String),
    #[error("ConfigMap {name:?}: {problem}")]
    Invalid { name: String, problem: PolicyError },
}

/// The input of the validation.
pub struct Input<'a> {
    pub spec: &'a BackupSpec,
    pub catalogue: &'a Catalogue,
    /// All existing namespaces.
    pub namespaces: &'a [String],
    /// None if the location does not exist.
    pub location: Option<LocationFacts>,
    pub snapshot_locations: &'a [SnapshotLocation],
    /// The server's default location per provider, for providers with several.
    pub default_snapshot_locations: &'a BTreeMap<String, String>,
    /// The policies in the ConfigMap of `spec.resourcePolicy`, or why they cannot be used.
    pub policies: Option<Result<Policies, PoliciesProblem>>,
    /// The server's own objects, which are left out.
    pub own: OwnObjects,
}

/// A validated spec.
#[derive(Clone, Debug)]
pub struct ValidBackup {
    pub filter: Filter,
    pub orders: Orders,
    pub hooks: HookRules,
    pub policies: Option<Policies>,
    /// The snapshot locations to use, one per provider.
    pub snapshot_locations: Vec<String>,
}

pub fn validate(input: Input<'_>) -> Result<ValidBackup, Vec<String>> {
    let mut problems = location_problems(&input);
    problems.extend(list_problems(input.spec));
    let snapshot_locations = snapshot_locations(&input, &mut problems);
    let policies = match input.policies {
        Some(Ok(policies)) => Some(policies),
        Some(Err(reason)) => {
            problems.push(format!("spec.resourcePolicy: {reason}"));
            None
        }
        None => None,
    };
    if policies.as_ref().is_some_and(Policies::chooses_types) && uses_old_filters(input.spec) {
        problems.push(
            "spec.resourcePolicy chooses types (includeExcludePolicy, clusterScopedFilterPolicy or namespacedFilterPolicies), which cannot be combined with includedResources, excludedResources and includeClusterResources; use the lists of cluster-scoped and namespace-scoped resources"
                .to_owned(),
        );
    }
    let mut kept = |made: Result<Filter, _>| made.map_err(|error| problems.push(message(&error))).ok();
    let filter = kept(Filter::new(input.spec, input.catalogue, input.namespaces, policies.as_ref()));
    let filter = filter.map(|filter| filter.without(left_out(input.spec, input.own, input.catalogue)));
    let hooks =
        HookRules::new(input.spec, input.catalogue).map_err(|error| problems.push(message(&error))).ok();
    let orders = orders(input.spec.ordered_resources.as_ref(), input.catalogue)
        .map_err(|errors| problems.extend(errors.iter().map(message)))
        .ok();
    match (filter, hooks, orders) {
        (Some(filter), Some(hooks), Some(orders)) if problems.is_empty() => {
            Ok(ValidBackup { filter, orders, hooks, policies, snapshot_locations })
        }
        _ => Err(problems),
    }
}

/// The server's own objects, unless the spec names them.
fn left_out(spec: &BackupSpec, own: OwnObjects, catalogue: &Catalogue) -> LeftOutOwn {
    let types = [&spec.included_resources, &spec.included_namespace_scoped_resources];
    let namespaces = spec.included_namespaces.as_deref().unwrap_or_default();
    LeftOutOwn::new(own, namespaces, types.into_iter().flatten().flatten(), catalogue)
}

fn message(error: &impl ToString) -> String {
    error.to_string()
}

fn location_problems(input: &Input<'_>) -> Vec<String> {
    let name = input.spec.storage_location.as_deref().unwrap_or_default();
    match &input.location {
        None => vec![format!(
            "spec.storageLocation: there is no BackupStorageLocation {name:?}; name one that exists (`lifeboat backup-location get`), or make it the default with `lifeboat backup-location set {name} --default`"
        )],
        Some(location) => {
            let mut problems = Vec::new();
            if location.read_only {
                problems.push(format!(
                    "spec.storageLocation: backup can't be created because backup storage location {name} is currently in read-only mode"
                ));
            }
            if !location.available {
                problems.push(format!(
                    "spec.storageLocation: backup can't be created because BackupStorageLocation {name} is in Unavailable status; its status says why (`lifeboat backup-location get {name} -o yaml`)"
                ));
            }
            problems
        }
    }
}

/// Problems of the spec's lists that need no cluster; also used by the command line.
pub fn list_problems(spec: &BackupSpec) -> Vec<String> {
    let mut problems = Vec::new();
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let mut check = |what: &str, included: Vec<String>, excluded: Vec<String>| {
        let found = Includes::problems(&included, &excluded);
        problems.extend(
            found.into_iter().map(|problem| format!("Invalid included/excluded {what} lists: {problem}")),
        );
    };
    check("namespace", list(&spec.included_namespaces), list(&spec.excluded_namespaces));
    if uses_old_filters(spec) {
        check("resource", list(&spec.included_resources), list(&spec.excluded_resources));
    }
    let scoped = [
        ("cluster-scoped", &spec.included_cluster_scoped_resources, &spec.excluded_cluster_scoped_resources),
        (
            "namespace-scoped",
            &spec.included_namespace_scoped_resources,
            &spec.excluded_namespace_scoped_resources,
        ),
    ];
    for (scope, included, excluded) in scoped {
        problems.extend(
            scoped_problems(&list(included), &list(excluded))
                .into_iter()
                .map(|problem| format!("Invalid {scope} included/excluded resource lists: {problem}")),
        );
    }
    let any_scoped = scoped.iter().flat_map(|(_, included, excluded)| [included, excluded]).any(|names| {
        let names = names.as_deref().unwrap_or_default();
        names.iter().any(|name| !super::ALWAYS_EXCLUDED.contains(&name.as_str()))
    });
    if uses_old_filters(spec) && any_scoped {
        problems.push(
            "includedResources, excludedResources and includeClusterResources cannot be used together with the lists of cluster-scoped and namespace-scoped resources; use one kind"
                .to_owned(),
        );
    }
    if spec.label_selector.is_some() && spec.or_label_selectors.is_some() {
        problems.push(
            "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified"
                .to_owned(),
        );
    }
    problems
}

/// The newer lists may exclude `*`, which means everything of a scope.
fn scoped_problems(included: &[String], excluded: &[String]) -> Vec<String> {
    if excluded.iter().any(|name| name == "*") {
        let alone = excluded.len() == 1 && included.is_empty();
        let message =
            "an excludes list with '*' must hold nothing else, and there can be no includes beside it";
        return if alone { Vec::new() } else { vec![message.to_owned()] };
    }
    Includes::problems(included, excluded)
}

/// One location per provider: the one that is named, the only one, or the server's default.
fn snapshot_locations(input: &Input<'_>, problems: &mut Vec<String>) -> Vec<String> {
    if input.spec.snapshot_volumes == Some(false) {
        return Vec::new();
    }
    let mut chosen: Vec<&SnapshotLocation> = Vec::new();
    for name in input.spec.volume_snapshot_locations.iter().flatten() {
        let Some(found) = input.snapshot_locations.iter().find(|known| known.name == *name) else {
            problems.push(format!(
                "spec.volumeSnapshotLocations: there is no VolumeSnapshotLocation {name:?}; name one that exists"
            ));
            continue;
        };
        match chosen.iter().find(|other| other.provider == found.provider) {
            Some(other) if other.name != *name => problems.push(format!(
                "spec.volumeSnapshotLocations: {:?} and {name:?} are both of provider {:?}; name one of them",
                other.name, found.provider
            )),
            Some(_) => {}
            None => chosen.push(found),
        }
    }
    for known in input.snapshot_locations {
        if chosen.iter().any(|other| other.provider == known.provider) {
            continue;
        }
        let mut same = input.snapshot_locations.iter().filter(|other| other.provider == known.provider);
        let default = input.default_snapshot_locations.get(&known.provider).filter(|name| !name.is_empty());
        let message = match default {
            _ if same.clone().count() == 1 => {
                chosen.push(known);
                continue;
            }
            Some(name) => {
                if let Some(found) = same.find(|other| other.name == *name) {
                    chosen.push(found);
                    continue;
                }
                format!(
                    "the server's --default-volume-snapshot-locations names {name:?} for provider {:?}, and there is no such VolumeSnapshotLocation; name one in spec.volumeSnapshotLocations",
                    known.provider
                )
            }
            None => format!(
                "provider {} has more than one possible volume snapshot location, and none were specified explicitly or as a default; name one in spec.volumeSnapshotLocations",
                known.provider
            ),
        };
        if !problems.contains(&message) {
            problems.push(message);
        }
    }
    chosen.into_iter().map(|location| location.name.clone()).collect()
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
