//! Filters in a cluster with a few types.

use lifeboat_api::common::LabelSelector;
use rstest::rstest;

use super::*;
use crate::policy::IncludeExcludePolicy;

fn served(group: &str, resource: &str, kind: &str, namespaced: bool) -> ResourceType {
    ResourceType {
        id: GroupResource::new(group, resource),
        version: "v1".into(),
        kind: kind.into(),
        singular: kind.to_lowercase(),
        namespaced,
        preferred: true,
        ..ResourceType::default()
    }
}

fn cluster() -> Catalogue {
    Catalogue::new(vec![
        served("", "pods", "Pod", true),
        served("", "namespaces", "Namespace", false),
        served("", "persistentvolumes", "PersistentVolume", false),
        served("apps", "deployments", "Deployment", true),
        served("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false),
    ])
}

#[allow(clippy::unnecessary_wraps)] // what the fields of the spec hold
fn list(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|&name| name.to_owned()).collect())
}

fn live() -> Vec<String> {
    ["shop-a", "shop-b", "blog", "kube-system"].map(str::to_owned).into()
}

fn filter(spec: &BackupSpec) -> Filter {
    Filter::new(spec, &cluster(), &live(), None).unwrap()
}

/// The names of the listed types.
fn taken(spec: &BackupSpec) -> Vec<String> {
    let (filter, cluster) = (filter(spec), cluster());
    let types = cluster.types().filter(|kind| filter.types().takes(kind));
    types.map(|kind| kind.kind.clone()).collect()
}

const ALL: [&str; 5] = ["Pod", "Namespace", "PersistentVolume", "Deployment", "ClusterRole"];

#[rstest]
#[case::everything(BackupSpec::default(), &ALL)]
#[case::everything_though_snapshots_are_always_excluded(
    BackupSpec { excluded_cluster_scoped_resources: list(&["volumesnapshotcontents.snapshot.storage.k8s.io"]),
        included_namespaces: list(&["*"]), ..BackupSpec::default() }, &ALL)]
#[case::some_namespaces(
    BackupSpec { included_namespaces: list(&["blog"]), ..BackupSpec::default() }, &["Pod", "Namespace", "Deployment"])]
#[case::old_some_types(
    BackupSpec { included_resources: list(&["deploy*.apps"]), ..BackupSpec::default() }, &["Deployment"])]
#[case::old_singular(BackupSpec { included_resources: list(&["pod"]), ..BackupSpec::default() }, &["Pod"])]
#[case::old_unknown_type_is_not_everything(
    BackupSpec { included_resources: list(&["widgets"]), ..BackupSpec::default() }, &[])]
#[case::old_cluster_true_with_namespaces(
    BackupSpec { included_namespaces: list(&["blog"]), include_cluster_resources: Some(true),
        ..BackupSpec::default() }, &ALL)]
#[case::old_cluster_false(
    BackupSpec { include_cluster_resources: Some(false), ..BackupSpec::default() }, &["Pod", "Deployment"])]
#[case::new_cluster_list(
    BackupSpec { included_cluster_scoped_resources: list(&["clusterroles"]), ..BackupSpec::default() },
    &["Pod", "Namespace", "Deployment", "ClusterRole"])]
#[case::new_no_namespaced(
    BackupSpec { excluded_namespace_scoped_resources: list(&["*"]),
        included_cluster_scoped_resources: list(&["*"]), ..BackupSpec::default() },
    &["Namespace", "PersistentVolume", "ClusterRole"])]
#[case::new_wrong_scope_is_not_everything(
    BackupSpec { included_namespace_scoped_resources: list(&["clusterroles"]), ..BackupSpec::default() },
    &["Namespace"])]
fn types_are_chosen(#[case] spec: BackupSpec, #[case] expected: &[&str]) {
    assert_eq!(taken(&spec), expected);
}

