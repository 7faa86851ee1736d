//! Types that a Backup includes and the cluster does not serve: most often a typing error, which would lead to an
//! incomplete backup.

use lifeboat_api::catalogue::Catalogue;
use lifeboat_api::velero::BackupSpec;

use crate::glob::Glob;

/// One warning per name that matches no served type.
pub(super) fn warnings(spec: &BackupSpec, catalogue: &Catalogue) -> Vec<String> {
    let lists = [
        ("spec.includedResources", &spec.included_resources),
        ("spec.includedClusterScopedResources", &spec.included_cluster_scoped_resources),
        ("spec.includedNamespaceScopedResources", &spec.included_namespace_scoped_resources),
    ];
    let names =
        lists.into_iter().flat_map(|(field, names)| names.iter().flatten().map(move |name| (field, name)));
    names
        .filter(|(_, name)| !is_served(name, catalogue))
        .map(|(field, name)| {
            format!(
                "{field}: the cluster serves no type {name:?}, so it adds nothing to the backup; `kubectl api-resources` lists the types"
            )
        })
        .collect()
}

/// Whether a served type has this name, or matches the pattern.
pub(crate) fn is_served(name: &str, catalogue: &Catalogue) -> bool {
    let fits = |glob: Glob| catalogue.types().any(|kind| glob.matches(&kind.id.to_string()));
    !catalogue.resolve(name).is_empty() || Glob::new(name).is_ok_and(fits)
}
