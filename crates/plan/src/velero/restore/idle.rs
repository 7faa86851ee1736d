//! Settings of a Restore that have no effect: names of types and namespaces that do not exist, a selection that
//! matches nothing. Most often a typing error, so the restore warns about it. Called by the executor and by the dry
//! run.

use std::collections::BTreeSet;

use lifeboat_api::catalogue::{Catalogue, GroupResource};
use lifeboat_api::velero::RestoreSpec;

use crate::glob::Glob;
use crate::items::filter::NEVER_RESTORED;
use crate::velero::filter::unknown::is_served;

/// The content of a backup, and the part that is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held<'a> {
    pub types: BTreeSet<&'a GroupResource>,
    pub namespaces: BTreeSet<&'a str>,
    /// The namespaces with selected items.
    pub wanted_namespaces: BTreeSet<&'a str>,
    pub items: usize,
    pub wanted: usize,
}

/// One warning per setting.
pub fn warnings(spec: &RestoreSpec, catalogue: &Catalogue, held: &Held<'_>) -> Vec<String> {
    let mut warnings = mappings(spec, held);
    for name in spec.included_namespaces.iter().flatten().filter(|name| *name != "*") {
        let fits = |glob: Glob| held.namespaces.iter().any(|namespace| glob.matches(namespace));
        if !Glob::new(name).is_ok_and(fits) {
            warnings.push(format!("spec.includedNamespaces: the backup holds no namespace {name:?}"));
        }
    }
    let status = spec.restore_status.as_ref();
    let lists = [
        ("spec.includedResources", spec.included_resources.as_ref()),
        ("spec.excludedResources", spec.excluded_resources.as_ref()),
        (
            "spec.restoreStatus.includedResources",
            status.and_then(|status| status.included_resources.as_ref()),
        ),
        (
            "spec.restoreStatus.excludedResources",
            status.and_then(|status| status.excluded_resources.as_ref()),
        ),
    ];
    for (field, names) in lists {
        for name in names.into_iter().flatten().filter(|name| !is_known(name, catalogue, held)) {
            warnings.push(format!(
                "{field}: neither the cluster nor the backup has a type {name:?}, so it has no effect; `kubectl api-resources` lists the types"
            ));
        }
    }
    if held.items == 0 {
        warnings.push("the backup holds no objects: nothing is restored".to_owned());
    } else if held.wanted == 0 {
        warnings.push(format!(
            "none of the {} objects in the backup is what this Restore asks for: nothing is restored; look at its namespaces, types and labels",
            held.items
        ));
    }
    warnings
}

fn mappings(spec: &RestoreSpec, held: &Held<'_>) -> Vec<String> {
    let idle = spec
        .namespace_mapping
        .iter()
        .flatten()
        .filter(|(from, _)| !held.wanted_namespaces.contains(from.as_str()));
    idle.map(|(from, to)| {
        let why = if held.namespaces.contains(from.as_str()) {
            "is in the backup, but nothing of it is selected"
        } else {
            "is not in the backup"
        };
        format!("spec.namespaceMapping: namespace {from:?} {why}, so nothing is restored into {to:?} for it")
    })
    .collect()
}

fn is_known(name: &str, catalogue: &Catalogue, held: &Held<'_>) -> bool {
    let fits = |glob: Glob| {
        held.types.iter().any(|kind| glob.matches(&kind.to_string()) || glob.matches(&kind.resource))
    };
    // The server adds the types that are never restored to the excludes.
    NEVER_RESTORED.contains(&name)
        || is_served(name, catalogue)
        || Glob::new(&name.to_lowercase()).is_ok_and(fits)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn warned(spec: Value, wanted: usize) -> Vec<String> {
        let spec: RestoreSpec = serde_json::from_value(spec).unwrap();
        let (pods, widgets) = (GroupResource::new("", "pods"), GroupResource::new("example.com", "widgets"));
        let held = Held {
            types: [&pods, &widgets].into(),
            namespaces: ["shop", "db"].into(),
            wanted_namespaces: ["shop"].into(),
            items: 5,
            wanted,
        };
        warnings(&spec, &Catalogue::default(), &held)
    }

    #[rstest]
    #[case::nothing_said(json!({}))]
    #[case::everything(json!({"includedNamespaces": ["*"], "includedResources": ["*"]}))]
    #[case::mapped(json!({"namespaceMapping": {"shop": "test"}}))]
    #[case::in_the_backup(json!({"includedResources": ["Widgets", "po*"], "excludedResources": ["widgets.example.com"]}))]
    #[case::what_the_server_adds(json!({"excludedResources": NEVER_RESTORED}))]
    #[case::pattern(json!({"includedNamespaces": ["sh*"]}))]
    fn settings_with_an_effect_are_not_reported(#[case] spec: Value) {
        assert_eq!(warned(spec, 3), Vec::<String>::new());
    }

    #[rstest]
    #[case::mapping(json!({"namespaceMapping": {"typo": "test"}}), "spec.namespaceMapping: namespace \"typo\" is not in the backup")]
    #[case::mapping_left_out(json!({"namespaceMapping": {"db": "test"}}), "namespace \"db\" is in the backup, but nothing")]
    #[case::namespace(json!({"includedNamespaces": ["shop", "zzz"]}), "no namespace \"zzz\"")]
    #[case::included(json!({"includedResources": ["foos"]}), "spec.includedResources: neither the cluster nor the backup has a type \"foos\"")]
    #[case::excluded(json!({"excludedResources": ["bogus"]}), "spec.excludedResources: neither")]
    #[case::status(json!({"restoreStatus": {"includedResources": ["bananas"]}}), "spec.restoreStatus.includedResources: neither")]
    fn an_unknown_name_is_reported(#[case] spec: Value, #[case] expected: &str) {
        let found = warned(spec, 3);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }

    #[test]
    fn a_selection_that_matches_nothing_is_reported() {
        let found = warned(json!({"labelSelector": {"matchLabels": {"app": "zzz"}}}), 0);
        assert!(found.len() == 1 && found[0].starts_with("none of the 5 objects"), "{found:?}");
    }
}