#[rstest]
#[case::all(&[], &[], NamespacesToList::All, &["shop-a", "shop-b", "blog", "kube-system"])]
#[case::excludes_list_all(&["*"], &["kube-*"], NamespacesToList::All, &["shop-a", "shop-b", "blog"])]
#[case::names(&["blog"], &[], NamespacesToList::Only(vec!["blog".into()]), &["blog"])]
#[case::pattern(&["shop-*"], &["shop-b"], NamespacesToList::Only(vec!["shop-a".into()]), &["shop-a"])]
#[case::nothing_matches(&["x*"], &[], NamespacesToList::Only(vec![]), &[])]
#[case::most_of_them_in_one_list(
    &["shop-a", "shop-b", "blog", "kube-system"], &[], NamespacesToList::All,
    &["shop-a", "shop-b", "blog", "kube-system"])]
fn namespaces_are_chosen(
    #[case] included: &[&str],
    #[case] excluded: &[&str],
    #[case] to_list: NamespacesToList,
    #[case] expected: &[&str],
) {
    let (included, excluded) = (list(included).unwrap_or_default(), list(excluded).unwrap_or_default());
    let filter = NamespaceFilter::new(&included, &excluded, &live()).unwrap();
    assert_eq!(filter.to_list(), to_list);
    assert_eq!(filter.chosen_among(&live()), expected);
}

#[test]
fn a_missing_namespace_and_a_pattern_without_a_match_are_reported() {
    let filter =
        NamespaceFilter::new(&list(&["gone", "x*", "blog"]).unwrap_or_default(), &[], &live()).unwrap();
    assert_eq!(filter.missing(), ["gone"]);
    assert_eq!(filter.idle_patterns(), ["x*"]);
}

#[rstest]
#[case("a|b")]
#[case("a**")]
#[case("shop-[")]
#[case("")]
#[case("Shop")]
#[case("../x")]
fn a_bad_namespace_is_refused(#[case] name: &str) {
    assert!(NamespaceFilter::new(&[name.to_owned()], &[], &live()).is_err());
}

#[test]
fn a_policy_adds_to_the_spec_and_does_not_contradict_it() {
    let spec = BackupSpec {
        included_namespaces: list(&["blog"]),
        included_namespace_scoped_resources: list(&["pods"]),
        ..BackupSpec::default()
    };
    let policy = IncludeExcludePolicy {
        excluded_namespace_scoped_resources: vec!["pods".into()],
        included_cluster_scoped_resources: vec!["clusterroles".into()],
        ..IncludeExcludePolicy::default()
    };
    let mut policies = Policies::default();
    policies.include_exclude = Some(policy);
    let filter = Filter::new(&spec, &cluster(), &live(), Some(&policies)).unwrap();
    let cluster = cluster();
    let taken: Vec<_> =
        cluster.types().filter(|kind| filter.types().takes(kind)).map(|kind| &kind.kind).collect();
    assert_eq!(taken, ["Pod", "Namespace", "ClusterRole"]);
}

#[rstest]
#[case::volume_of_a_claim("persistentvolumes", None, BackupSpec::default(), true)]
#[case::cluster_scoped_and_excluded("persistentvolumes", None,
    BackupSpec { excluded_cluster_scoped_resources: list(&["pv", "persistentvolumes"]), ..BackupSpec::default() }, false)]
#[case::old_without_cluster_resources("persistentvolumes", None,
    BackupSpec { include_cluster_resources: Some(false), ..BackupSpec::default() }, false)]
#[case::old_not_among_the_includes("persistentvolumes", None,
    BackupSpec { included_resources: list(&["pods"]), ..BackupSpec::default() }, false)]
#[case::namespaced_type_not_included("deployments", Some("blog"),
    BackupSpec { included_namespace_scoped_resources: list(&["pods"]), ..BackupSpec::default() }, false)]
