//! The types of a backup, selected in upstream's older or newer way. Names are resolved through the types that the
//! cluster serves; an unknown name is kept, so that a list of unknown names never becomes an empty list, which would
//! mean everything.

use lifeboat_api::catalogue::{Catalogue, GroupResource, ResourceType};
use lifeboat_api::velero::BackupSpec;

use super::FilterError;
use crate::glob::Glob;
use crate::policy::IncludeExcludePolicy;

/// The included types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeFilter {
    /// The older way.
    Global { lists: Lists, cluster: Option<bool>, all_namespaces: bool },
    /// The newer way.
    Scoped { namespaced: Lists, cluster: Lists, all_namespaces: bool },
}

/// Includes and excludes; unlike in `Includes`, an empty list stays empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    included: Vec<Glob>,
    excluded: Vec<Glob>,
}

impl Lists {
    fn includes(&self, name: &str) -> bool {
        self.included.iter().any(|glob| glob.matches(name))
    }

    fn excludes(&self, name: &str) -> bool {
        self.excluded.iter().any(|glob| glob.matches(name))
    }

    fn includes_all(&self) -> bool {
        self.included.is_empty() || self.included.iter().any(|glob| glob.as_str() == "*")
    }

    fn is_empty(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }
}

/// Whether a spec selects types in the older way.
pub fn uses_old_filters(spec: &BackupSpec) -> bool {
    spec.include_cluster_resources.is_some()
        || !spec.included_resources.as_deref().unwrap_or_default().is_empty()
        || !spec.excluded_resources.as_deref().unwrap_or_default().is_empty()
}

impl TypeFilter {
    pub(super) fn new(
        spec: &BackupSpec,
        catalogue: &Catalogue,
        all_namespaces: bool,
        policy: Option<&IncludeExcludePolicy>,
    ) -> Result<Self, FilterError> {
        if uses_old_filters(spec) {
            let included = resolve(catalogue, "spec.includedResources", spec.included_resources.as_ref())?;
            let excluded = resolve(catalogue, "spec.excludedResources", spec.excluded_resources.as_ref())?;
            let cluster = spec.include_cluster_resources;
            return Ok(Self::Global { lists: Lists { included, excluded }, cluster, all_namespaces });
        }
        let scoped = |field, names| resolve(catalogue, field, names);
        let mut namespaced = Lists {
            included: scoped(
                "spec.includedNamespaceScopedResources",
                spec.included_namespace_scoped_resources.as_ref(),
            )?,
            excluded: scoped(
                "spec.excludedNamespaceScopedResources",
                spec.excluded_namespace_scoped_resources.as_ref(),
            )?,
        };
        let mut cluster = Lists {
            included: scoped(
                "spec.includedClusterScopedResources",
                spec.included_cluster_scoped_resources.as_ref(),
            )?,
            excluded: scoped(
                "spec.excludedClusterScopedResources",
                spec.excluded_cluster_scoped_resources.as_ref(),
            )?,
        };
        if let Some(policy) = policy {
            let field = "includeExcludePolicy";
            let listed = |names: &Vec<String>| resolve(catalogue, field, Some(names));
            combine(
                &mut namespaced,
                listed(&policy.included_namespace_scoped_resources)?,
                listed(&policy.excluded_namespace_scoped_resources)?,
            );
            combine(
                &mut cluster,
                listed(&policy.included_cluster_scoped_resources)?,
                listed(&policy.excluded_cluster_scoped_resources)?,
            );
        }
        Ok(Self::Scoped { namespaced, cluster, all_namespaces })
    }

    /// Whether objects of this type are listed and included.
    pub fn takes(&self, kind: &ResourceType) -> bool {
        let name = kind.id.to_string();
        let is_namespaces = kind.id == GroupResource::new("", "namespaces");
        match self {
            Self::Global { lists, cluster, all_namespaces } => {
                let scope_taken = kind.namespaced
                    || match cluster {
                        Some(taken) => *taken,
                        None => is_namespaces || *all_namespaces,
                    };
                scope_taken && !lists.excludes(&name) && (lists.includes_all() || lists.includes(&name))
            }
            Self::Scoped { namespaced, .. } if kind.namespaced => {
                !namespaced.excludes(&name) && (namespaced.includes_all() || namespaced.includes(&name))
            }
            Self::Scoped { namespaced, cluster, all_namespaces } => {
                let full = cluster.is_only_automatic() && *all_namespaces && namespaced.is_only_automatic();
                !cluster.excludes(&name) && (full || cluster.includes(&name) || is_namespaces)
            }
        }
    }

