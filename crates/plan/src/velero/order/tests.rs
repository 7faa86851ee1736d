//! Orders of single types, and of pods, claims and volumes together.

use lifeboat_api::catalogue::ResourceType;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn catalogue() -> Catalogue {
    let served = |resource: &str, kind: &str, short: &str, namespaced| ResourceType {
        id: GroupResource::new("", resource),
        version: "v1".into(),
        kind: kind.into(),
        singular: kind.to_lowercase(),
        short_names: vec![short.into()],
        namespaced,
        preferred: true,
        ..ResourceType::default()
    };
    Catalogue::new(vec![
        served("pods", "Pod", "po", true),
        served("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", true),
        served("persistentvolumes", "PersistentVolume", "pv", false),
    ])
}

fn spec(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, names)| (key.to_owned(), names.to_owned())).collect()
}

fn order(names: &str) -> Order {
    let orders = orders(Some(&spec(&[("pods", names)])), &catalogue()).unwrap();
    orders.by_type[&GroupResource::parse("pods")].clone()
}

fn paths(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn sorted(names: &str, items: &[&str]) -> (Vec<String>, usize) {
    let items = paths(items);
    let sorted = order(names).sort(&items);
    let all = sorted.listed.iter().chain(&sorted.unlisted).map(|at| items[*at].clone());
    (all.collect(), sorted.warnings.len())
}

#[rstest]
#[case::as_listed("n/b,n/a", &["n/a", "n/b", "n/c"], &["n/b", "n/a", "n/c"], 0)]
#[case::spaces_around_names("n/b, n/a", &["n/a", "n/b"], &["n/b", "n/a"], 0)]
#[case::several_namespaces("m/x,n/x", &["n/x", "m/x"], &["m/x", "n/x"], 0)]
#[case::glob_sorts_by_name("n/db-*", &["n/web", "n/db-1", "n/db-0"], &["n/db-0", "n/db-1", "n/web"], 0)]
#[case::first_entry_counts("n/db-1,n/db-*", &["n/db-0", "n/db-1"], &["n/db-1", "n/db-0"], 0)]
#[case::question_mark("?/b", &["n/a", "n/b"], &["n/b", "n/a"], 0)]
#[case::regex("~n/web-[0-9a-f]+-\\w{5}", &["n/a", "n/web-5c9d-abcde"], &["n/web-5c9d-abcde", "n/a"], 0)]
#[case::regex_is_anchored("~n/w", &["n/web", "n/w"], &["n/w", "n/web"], 0)]
#[case::regex_with_escaped_comma(r"~n/w{1\x2c2}", &["n/www", "n/ww"], &["n/ww", "n/www"], 0)]
#[case::missing_name("n/gone,n/a", &["n/a"], &["n/a"], 1)]
#[case::repeated_name("n/a,n/a", &["n/a"], &["n/a"], 1)]
#[case::name_without_namespace("a", &["n/a"], &["n/a"], 1)]
fn items_are_sorted(
    #[case] names: &str,
    #[case] items: &[&str],
    #[case] expected: &[&str],
    #[case] warnings: usize,
) {
    assert_eq!(sorted(names, items), (paths(expected), warnings));
}

#[rstest]
#[case("pod")]
#[case("pods")]
#[case("po")]
#[case("Pod")]
#[case("PODS")]
#[case(" pods ")]
fn a_type_may_be_named_in_any_way(#[case] key: &str) {
    let orders = orders(Some(&spec(&[(key, "n/a")])), &catalogue()).unwrap();
    assert_eq!(orders.by_type.keys().map(ToString::to_string).collect::<Vec<_>>(), ["pods"]);
    assert!(orders.warnings.is_empty());
}

#[rstest]
#[case::unknown_type(&[("widgets", "n/a")], "\"widgets\"")]
#[case::empty_list(&[("pods", "")], "\"pods\"")]
#[case::only_commas(&[("pods", " , ")], "\"pods\"")]
fn what_has_no_effect_is_warned_about(#[case] pairs: &[(&str, &str)], #[case] named: &str) {
    let orders = orders(Some(&spec(pairs)), &catalogue()).unwrap();
    assert_eq!(orders.warnings.len(), 1);
    assert!(orders.warnings[0].contains(named), "{:?}", orders.warnings);
    assert!(orders.by_type.is_empty());
}

#[rstest]
#[case::empty_key(&[("", "n/a")], "empty key")]
#[case::blank_key(&[(" ", "n/a")], "empty key")]
#[case::two_keys(&[("pod", "n/a"), ("pods", "n/b")], "\"pod\" and \"pods\"")]
#[case::bad_regex(&[("pods", "~n/(")], "\"n/(\"")]
#[case::bad_glob(&[("pods", "n/[")], "n/[")]
#[case::huge_regex(&[("pods", "~(a{1000}){1000}")], "cannot be used")]
fn what_cannot_be_meant_is_refused(#[case] pairs: &[(&str, &str)], #[case] named: &str) {
    let problems = orders(Some(&spec(pairs)), &catalogue()).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].to_string().contains(named), "{}", problems[0]);
}