#[case::other_namespace("pods", Some("shop-a"), BackupSpec::default(), false)]
fn additional_items_pass_the_filters(
    #[case] resource: &str,
    #[case] namespace: Option<&str>,
    #[case] spec: BackupSpec,
    #[case] expected: bool,
) {
    let spec = BackupSpec { included_namespaces: list(&["blog"]), ..spec };
    let (filter, cluster) = (filter(&spec), cluster());
    let kind = cluster.resolve(resource)[0];
    let object = ObjectFacts { namespace, ..ObjectFacts::default() };
    assert_eq!(filter.takes_additional(kind, &object, false) == Verdict::Take, expected);
    assert_eq!(filter.takes_additional(kind, &object, true), Verdict::Take);
}

#[test]
fn an_object_can_exclude_itself_and_one_that_is_being_deleted_never_counts() {
    let (filter, cluster) = (filter(&BackupSpec::default()), cluster());
    let pods = cluster.resolve("pods")[0];
    let labels = BTreeMap::from([(EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())]);
    let excluded = ObjectFacts { namespace: Some("blog"), labels: Some(&labels), ..ObjectFacts::default() };
    assert!(matches!(filter.takes_listed(pods, &excluded), Verdict::Leave(_)));
    assert_eq!(filter.takes_additional(pods, &excluded, true), Verdict::Take);
    let deleting = ObjectFacts { namespace: Some("blog"), deleting: true, ..ObjectFacts::default() };
    assert!(matches!(filter.takes_additional(pods, &deleting, true), Verdict::Leave(_)));
}

#[rstest]
#[case::plain(BackupSpec::default(), "blog", &[], true, false, true)]
#[case::terminating(BackupSpec::default(), "blog", &[], false, true, false)]
#[case::labels_match(with_label(), "blog", &[("app", "web")], true, false, true)]
#[case::labels_do_not_match(with_label(), "blog", &[], true, false, false)]
#[case::holds_an_item(with_label(), "blog", &[], true, true, true)]
#[case::named(BackupSpec { included_namespaces: list(&["blog"]), ..with_label() }, "blog", &[], true, false, true)]
#[case::matches_but_is_excluded(
    BackupSpec { excluded_namespaces: list(&["blog"]), ..with_label() }, "blog", &[("app", "web")], true, true, false)]
fn namespace_objects_are_chosen(
    #[case] spec: BackupSpec,
    #[case] name: &str,
    #[case] labels: &[(&str, &str)],
    #[case] active: bool,
    #[case] holds_items: bool,
    #[case] expected: bool,
) {
    let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let verdict = filter(&spec).takes_namespace_object(name, &labels, active, holds_items);
    assert_eq!(verdict == Verdict::Take, expected, "{verdict:?}");
}

fn with_label() -> BackupSpec {
    let match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    BackupSpec {
        label_selector: Some(LabelSelector { match_labels, ..LabelSelector::default() }),
        ..BackupSpec::default()
    }
}

#[test]
fn each_selector_is_a_list_of_its_own() {
    let selector = with_label().label_selector.unwrap_or_default();
    let spec =
        BackupSpec { or_label_selectors: Some(vec![selector.clone(), selector]), ..BackupSpec::default() };
    let cluster = cluster();
    let pods = cluster.resolve("pods")[0];
    assert_eq!(filter(&spec).queries(pods), ["app=web", "app=web"]);
    assert_eq!(filter(&BackupSpec::default()).queries(pods), [""]);
}

