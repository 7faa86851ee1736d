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

/// `01|2`: the first pod mounts claims 0 and 1, the second claim 2.
fn read(mounts: &str) -> Vec<Vec<usize>> {
    let digits =
        |pod: &str| pod.chars().filter_map(|digit| digit.to_digit(10)).map(|digit| digit as usize).collect();
    mounts.split('|').map(digits).collect()
}

/// The block of each pod and of each claim: pods that share a claim are in one, which has the number of its first pod,
/// and a claim without a pod has its own.
fn blocks(mounts: &[Vec<usize>], claims: usize) -> (Vec<usize>, Vec<usize>) {
    let mut of_pod: Vec<usize> = (0..mounts.len()).collect();
    for claim in 0..claims {
        let sharing: Vec<usize> = (0..mounts.len()).filter(|pod| mounts[*pod].contains(&claim)).collect();
        let known: Vec<usize> = sharing.iter().map(|pod| of_pod[*pod]).collect();
        let Some(first) = known.iter().min().copied() else { continue };
        of_pod.iter_mut().filter(|block| known.contains(block)).for_each(|block| *block = first);
    }
    let of_claim = |claim: usize| {
        let pod = mounts.iter().position(|mounted| mounted.contains(&claim));
        pod.map_or(100 + claim, |pod| of_pod[pod])
    };
    let of_claim = (0..claims).map(of_claim).collect();
    (of_pod, of_claim)
}

/// The sequence of a cluster in which pod `n/pI` mounts the given claims, and claim `n/cI` is bound to volume `vI`. Each
/// step has the names that have a place in it.
fn sequence(
    listed: [&str; 3],
    mounts: &[Vec<usize>],
    claims: usize,
    volumes: usize,
) -> (Vec<Vec<String>>, Sequence) {
    let (of_pod, of_claim) = blocks(mounts, claims);
    let object = |path: String, block, volume| Object { path, block: Some(block), volume };
    let pods: Vec<_> =
        of_pod.iter().enumerate().map(|(at, of)| object(format!("n/p{at}"), *of, None)).collect();
    let claimed = |(at, of): (usize, &usize)| object(format!("n/c{at}"), *of, Some(format!("v{at}")));
    let claims: Vec<_> = of_claim.iter().enumerate().map(claimed).collect();
    let of_volume = |at: usize| of_claim.get(at).copied().unwrap_or(200 + at);
    let volumes: Vec<_> = (0..volumes).map(|at| object(format!("v{at}"), of_volume(at), None)).collect();
    let mut all = [("pods", pods), ("persistentvolumeclaims", claims), ("persistentvolumes", volumes)];
    let sorted: Vec<Sorted> = all
        .iter()
        .zip(listed)
        .map(|((_, objects), names)| {
            let paths: Vec<String> = objects.iter().map(|object| object.path.clone()).collect();
            if names.is_empty() { Sorted::default() } else { order(names).sort(&paths) }
        })
        .collect();
    let placed: std::collections::BTreeSet<_> = all
        .iter()
        .zip(&sorted)
        .flat_map(|((_, objects), sorted)| sorted.listed.iter().map(move |at| objects[*at].block))
        .collect();
    for object in all.iter_mut().flat_map(|(_, objects)| objects) {
        object.block = object.block.filter(|block| placed.contains(&Some(*block)));
    }
    let lists: Vec<List<'_>> = all
        .iter()
        .zip(&sorted)
        .map(|((key, objects), sorted)| List { key, objects, listed: &sorted.listed })
        .collect();
    let made = order_blocks(&lists);
    let name = |(kind, at): &(usize, usize)| lists[*kind].objects[*at].path.clone();
    (made.steps.iter().map(|step| step.first.iter().map(name).collect()).collect(), made)
}

