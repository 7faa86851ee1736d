use lifeboat_api::stash::{RestoreMember, RestoreTarget};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case::listed("app-3", Some("one"))]
#[case::of_all_others("app-0", Some("others"))]
#[case::listed_by_a_later_rule("app-5", Some("two"))]
fn the_rule_that_lists_a_host_wins_wherever_it_is(#[case] host: &str, #[case] source: Option<&str>) {
    let rules = [rule(&["app-3", "app-4"], "one"), rule(&[], "others"), rule(&["app-5"], "two")];
    let found = rule_of(&rules, &host.into()).and_then(|rule| rule.source_host.as_deref());
    assert_eq!(found, source);
}

#[test]
fn a_host_that_no_rule_lists_has_none() {
    assert_eq!(rule_of(&[rule(&["app-3"], "")], &"app-0".into()), None);
    let missing = RestoreRule { target_hosts: None, ..RestoreRule::default() };
    assert!(rule_of(&[missing], &"app-0".into()).is_some(), "a missing list is an empty one");
}

fn member(of_target: Vec<RestoreRule>, beside: Vec<RestoreRule>) -> RestoreMember {
    let target = RestoreTarget { rules: of_target, ..RestoreTarget::default() };
    RestoreMember { target: Some(target), rules: beside, ..RestoreMember::default() }
}

#[rstest]
#[case::in_the_target(member(vec![rule(&[], "a")], vec![]), Ok((1, false)))]
#[case::deprecated_place(member(vec![], vec![rule(&[], "a")]), Ok((1, true)))]
#[case::none(member(vec![], vec![]), Ok((0, false)))]
#[case::without_target(RestoreMember { target: None, rules: vec![rule(&[], "a")], ..RestoreMember::default() }, Ok((1, true)))]
#[case::both(member(vec![rule(&[], "a")], vec![rule(&[], "a")]), Err(RuleError::TwoPlaces))]
#[case::two_for_all(member(vec![rule(&[], "a"), rule(&[], "b")], vec![]), Err(RuleError::TwoForAllOthers))]
#[case::a_host_in_two(member(vec![], vec![rule(&["a", "b"], ""), rule(&["c", "b"], "")]), Err(RuleError::HostTwice { host: "b".into() }))]
#[case::a_host_twice_in_one(member(vec![rule(&["a", "a"], "")], vec![]), Ok((1, false)))]
#[case::snapshots_and_paths(member(vec![RestoreRule { snapshots: list(&["latest"]), paths: list(&["/a"]), ..RestoreRule::default() }], vec![]), Err(RuleError::SnapshotsAndPaths))]
#[case::an_empty_list_is_none(member(vec![RestoreRule { snapshots: list(&[]), paths: list(&["/a"]), ..RestoreRule::default() }], vec![]), Ok((1, false)))]
fn rules_are_read_from_either_place_and_checked(
    #[case] member: RestoreMember,
    #[case] expected: Result<(usize, bool), RuleError>,
) {
    let found = EffectiveRules::of(&member).map(|found| (found.rules.len(), found.moved));
    assert_eq!(found, expected);
}

proptest! {
    /// The rule of a host does not depend on the order of the rules, lists the host or holds for all others, and the latter only if
    /// no rule lists the host.
    #[test]
    fn order_does_not_matter(
        lists in proptest::collection::vec(proptest::collection::btree_set(0..6_u32, 1..3), 0..4),
        for_all: bool,
        host in 0..6_u32,
        turn in 0..5_usize,
    ) {
        // A host is in one rule only, as validation has it.
        let mut taken = std::collections::BTreeSet::new();
        let mut rules: Vec<RestoreRule> = Vec::new();
        for list in lists {
            let own: Vec<String> = list.into_iter().filter(|host| taken.insert(*host)).map(|host| format!("app-{host}")).collect();
            if !own.is_empty() {
                let target_hosts = Some(own);
                rules.push(RestoreRule { target_hosts, ..RestoreRule::default() });
            }
        }
        if for_all {
            rules.push(RestoreRule::default());
        }
        let host = HostName(format!("app-{host}"));
        let found = rule_of(&rules, &host).cloned();
        let listed = rules.iter().find(|rule| rule.target_hosts.iter().flatten().any(|own| *own == host.0)).cloned();
        prop_assert_eq!(&found, &listed.or_else(|| for_all.then(RestoreRule::default)));
        if !rules.is_empty() {
            let turn = turn % rules.len();
            rules.rotate_left(turn);
        }
        prop_assert_eq!(rule_of(&rules, &host).cloned(), found);
    }
}