fn with_policies(spec: &BackupSpec) -> Filter {
    let text = "version: v1
clusterScopedFilterPolicy:
  resourceFilters:
  - kinds: [ClusterRole]
    labelSelector: {matchLabels: {tier: a}}
    names: [\"app-*\"]
    excludedNames: [app-old]
  - kinds: [namespaces]
    excludedNames: [kube-system]
namespacedFilterPolicies:
- namespaces: [\"shop-*\"]
  resourceFilters:
  - kinds: [pods]
    names: [\"web-?\"]
- namespaces: [shop-b]
  resourceFilters:
  - kinds: [\"*\"]
    orLabelSelectors:
    - matchLabels: {tier: a}
    - matchExpressions: [{key: tier, operator: In, values: [b]}]
";
    let policies = Policies::parse(text).unwrap();
    Filter::new(spec, &cluster(), &live(), Some(&policies)).unwrap()
}

#[rstest]
#[case::listed("pods", Some("shop-a"), "web-1", "", true)]
#[case::the_specs_labels_do_not_count_where_a_policy_is("pods", Some("shop-a"), "web-1", "c", true)]
#[case::other_name("pods", Some("shop-a"), "db-1", "", false)]
#[case::type_not_listed("deployments", Some("shop-a"), "web-1", "", false)]
#[case::exact_name_goes_before_patterns("deployments", Some("shop-b"), "any", "a", true)]
#[case::second_selector("pods", Some("shop-b"), "any", "b", true)]
#[case::no_selector_fits("pods", Some("shop-b"), "any", "c", false)]
#[case::namespace_without_policy("pods", Some("blog"), "any", "x", true)]
#[case::namespace_without_policy_has_the_specs_labels("pods", Some("blog"), "any", "a", false)]
#[case::cluster_name("clusterroles", None, "app-1", "a", true)]
#[case::cluster_name_excluded("clusterroles", None, "app-old", "a", false)]
#[case::cluster_labels("clusterroles", None, "app-1", "x", false)]
#[case::cluster_type_without_policy("persistentvolumes", None, "any", "x", true)]
fn filters_of_a_policy_choose(
    #[case] resource: &str,
    #[case] namespace: Option<&str>,
    #[case] name: &str,
    #[case] tier: &str,
    #[case] expected: bool,
) {
    let match_labels = Some([("tier".to_owned(), "x".to_owned())].into());
    let selector = LabelSelector { match_labels, ..LabelSelector::default() };
    let filter = with_policies(&BackupSpec { label_selector: Some(selector), ..BackupSpec::default() });
    let cluster = cluster();
    let kind = cluster.resolve(resource)[0];
    let labels = [("tier".to_owned(), tier.to_owned())].into();
    let object = ObjectFacts { name, namespace, labels: Some(&labels), ..ObjectFacts::default() };
    let verdict = filter.takes_listed(kind, &object);
    assert_eq!(verdict == Verdict::Take, expected, "{verdict:?}");
}

#[test]
fn lists_are_asked_for_with_the_labels_that_fit_all_of_them() {
    let filter = with_policies(&with_label());
    let cluster = cluster();
    let queries = |name: &str| filter.queries(cluster.resolve(name)[0]);
    assert_eq!(queries("pods"), [""], "namespaces differ");
    assert_eq!(queries("clusterroles"), ["tier=a"]);
    assert_eq!(queries("persistentvolumes"), ["app=web"]);
}

#[test]
fn additional_items_pass_a_policy_by_name_only() {
    let (filter, cluster) = (with_policies(&BackupSpec::default()), cluster());
    let takes = |resource: &str, name: &str| {
        let kind = cluster.resolve(resource)[0];
        let object = ObjectFacts { name, namespace: Some("shop-a"), ..ObjectFacts::default() };
        filter.takes_additional(kind, &object, false) == Verdict::Take
    };
    assert!(takes("deployments", "any"), "a type that is not listed");
    assert!(takes("pods", "web-1") && !takes("pods", "db"));
    let labels = BTreeMap::new();
    assert_eq!(filter.takes_namespace_object("blog", &labels, true, false), Verdict::Take);
    assert_ne!(filter.takes_namespace_object("kube-system", &labels, true, false), Verdict::Take);
}

#[test]
fn filters_without_effect_are_reported() {
    let text = "version: v1
clusterScopedFilterPolicy: {resourceFilters: [{kinds: [pods]}]}
namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [gadgets, clusterroles]}]}]";
    let policies = Policies::parse(text).unwrap();
    let filter = Filter::new(&BackupSpec::default(), &cluster(), &live(), Some(&policies)).unwrap();
    assert_eq!(filter.warnings().len(), 3, "{:?}", filter.warnings());
}

