use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn reference(api_version: &str, kind: &str) -> TargetRef {
    let api_version = (!api_version.is_empty()).then(|| api_version.to_owned());
    TargetRef { api_version, kind: kind.to_owned(), name: "app".to_owned(), namespace: None }
}

#[rstest]
#[case::deployment("apps/v1", "Deployment", Ok(TargetKind::Deployment))]
#[case::no_version_is_enough("", "StatefulSet", Ok(TargetKind::StatefulSet))]
#[case::older_manifests("extensions/v1beta1", "DaemonSet", Ok(TargetKind::DaemonSet))]
#[case::core_group("v1", "PersistentVolumeClaim", Ok(TargetKind::Claim))]
#[case::openshift("apps.openshift.io/v1", "DeploymentConfig", Ok(TargetKind::DeploymentConfig))]
#[case::the_batch_documents_sample("apps/v1", "AppBinding", Ok(TargetKind::AppBinding))]
#[case::kind_of_another_group("example.com/v1", "Deployment", Err("expected \"apps/v1\""))]
#[case::claims_are_in_the_core_group("apps/v1", "PersistentVolumeClaim", Err("expected \"v1\""))]
#[case::not_a_target("batch/v1", "Job", Err("\"Job\" cannot be a target; expected one of Deployment"))]
#[case::kinds_have_capitals("apps/v1", "deployment", Err("\"deployment\" cannot be a target"))]
fn the_kind_of_a_target_is_read_from_its_reference(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] expected: Result<TargetKind, &str>,
) {
    match (TargetKind::of(&reference(api_version, kind)), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}

#[rstest]
#[case::the_alias_itself(Some("db"), HostOf::Whole, "db")]
#[case::pod_index(Some("app"), HostOf::Ordinal(2), "app-2")]
#[case::node_name(Some("logs"), HostOf::Node("worker-1".into()), "logs-worker-1")]
#[case::upstreams_single_host(None, HostOf::Whole, "host-0")]
#[case::upstreams_ordinal(None, HostOf::Ordinal(2), "host-2")]
#[case::upstreams_node(None, HostOf::Node("worker-1".into()), "worker-1")]
#[case::empty_counts_as_none(Some(""), HostOf::Ordinal(0), "host-0")]
fn hosts_are_named_as_in_the_batch_document(
    #[case] alias: Option<&str>,
    #[case] of: HostOf,
    #[case] expected: &str,
) {
    assert_eq!(HostName::of(alias, &of).as_str(), expected);
}

#[rstest]
#[case::from_zero(json!({"spec": {"replicas": 3}}), 0..3)]
#[case::one_by_default(json!({"spec": {}}), 0..1)]
#[case::none(json!({"spec": {"replicas": 0}}), 0..0)]
#[case::start(json!({"spec": {"replicas": 2, "ordinals": {"start": 5}}}), 5..7)]
#[case::at_the_end_of_numbers(json!({"spec": {"replicas": 2, "ordinals": {"start": u32::MAX}}}), u32::MAX..u32::MAX)]
fn ordinals_begin_at_their_start(#[case] stateful_set: Value, #[case] expected: Range<u32>) {
    assert_eq!(ordinals(&stateful_set, replicas(&stateful_set)), expected);
}

#[rstest]
#[case::replicas_are_ordinals(Some(2), vec![HostOf::Ordinal(0), HostOf::Ordinal(1)])]
#[case::one_replica_is_an_ordinal_too(Some(1), vec![HostOf::Ordinal(0)])]
#[case::without_replicas_the_alias(None, vec![HostOf::Whole])]
fn restores_into_templates_have_a_host_for_each_replica(
    #[case] replicas: Option<i32>,
    #[case] expected: Vec<HostOf>,
) {
    let target = RestoreTarget { replicas, ..RestoreTarget::default() };
    assert_eq!(template_parts(&target), expected);
}

fn member(place: usize, kind: TargetKind, alias: Option<&str>, nodes: &[&str]) -> MemberHosts {
    let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
    MemberHosts { member: format!("members[{place}]"), hosts: HostSet::of(Some(kind), alias, &nodes) }
}

#[rstest]
#[case::different(TargetKind::Deployment, Some("app"), &[], TargetKind::AppBinding, Some("db"), &[], None)]
#[case::two_without_alias(TargetKind::Deployment, None, &[], TargetKind::Claim, None, &[], Some("host-0"))]
#[case::an_ordinal_of_the_other(TargetKind::StatefulSet, Some("app"), &[], TargetKind::Deployment, Some("app-1"), &[], Some("app-1"))]
#[case::whatever_the_order(TargetKind::Deployment, Some("app-10"), &[], TargetKind::StatefulSet, Some("app"), &[], Some("app-10"))]
#[case::no_ordinal_is_written_so(TargetKind::StatefulSet, Some("app"), &[], TargetKind::Deployment, Some("app-01"), &[], None)]
#[case::more_than_an_ordinal(TargetKind::StatefulSet, Some("app"), &[], TargetKind::Deployment, Some("app-1a"), &[], None)]
#[case::longer_prefix(TargetKind::StatefulSet, Some("app"), &[], TargetKind::StatefulSet, Some("app-1"), &[], None)]
#[case::two_stateful_sets(TargetKind::StatefulSet, None, &[], TargetKind::StatefulSet, None, &[], Some("host-<ordinal>"))]
#[case::default_of_one_is_an_ordinal_of_the_other(TargetKind::StatefulSet, None, &[], TargetKind::Deployment, None, &[], Some("host-0"))]
#[case::a_node_like_an_alias(TargetKind::DaemonSet, None, &["a", "b"], TargetKind::Deployment, Some("b"), &[], Some("b"))]
#[case::a_node_after_an_alias(TargetKind::DaemonSet, Some("x"), &["a"], TargetKind::Deployment, Some("x-a"), &[], Some("x-a"))]
#[case::a_node_like_an_ordinal(TargetKind::DaemonSet, Some("x"), &["n", "7"], TargetKind::StatefulSet, Some("x"), &[], Some("x-7"))]
#[case::no_such_node(TargetKind::DaemonSet, Some("x"), &["a"], TargetKind::Deployment, Some("x-b"), &[], None)]
#[case::aliases_and_nodes_that_join_to_one(TargetKind::DaemonSet, Some("x"), &["y-z"], TargetKind::DaemonSet, Some("x-y"), &["z"], Some("x-y-z"))]
#[case::two_daemon_sets_on_other_nodes(TargetKind::DaemonSet, None, &["a"], TargetKind::DaemonSet, None, &["b"], Some("<node>"))]
#[case::two_daemon_sets_with_aliases(TargetKind::DaemonSet, Some("x"), &["a"], TargetKind::DaemonSet, Some("y"), &["a"], None)]
fn members_with_equal_hosts_are_named(
    #[case] first: TargetKind,
    #[case] first_alias: Option<&str>,
    #[case] first_nodes: &[&str],
    #[case] second: TargetKind,
    #[case] second_alias: Option<&str>,
    #[case] second_nodes: &[&str],
    #[case] expected: Option<&str>,
) {
    let members = [member(0, first, first_alias, first_nodes), member(1, second, second_alias, second_nodes)];
    let found = collisions(&members);
    let expected: Vec<Collision> = expected
        .map(|host| Collision { host: host.into(), first: "members[0]".into(), second: "members[1]".into() })
        .into_iter()
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_task_without_target_has_upstreams_host() {
    let task = HostSet::of(None, None, &[]);
    assert_eq!(task, HostSet::One("host-0".into()));
}

#[test]
fn every_pair_is_reported_with_both_names() {
    let members: Vec<_> = (0..3).map(|place| member(place, TargetKind::Claim, None, &[])).collect();
    let found: Vec<String> = collisions(&members).iter().map(Collision::to_string).collect();
    assert_eq!(found.len(), 3);
    assert!(found[2].contains("members[1] and members[2]") && found[2].contains("host-0"), "{found:?}");
}

fn name() -> impl Strategy<Value = String> {
    "[a-c]{1,2}(-[a-c0-2]{1,2}){0,2}"
}

fn any_member() -> impl Strategy<Value = (TargetKind, Option<String>, Vec<String>)> {
    let kind = prop_oneof![
        Just(TargetKind::Deployment),
        Just(TargetKind::StatefulSet),
        Just(TargetKind::DaemonSet),
        Just(TargetKind::Claim)
    ];
    (kind, proptest::option::of(name()), proptest::collection::vec(name(), 0..3))
}

/// The hosts of a member with up to 30 replicas.
fn hosts((kind, alias, nodes): &(TargetKind, Option<String>, Vec<String>)) -> Vec<HostName> {
    let parts: Vec<HostOf> = match kind {
        TargetKind::StatefulSet => (0..30).map(HostOf::Ordinal).collect(),
        TargetKind::DaemonSet => nodes.iter().cloned().map(HostOf::Node).collect(),
        _ => vec![HostOf::Whole],
    };
    parts.iter().map(|part| HostName::of(alias.as_deref(), part)).collect()
}

proptest! {
    /// What both members would really store as is always reported, in both orders; and a member has the hosts it is said to have.
    #[test]
    fn no_equal_host_stays_unseen(first in any_member(), second in any_member()) {
        let set = |(kind, alias, nodes): &(TargetKind, Option<String>, Vec<String>)| {
            HostSet::of(Some(*kind), alias.as_deref(), nodes)
        };
        let (one, other) = (set(&first), set(&second));
        for host in hosts(&first) {
            prop_assert!(one.contains(&host));
        }
        let equal = hosts(&first).iter().any(|host| hosts(&second).contains(host));
        let same_daemon_sets = first.0 == TargetKind::DaemonSet && second.0 == TargetKind::DaemonSet && first.1 == second.1;
        prop_assert_eq!(one.overlap(&other).is_some(), equal || same_daemon_sets);
        prop_assert_eq!(one.overlap(&other).is_some(), other.overlap(&one).is_some());
    }

    #[test]
    fn an_ordinal_is_found_in_the_name_that_it_makes(alias in proptest::option::of(name()), ordinal: u32) {
        let host = HostName::of(alias.as_deref(), &HostOf::Ordinal(ordinal));
        prop_assert_eq!(host.ordinal(alias.as_deref()), Some(ordinal));
    }
}