#[test]
fn null_is_no_order() {
    let orders = orders(None, &catalogue()).unwrap();
    assert!(orders.by_type.is_empty() && orders.warnings.is_empty());
}

#[rstest]
#[case::none("", None)]
#[case::upstreams_example(
    "pods= ns1/p1,ns1/p2 ; persistentvolumes=pv1,pv2",
    Some(&[("pods", "ns1/p1,ns1/p2"), ("persistentvolumes", "pv1,pv2")][..]))]
#[case::empty_key_and_value("=;pods=", Some(&[("", ""), ("pods", "")][..]))]
#[case::last_wins("pods=a;pods=b", Some(&[("pods", "b")][..]))]
fn the_flag_is_read_as_upstream_reads_it(#[case] text: &str, #[case] expected: Option<&[(&str, &str)]>) {
    assert_eq!(parse_ordered_resources(text).unwrap(), expected.map(spec));
}

#[rstest]
#[case("pods= ns1/p1; ns1/p2; persistentvolumeclaims=ns2/pvc1, ns2/pvc2", " ns1/p2")]
#[case("pods=a;", "")]
#[case("pods==a", "pods==a")]
#[case("pods", "pods")]
fn malformed_text_is_refused_with_the_entry(#[case] text: &str, #[case] entry: &str) {
    assert_eq!(parse_ordered_resources(text).unwrap_err().entry, entry);
}

/// A cluster in which pod `n/pI` mounts the given claims, and claim `n/cI` is bound to volume `vI`.
fn pods(mounts: &[Vec<usize>]) -> Vec<Mounts> {
    let claims = |list: &[usize]| list.iter().map(|claim| format!("n/c{claim}")).collect();
    mounts
        .iter()
        .enumerate()
        .map(|(at, list)| Mounts { pod: format!("n/p{at}"), claims: claims(list) })
        .collect()
}

/// `01|2`: the first pod mounts claims 0 and 1, the second claim 2.
fn read(mounts: &str) -> Vec<Vec<usize>> {
    let digits =
        |pod: &str| pod.chars().filter_map(|digit| digit.to_digit(10)).map(|digit| digit as usize).collect();
    mounts.split('|').map(digits).collect()
}

fn claims(count: usize) -> Vec<Claimed> {
    (0..count).map(|at| Claimed { claim: format!("n/c{at}"), volume: Some(format!("v{at}")) }).collect()
}

fn chain(listed: [&str; 3], mounts: &[Vec<usize>], bound: usize, volumes: usize) -> VolumeOrder {
    let made = listed.map(|names| (!names.is_empty()).then(|| order(names)));
    let [pod_order, claim_order, volume_order] = &made;
    let listed =
        Listed { pods: pod_order.as_ref(), claims: claim_order.as_ref(), volumes: volume_order.as_ref() };
    let volumes: Vec<_> = (0..volumes).map(|at| format!("v{at}")).collect();
    order_volumes(listed, &pods(mounts), &claims(bound), &volumes)
}

fn p(places: &[usize]) -> Step {
    Step::Pods(places.into())
}

#[rstest]
#[case::pods_alone(["n/p1,n/p0", "", ""], "0|1|2", vec![p(&[1]), p(&[0])], 0)]
#[case::claims_order_their_pods(["", "n/c2,n/c0", ""], "0|1|2", vec![p(&[2]), p(&[0])], 0)]
#[case::volumes_order_their_pods(["", "", "v1,v0"], "0|1", vec![p(&[1]), p(&[0])], 0)]
#[case::a_claim_without_a_pod_keeps_its_place(
    ["", "n/c1,n/c2,n/c0", ""], "0|1", vec![p(&[1]), Step::Claim(2), p(&[0])], 0)]
#[case::a_volume_without_a_claim(["", "", "v3,v0"], "0", vec![Step::Volume(3), p(&[0])], 0)]
#[case::pods_that_share_a_listed_claim_are_one_step(["", "n/c0", ""], "0|0", vec![p(&[0, 1])], 0)]
#[case::a_listed_pod_is_a_step_of_its_own(["n/p1", "n/c0", ""], "0|0", vec![p(&[1])], 0)]
#[case::unlisted_pods_come_after_listed_ones(
    ["n/p2", "n/c0", ""], "0|1|2", vec![p(&[2]), p(&[0])], 0)]