#[test]
fn an_included_type_that_is_not_served_is_reported() {
    let spec = BackupSpec {
        included_resources: list(&["po*", "Deployment", "foo.bar", "x*"]),
        excluded_resources: list(&["bogus"]),
        ..BackupSpec::default()
    };
    let filter = filter(&spec);
    let warnings = filter.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("spec.includedResources: the cluster serves no type \"foo.bar\""));
    assert!(warnings[1].contains("\"x*\""));
    let scoped =
        BackupSpec { included_cluster_scoped_resources: list(&["*", "nod"]), ..BackupSpec::default() };
    assert!(super::unknown::warnings(&scoped, &cluster())[0].contains("\"nod\""));
}

/// An aggregated API that is down hides the objects of its group.
#[rstest]
#[case::everything(BackupSpec::default(), true)]
#[case::old_everything(BackupSpec { included_resources: list(&["*"]), ..BackupSpec::default() }, true)]
#[case::a_type_of_it(BackupSpec { included_resources: list(&["widgets.example.com"]), ..BackupSpec::default() }, true)]
#[case::a_type_that_nobody_serves(BackupSpec { included_resources: list(&["widgets"]), ..BackupSpec::default() }, true)]
#[case::another_type(BackupSpec { included_resources: list(&["pods", "deployments.apps"]), ..BackupSpec::default() }, false)]
#[case::all_of_it_excluded(BackupSpec { excluded_resources: list(&["*.example.com"]), ..BackupSpec::default() }, false)]
#[case::one_type_excluded(BackupSpec { excluded_resources: list(&["widgets.example.com"]), ..BackupSpec::default() }, true)]
#[case::new_another_type(
    BackupSpec { included_namespace_scoped_resources: list(&["pods"]), ..BackupSpec::default() }, false)]
#[case::new_excluded_in_both(
    BackupSpec { excluded_namespace_scoped_resources: list(&["*.example.com"]),
        excluded_cluster_scoped_resources: list(&["*"]), ..BackupSpec::default() }, false)]
#[case::new_cluster_type_of_it(
    BackupSpec { included_namespace_scoped_resources: list(&["pods"]),
        included_cluster_scoped_resources: list(&["*.example.com"]), ..BackupSpec::default() }, true)]
fn a_group_that_cannot_be_listed_is_missed_unless_the_spec_excludes_it(
    #[case] spec: BackupSpec,
    #[case] expected: bool,
) {
    let (filter, cluster) = (filter(&spec), cluster());
    assert_eq!(filter.may_miss("example.com", &[], &cluster), expected);
    assert!(!filter.may_miss("metrics.k8s.io", &[], &cluster), "it stores nothing");
}

#[test]
fn of_a_group_whose_types_are_known_those_that_the_spec_takes_are_missed() {
    let verbs = ["list", "create", "get", "delete"].map(str::to_owned).to_vec();
    let widgets = ResourceType { verbs, ..served("example.com", "widgets", "Widget", true) };
    let excluded =
        filter(&BackupSpec { excluded_resources: list(&["widgets.example.com"]), ..BackupSpec::default() });
    let everything = filter(&BackupSpec::default());
    let known = std::slice::from_ref(&widgets);
    assert!(everything.may_miss("example.com", known, &cluster()));
    assert!(!excluded.may_miss("example.com", known, &cluster()));
    let reviews = ResourceType { verbs: vec!["create".to_owned()], ..widgets };
    assert!(!everything.may_miss("example.com", &[reviews], &cluster()), "reviews are not stored");
}