    /// Whether objects of this type are left out even as additional items.
    pub fn excludes(&self, kind: &ResourceType) -> bool {
        let name = kind.id.to_string();
        match self {
            Self::Global { lists, cluster, .. } => {
                let by_scope = !kind.namespaced
                    && match cluster {
                        Some(taken) => !taken,
                        None => !(lists.includes_all() || lists.includes(&name)),
                    };
                lists.excludes(&name) || by_scope
            }
            Self::Scoped { namespaced, .. } if kind.namespaced => namespaced.excludes(&name),
            Self::Scoped { cluster, .. } => cluster.excludes(&name),
        }
    }
}

/// API groups whose servers compute objects when they are read: there is nothing to back up.
const STORE_NOTHING: [&str; 5] = [
    "metrics.k8s.io",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
    "subresources.kubevirt.io",
    "packages.operators.coreos.com",
];

impl TypeFilter {
    /// Whether the backup may lose objects because the server of an API group does not answer. `types`: those of the
    /// group that are known; none if the cluster has forgotten them. `is_served`: whether the cluster serves a type of a
    /// name that the spec includes.
    pub fn may_miss(&self, group: &str, types: &[ResourceType], is_served: impl Fn(&str) -> bool) -> bool {
        if STORE_NOTHING.contains(&group) {
            return false;
        }
        if !types.is_empty() {
            return types.iter().any(|kind| kind.can_be_backed_up() && self.takes(kind));
        }
        // A name that only a pattern fits.
        let any = format!("any-type-of-the-group.{group}");
        let suffix = format!(".{group}");
        let names_it = |lists: &Lists| {
            let fits = |glob: &Glob| {
                let name = glob.as_str();
                glob.matches(&any)
                    || name.ends_with(&suffix)
                    || !(name.contains(['.', '*']) || is_served(name))
            };
            lists.included.iter().any(fits)
        };
        let may_take = |lists: &Lists| !lists.excludes(&any) && (lists.includes_all() || names_it(lists));
        match self {
            Self::Global { lists, .. } => may_take(lists),
            Self::Scoped { namespaced, cluster, .. } => {
                may_take(namespaced) || !cluster.excludes(&any) && names_it(cluster)
            }
        }
    }
}

impl Lists {
    /// Whether the user selected nothing: lists with only [`super::ALWAYS_EXCLUDED`] are treated as empty.
    fn is_only_automatic(&self) -> bool {
        self.is_empty()
            || (self.included.is_empty() || self.included.iter().all(|glob| glob.as_str() == "*"))
                && self.excluded.iter().all(|glob| super::ALWAYS_EXCLUDED.contains(&glob.as_str()))
    }
}

/// Adds a policy's lists; the spec takes precedence.
fn combine(lists: &mut Lists, included: Vec<Glob>, excluded: Vec<Glob>) {
    for glob in excluded {
        if !lists.includes(glob.as_str()) && !lists.excludes(glob.as_str()) {
            lists.excluded.push(glob);
        }
    }
    for glob in included {
        if !lists.includes(glob.as_str()) && !lists.excludes(glob.as_str()) {
            lists.included.push(glob);
        }
    }
}

/// Resolves names to the form `resource.group`. A type of the wrong scope stays in the list: it matches nothing
/// there, and the list does not become empty, which would mean everything.
fn resolve(
    catalogue: &Catalogue,
    field: &'static str,
    names: Option<&Vec<String>>,
) -> Result<Vec<Glob>, FilterError> {
    let mut globs = Vec::new();
    for name in names.into_iter().flatten() {
        let found = if name == "*" { Vec::new() } else { catalogue.resolve(name) };
        if found.is_empty() {
            globs.push(Glob::new(name).map_err(|source| FilterError::Pattern { field, source })?);
        }
        // Names of types contain no wildcards.
        globs.extend(found.iter().filter_map(|kind| Glob::new(&kind.id.to_string()).ok()));
    }
    Ok(globs)
}