#[rstest]
#[case::pods_alone(["n/p1,n/p0", "", ""], "0|1|2", "n/p1 | n/p0", 0)]
#[case::claims_order_their_pods(["", "n/c2,n/c0", ""], "0|1|2", "n/c2 | n/c0", 0)]
#[case::volumes_order_their_pods_and_claims(
    ["", "", "v1,v0"], "0|1", "v1 n/c1 | v0 n/c0", 0)]
#[case::volumes_order_the_claims_of_one_pod(["", "", "v1,v0"], "01", "v1 n/c1 v0 n/c0", 0)]
#[case::claims_of_one_pod(["", "n/c1,n/c0", ""], "01", "n/c1 n/c0", 0)]
#[case::a_claim_without_a_pod_keeps_its_place(
    ["", "n/c1,n/c2,n/c0", ""], "0|1", "n/c1 | n/c2 | n/c0", 0)]
#[case::a_volume_without_a_claim(["", "", "v3,v0"], "0", "v3 | v0 n/c0", 0)]
#[case::unlisted_pods_that_share_a_listed_claim(["", "n/c0", ""], "0|0", "n/c0", 0)]
#[case::a_listed_pod_that_shares_a_listed_claim(["n/p1", "n/c0", ""], "0|0", "n/c0 n/p1", 0)]
#[case::listed_pods_that_share_a_claim(["n/p2,n/p0,n/p1", "", ""], "0|1|0", "n/p2 n/p0 | n/p1", 0)]
#[case::a_pod_that_another_one_pulls_forward(
    ["n/p0,n/p1,n/p2", "", ""], "0|1|0", "n/p0 n/p2 | n/p1", 1)]
#[case::an_unlisted_pod_that_a_listed_one_pulls_forward(
    ["n/p0,n/p1", "", ""], "0|1|0", "n/p0 | n/p1", 1)]
#[case::unlisted_pods_come_after_listed_ones_and_so_do_their_claims(
    ["n/p2", "n/c0", ""], "0|1|2", "n/p2 | n/c0", 1)]
#[case::an_unlisted_claim_of_a_listed_pod(
    ["n/p0,n/p1", "n/c1", ""], "0|1", "n/p0 | n/c1 n/p1", 1)]
#[case::orders_that_agree(
    ["n/p1,n/p0", "n/c1,n/c0", ""], "0|1", "n/c1 n/p1 | n/c0 n/p0", 0)]
#[case::orders_that_contradict(
    ["n/p1,n/p0", "n/c0,n/c1", ""], "0|1", "n/c1 n/p1 | n/c0 n/p0", 1)]
#[case::an_unlisted_pod_against_a_listed_one(
    ["n/p1", "n/c0,n/c1", ""], "0|1", "n/c1 n/p1 | n/c0", 1)]
#[case::one_pod_with_two_claims(["", "n/c0,n/c1,n/c2", ""], "02|1", "n/c0 n/c2 | n/c1", 1)]
fn the_three_orders_become_one_sequence_of_blocks(
    #[case] listed: [&str; 3],
    #[case] mounts: &str,
    #[case] expected: &str,
    #[case] warnings: usize,
) {
    let (steps, made) = sequence(listed, &read(mounts), 3, 4);
    let steps: Vec<_> = steps.iter().map(|names| names.join(" ")).collect();
    assert_eq!(steps.join(" | "), expected);
    assert_eq!(made.warnings.len(), warnings, "{:?}", made.warnings);
}

#[rstest]
#[case::claims_against_pods(["n/p1,n/p0", "n/c0,n/c1", ""], "0|1", &["\"n/c0\"", "\"n/c1\"", "pods n/p0", "pods n/p1"])]
#[case::a_shared_claim(["n/p0,n/p1,n/p2", "", ""], "0|1|0", &["\"n/p1\"", "\"n/p2\"", "pods n/p0, n/p2"])]
#[case::an_unlisted_claim(["n/p0,n/p1", "n/c1", ""], "0|1", &["\"n/c0\"", "\"n/c1\"", "pods n/p0"])]
#[case::an_unlisted_pod(["n/p0,n/p1", "", ""], "0|1|0", &["\"n/p2\"", "\"n/p1\"", "pods n/p0, n/p2"])]
fn a_contradiction_names_both(#[case] listed: [&str; 3], #[case] mounts: &str, #[case] named: &[&str]) {
    let (_, made) = sequence(listed, &read(mounts), 2, 2);
    assert_eq!(made.warnings.len(), 1, "{:?}", made.warnings);
    for name in named {
        assert!(made.warnings[0].contains(name), "{name}: {}", made.warnings[0]);
    }
}