#[case::orders_that_agree(["n/p1,n/p0", "n/c1,n/c0", ""], "0|1", vec![p(&[1]), p(&[0])], 0)]
#[case::orders_that_contradict(["n/p1,n/p0", "n/c0,n/c1", ""], "0|1", vec![p(&[1]), p(&[0])], 1)]
#[case::an_unlisted_pod_against_a_listed_one(
    ["n/p1", "n/c0,n/c1", ""], "0|1", vec![p(&[1]), p(&[0])], 1)]
#[case::one_pod_with_two_claims(["", "n/c0,n/c1,n/c2", ""], "02|1", vec![p(&[0]), p(&[1])], 1)]
#[case::missing_names_warn(["n/x", "n/y", "z"], "0", vec![], 3)]
fn the_three_orders_become_one_chain(
    #[case] listed: [&str; 3],
    #[case] mounts: &str,
    #[case] expected: Vec<Step>,
    #[case] warnings: usize,
) {
    let made = chain(listed, &read(mounts), 3, 4);
    assert_eq!(made.steps, expected);
    assert_eq!(made.warnings.len(), warnings, "{:?}", made.warnings);
}

#[test]
fn a_contradiction_names_both() {
    let made = chain(["n/p1,n/p0", "n/c0,n/c1", ""], &read("0|1"), 2, 2);
    for name in ["n/c0", "n/c1", "n/p0", "n/p1"] {
        assert!(made.warnings[0].contains(name), "{}", made.warnings[0]);
    }
}

proptest! {
    /// Every listed item comes first, in the order of the list; no item is lost or duplicated.
    #[test]
    fn sorting_keeps_every_item_and_the_order_of_the_list(
        names in proptest::collection::vec("[a-c][0-3]", 0..8),
        items in proptest::collection::btree_set("[a-d][0-4]", 0..20),
    ) {
        let items: Vec<String> = items.into_iter().map(|name| format!("n/{name}")).collect();
        let list = names.iter().map(|name| format!("n/{name}")).collect::<Vec<_>>().join(",");
        prop_assume!(!list.is_empty());
        let order = order(&list);
        let sorted = order.sort(&items);
        let mut all: Vec<_> = sorted.listed.iter().chain(&sorted.unlisted).copied().collect();
        let places: Vec<_> = sorted.listed.iter().map(|at| order.place(&items[*at])).collect();
        prop_assert!(places.is_sorted() && places.iter().all(Option::is_some));
        prop_assert!(sorted.unlisted.is_sorted());
        all.sort_unstable();
        prop_assert_eq!(all, (0..items.len()).collect::<Vec<_>>());
    }

    /// No pod has two steps, listed pods keep their order, and there is a warning exactly if claims cannot keep
    /// theirs.
    #[test]
    fn a_chain_keeps_its_promises_or_says_so(
        mounts in proptest::collection::vec(proptest::collection::vec(0..6_usize, 0..3), 0..6),
        pod_list in proptest::collection::vec(0..6_usize, 0..5),
        claim_list in proptest::sample::subsequence((0..6_usize).collect::<Vec<_>>(), 0..6).prop_shuffle(),
    ) {
        let names = |letter: char, list: &[usize]| {
            list.iter().map(|at| format!("n/{letter}{at}")).collect::<Vec<_>>().join(",")
        };
        let (pod_text, claim_text) = (names('p', &pod_list), names('c', &claim_list));
        let made = chain([&pod_text, &claim_text, ""], &mounts, 6, 0);

        let in_steps: Vec<usize> = made.steps.iter().flat_map(|step| match step {
            Step::Pods(pods) => pods.clone(),
            _ => Vec::new(),
        }).collect();
        let mut once = in_steps.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), in_steps.len(), "a pod has two steps");

        let mut expected: Vec<usize> = Vec::new();
        for pod in pod_list.iter().filter(|pod| **pod < mounts.len()) {
            if !expected.contains(pod) {
                expected.push(*pod);
            }
        }
        let explicit: Vec<_> = in_steps.iter().filter(|pod| expected.contains(pod)).copied().collect();
        prop_assert_eq!(&explicit, &expected);

        let step_of = |claim: usize| made.steps.iter().position(|step| match step {
            Step::Pods(pods) => pods.iter().any(|pod| mounts[*pod].contains(&claim)),
            Step::Claim(at) => *at == claim,
            Step::Volume(_) => false,
        });
        let steps: Vec<_> = claim_list.iter().map(|claim| step_of(*claim)).collect();
        prop_assert!(steps.iter().all(Option::is_some), "a listed claim has no step");
        let warned = made.warnings.iter().any(|warning| warning.contains("in the other order"));
        prop_assert_eq!(warned, !steps.is_sorted());
    }
}
