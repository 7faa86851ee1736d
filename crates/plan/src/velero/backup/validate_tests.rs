//! Problems that prevent a Backup from running.

use lifeboat_api::catalogue::{GroupResource, ResourceType};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn catalogue() -> Catalogue {
    Catalogue::new(vec![ResourceType {
        id: GroupResource::new("", "pods"),
        version: "v1".into(),
        kind: "Pod".into(),
        singular: "pod".into(),
        namespaced: true,
        preferred: true,
        ..ResourceType::default()
    }])
}

fn verdict(
    spec: Value,
    location: Option<LocationFacts>,
    policies: Option<Result<Policies, PoliciesProblem>>,
) -> Result<ValidBackup, Vec<String>> {
    verdict_with(spec, location, policies, &[("aws".to_owned(), "a1".to_owned())].into())
}

fn verdict_with(
    spec: Value,
    location: Option<LocationFacts>,
    policies: Option<Result<Policies, PoliciesProblem>>,
    default_snapshot_locations: &BTreeMap<String, String>,
) -> Result<ValidBackup, Vec<String>> {
    let spec: BackupSpec = serde_json::from_value(spec).unwrap();
    let location_of =
        |name: &str, provider: &str| SnapshotLocation { name: name.into(), provider: provider.into() };
    let snapshot_locations = [location_of("a1", "aws"), location_of("a2", "aws"), location_of("g", "gcp")];
    validate(Input {
        spec: &spec,
        catalogue: &catalogue(),
        namespaces: &["shop".to_owned()],
        location,
        snapshot_locations: &snapshot_locations,
        default_snapshot_locations,
        policies,
        own: OwnObjects::default(),
    })
}

#[allow(clippy::unnecessary_wraps)] // what the input holds
fn usable() -> Option<LocationFacts> {
    Some(LocationFacts { read_only: false, available: true })
}

#[test]
fn a_plain_backup_is_valid() {
    let spec = json!({"orderedResources": {"pod": "shop/a"}, "volumeSnapshotLocations": ["a2"]});
    let valid = verdict(spec, usable(), None).unwrap();
    assert_eq!(valid.orders.by_type.len(), 1);
    assert_eq!(valid.snapshot_locations, ["a2", "g"]);
}

#[rstest]
#[case::chosen("aws", "a1", json!({}), Ok(vec!["a1", "g"]))]
#[case::named_all_the_same("aws", "a1", json!({"volumeSnapshotLocations": ["a2"]}), Ok(vec!["a2", "g"]))]
#[case::missing("aws", "a9", json!({}), Err("a9"))]
#[case::another_provider("azure", "a1", json!({}), Err("more than one possible volume snapshot location"))]
#[case::no_snapshots("", "", json!({"snapshotVolumes": false}), Ok(vec![]))]
fn the_server_chooses_where_a_provider_has_several_locations(
    #[case] provider: &str,
    #[case] name: &str,
    #[case] spec: Value,
    #[case] expected: Result<Vec<&str>, &str>,
) {
    let defaults = [(provider.to_owned(), name.to_owned())].into();
    let verdict = verdict_with(spec, usable(), None, &defaults);
    match expected {
        Ok(names) => assert_eq!(verdict.unwrap().snapshot_locations, names),
        Err(expected) => assert!(verdict.unwrap_err()[0].contains(expected)),
    }
}

#[rstest]
#[case::namespaces(json!({"includedNamespaces": ["*", "a"]}), "namespace lists")]
#[case::namespace_pattern(json!({"includedNamespaces": ["a|b"]}), "\"a|b\"")]
#[case::old_lists(json!({"includedResources": ["a"], "excludedResources": ["a"]}), "resource lists")]
#[case::new_lists(json!({"includedClusterScopedResources": ["*", "a"]}), "cluster-scoped")]
#[case::new_star(json!({"excludedNamespaceScopedResources": ["*", "a"]}), "namespace-scoped")]
#[case::old_and_new(json!({"includedResources": ["a"], "includedClusterScopedResources": ["b"]}), "together")]
#[case::selectors(json!({"labelSelector": {}, "orLabelSelectors": [{}]}), "only one")]
#[case::selector(json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}), "Near")]
#[case::order(json!({"orderedResources": {"pods": "~("}}), "orderedResources[pods]")]
#[case::hooks(json!({"hooks": {"resources": [{"name": "h", "includedNamespaces": ["["]}]}}), "hooks[h]")]
#[case::snapshot_location(json!({"volumeSnapshotLocations": ["x"]}), "\"x\"")]
#[case::two_of_one_provider(json!({"volumeSnapshotLocations": ["a1", "a2"]}), "both of provider")]
fn a_bad_spec_is_refused_with_its_field(#[case] spec: Value, #[case] named: &str) {
    let problems = verdict(spec, usable(), None).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains(named), "{problems:?}");
}

#[rstest]
#[case::missing(None, "no BackupStorageLocation")]
#[case::read_only(Some(LocationFacts { read_only: true, available: true }), "read-only")]
#[case::unavailable(Some(LocationFacts::default()), "Unavailable")]
fn a_location_that_cannot_be_used_is_named(#[case] location: Option<LocationFacts>, #[case] named: &str) {
    let problems = verdict(json!({"storageLocation": "there"}), location, None).unwrap_err();
    assert!(problems[0].contains(named) && problems[0].contains("there"), "{problems:?}");
}

#[test]
fn policies_have_to_be_readable_and_fit_the_filters() {
    let policies = Policies::parse("version: v1\nincludeExcludePolicy: {}").unwrap();
    assert!(verdict(json!({}), usable(), Some(Ok(policies.clone()))).is_ok());
    let problems = verdict(json!({"includedResources": ["pods"]}), usable(), Some(Ok(policies))).unwrap_err();
    assert!(problems[0].contains("includeExcludePolicy"), "{problems:?}");
    let missing = PoliciesProblem::Missing("p".into());
    let problems = verdict(json!({}), usable(), Some(Err(missing))).unwrap_err();
    assert_eq!(problems, ["spec.resourcePolicy: there is no ConfigMap \"p\" in Lifeboat's namespace"]);
}

#[test]
fn every_problem_is_named_at_once() {
    let problems = verdict(
        json!({"includedNamespaces": ["a|"], "orderedResources": {"": "a", "pods": "~("}}),
        None,
        None,
    )
    .unwrap_err();
    assert_eq!(problems.len(), 4, "{problems:?}");
}