#[test]
fn listed_pods_in_one_block_are_noted() {
    let (_, made) = sequence(["n/p2,n/p0,n/p1", "", ""], &read("0|1|0"), 2, 2);
    assert!(made.notes.len() == 1 && made.notes[0].contains("pods n/p2, n/p0 "), "{:?}", made.notes);
}

#[test]
fn semicolons_inside_an_entry_are_pointed_out_where_it_matches_nothing() {
    let items = paths(&["n/a", "n/b"]);
    let sorted = order("n/a;n/b").sort(&items);
    assert!(sorted.listed.is_empty());
    assert!(sorted.warnings[0].contains("commas, not by semicolons"), "{:?}", sorted.warnings);
    let sorted = order("~n/x;y").sort(&items);
    assert!(!sorted.warnings[0].contains("semicolons"), "{:?}", sorted.warnings);
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

    /// No block has two steps, and there is a warning exactly if listed objects cannot keep their order, or if an object
    /// that is not listed comes before a listed one.
    #[test]
    fn a_sequence_keeps_its_promises_or_warns(
        mounts in proptest::collection::vec(proptest::collection::vec(0..6_usize, 0..3), 0..6),
        pod_list in proptest::sample::subsequence((0..6_usize).collect::<Vec<_>>(), 0..6).prop_shuffle(),
        claim_list in proptest::sample::subsequence((0..6_usize).collect::<Vec<_>>(), 0..6).prop_shuffle(),
    ) {
        let names = |letter: char, list: &[usize]| {
            list.iter().map(|at| format!("n/{letter}{at}")).collect::<Vec<_>>().join(",")
        };
        let (pod_text, claim_text) = (names('p', &pod_list), names('c', &claim_list));
        let (_, made) = sequence([&pod_text, &claim_text, ""], &mounts, 6, 0);
        let mut once: Vec<usize> = made.steps.iter().map(|step| step.block).collect();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), made.steps.len(), "a block has two steps");

        let (of_pod, of_claim) = blocks(&mounts, 6);
        let step = |block: usize| made.steps.iter().position(|step| step.block == block);
        for (letter, list, of) in [('p', &pod_list, &of_pod), ('c', &claim_list, &of_claim)] {
            let listed: Vec<_> = list.iter().filter(|at| **at < of.len()).copied().collect();
            let steps: Vec<_> = listed.iter().map(|at| step(of[*at])).collect();
            prop_assert!(steps.iter().all(Option::is_some), "a listed object has no step");
            let key = if letter == 'p' { "for pods" } else { "for persistentvolumeclaims" };
            let of_key: Vec<_> = made.warnings.iter().filter(|warning| warning.contains(key)).collect();
            let contradicted = of_key.iter().any(|warning| warning.contains("in the other order"));
            prop_assert_eq!(contradicted, !steps.is_sorted(), "{:?}", made.warnings);
            for at in (0..of.len()).filter(|at| !listed.contains(at)) {
                let name = format!("{:?}", format!("n/{letter}{at}"));
                let early = step(of[at]).is_some_and(|step| steps.iter().flatten().any(|other| *other > step));
                let warned = of_key.iter().any(|warning| {
                    warning.split(" for ").next().is_some_and(|unlisted| unlisted.contains("does not list") && unlisted.contains(&name))
                });
                prop_assert_eq!(warned, early, "{} {:?}", name, made.warnings);
            }
        }
    }
}
