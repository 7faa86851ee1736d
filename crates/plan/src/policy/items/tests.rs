//! Policies parsed from text and evaluated for items.

use lifeboat_api::catalogue::{GroupResource, ResourceType};
use rstest::rstest;

use super::*;

const POLICIES: &str = "
version: v1
clusterScopedFilterPolicy:
  resourceFilters:
  - kinds: [ClusterRole]
    names: ['shop-*']
    excludedNames: [shop-admin]
namespacedFilterPolicies:
- namespaces: ['shop*']
  resourceFilters:
  - kinds: [Secrets, ConfigMap]
    labelSelector: {matchLabels: {app: web}}
  - kinds: [Widget]
  - kinds: ['*']
    orLabelSelectors: [{matchLabels: {keep: a}}, {matchLabels: {keep: b}}]
- namespaces: [shop-test]
  resourceFilters:
  - kinds: [configmaps]
";

fn catalogue() -> Catalogue {
    let served = |group: &str, resource: &str, kind: &str| ResourceType {
        id: GroupResource::new(group, resource),
        version: "v1".into(),
        kind: kind.into(),
        singular: kind.to_lowercase(),
        preferred: true,
        ..ResourceType::default()
    };
    Catalogue::new(vec![
        served("", "secrets", "Secret"),
        served("", "configmaps", "ConfigMap"),
        served("rbac.authorization.k8s.io", "clusterroles", "ClusterRole"),
    ])
}

fn opinion(resource: &str, kind: &str, path: &str, label: &str) -> Opinion {
    let filters = ItemPolicies::parse(POLICIES).unwrap().resolve(&catalogue()).unwrap();
    let (namespace, name) =
        path.split_once('/').map_or((None, path), |(namespace, name)| (Some(namespace.to_owned()), name));
    let item = ItemId { resource: GroupResource::parse(resource), namespace, name: name.into() };
    let labels = label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    filters.judge(&item, kind, &labels.into_iter().collect())
}

#[rstest]
#[case::labels_match("secrets", "Secret", "shop/a", "app=web", Opinion::Take)]
#[case::labels_do_not("secrets", "Secret", "shop/a", "app=db", Opinion::LeaveLabels)]
#[case::singular_kind("configmaps", "ConfigMap", "shop/a", "", Opinion::LeaveLabels)]
#[case::only_the_backup_knows_the_type("widgets.example.com", "Widget", "shop/a", "", Opinion::Take)]
#[case::all_other_kinds("services", "Service", "shop/a", "keep=b", Opinion::Take)]
#[case::all_other_kinds_labels("services", "Service", "shop/a", "keep=c", Opinion::LeaveLabels)]
#[case::a_name_goes_before_a_pattern("configmaps", "ConfigMap", "shop-test/a", "", Opinion::Take)]
#[case::kind_is_not_listed("secrets", "Secret", "shop-test/a", "", Opinion::LeaveType)]
#[case::other_namespace("secrets", "Secret", "db/a", "", Opinion::None)]
#[case::cluster("clusterroles.rbac.authorization.k8s.io", "ClusterRole", "shop-reader", "", Opinion::Take)]
#[case::excluded_name(
    "clusterroles.rbac.authorization.k8s.io",
    "ClusterRole",
    "shop-admin",
    "",
    Opinion::LeaveName
)]
#[case::other_name("clusterroles.rbac.authorization.k8s.io", "ClusterRole", "db", "", Opinion::LeaveName)]
#[case::cluster_kind_is_not_listed(
    "storageclasses.storage.k8s.io",
    "StorageClass",
    "fast",
    "",
    Opinion::None
)]
fn items_are_judged_as_upstream_does(
    #[case] resource: &str,
    #[case] kind: &str,
    #[case] path: &str,
    #[case] label: &str,
    #[case] expected: Opinion,
) {
    assert_eq!(opinion(resource, kind, path, label), expected);
}

#[rstest]
#[case::version("version: v2", "version is \"v2\"")]
#[case::no_version("a: b", "cannot be read")]
#[case::volumes(
    "version: v1\nvolumePolicies: [{action: {type: skip}}]",
    "volumePolicies is not supported for restores"
)]
#[case::includes(
    "version: v1\nincludeExcludePolicy: {}",
    "includeExcludePolicy is not supported for restores"
)]
#[case::empty_cluster(
    "version: v1\nclusterScopedFilterPolicy: {}",
    "clusterScopedFilterPolicy: it needs at least one of resourceFilters"
)]
#[case::all_of_the_cluster(
    "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{names: [a]}]}",
    "names and excludedNames need kinds"
)]
#[case::all_kinds_of_the_cluster(
    "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: ['*']}]}",
    "are required here"
)]
#[case::no_namespace(
    "version: v1\nnamespacedFilterPolicies: [{resourceFilters: [{kinds: [a]}]}]",
    "namespacedFilterPolicies[0]: it needs at least one of namespaces"
)]
#[case::no_filter(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a]}]",
    "at least one of namespaces and of resourceFilters"
)]
#[case::twice(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a, a], resourceFilters: [{kinds: [b]}]}]",
    "\"a\" is named twice"
)]
#[case::pattern(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: ['{a,b}'], resourceFilters: [{kinds: [b]}]}]",
    "is neither a namespace nor a namespace pattern"
)]
#[case::kind_twice(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [b]}, {kinds: [b]}]}]",
    "the kind \"b\" is in two resourceFilters"
)]
#[case::two_for_all(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{}, {kinds: ['*']}]}]",
    "only one of resourceFilters may be for every kind"
)]
#[case::both_selectors(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [b], labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{matchLabels: {a: b}}]}]}]",
    "cannot both be given"
)]
#[case::operator(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [b], labelSelector: {matchExpressions: [{key: a, operator: Near}]}}]}]",
    "resourceFilters[0]"
)]
fn what_is_wrong_is_named(#[case] text: &str, #[case] expected: &str) {
    let error = ItemPolicies::parse(text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn two_names_of_one_type_contradict_each_other() {
    let text = "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [secret]}, {kinds: [secrets]}]}]";
    let error = ItemPolicies::parse(text).unwrap().resolve(&catalogue()).unwrap_err();
    assert!(error.to_string().contains("secrets is named twice"), "{error}");
}
