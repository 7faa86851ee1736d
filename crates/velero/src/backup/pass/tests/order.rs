//! Orders together with blocks, additional items and the log.

use std::io::Read;

use lifeboat_api::velero::names;
use lifeboat_plugin::actions::{BackupItemAction, BackupOutcome};

use super::*;
use crate::testing::acts::Acts;

fn id(resource: &str, namespace: &str, name: &str) -> ItemId {
    if namespace.is_empty() {
        return ItemId::cluster(GroupResource::parse(resource), name);
    }
    ItemId::namespaced(GroupResource::parse(resource), namespace, name)
}

/// An action on items of a type: for the one with this name it returns additional items.
fn asking(kind: &str, name: &'static str, items: Vec<ItemId>, must: bool) -> Arc<dyn BackupItemAction> {
    Arc::new(Acts::on(&[kind], move |mut object| {
        let mut outcome = BackupOutcome::default();
        if object["metadata"]["name"] == name {
            outcome.additional_items.clone_from(&items);
            if must {
                object["metadata"]["annotations"][names::MUST_INCLUDE_ADDITIONAL_ITEMS] = json!("true");
            }
        }
        Ok(BackupOutcome { item: object, ..outcome })
    }))
}

/// The result of a pass with an additional action; its archive; and the items that the log calls ordered.
async fn ordered(
    world: &World,
    spec: Value,
    action: Option<Arc<dyn BackupItemAction>>,
) -> (Outcome, Vec<String>, Vec<String>) {
    let store: Arc<dyn ObjectStore> = Arc::new(Store::memory());
    let mut input = input(world, spec, store.clone(), CancellationToken::new()).await;
    input.registry.backup.extend(action);
    let report = input.report.clone();
    let outcome = tokio::time::timeout(Duration::from_mins(1), Box::pin(run(input))).await.unwrap().unwrap();
    report.log().upload(store.as_ref(), "log").await.unwrap();
    let bytes = store.get("log", 1 << 24).await.unwrap();
    let mut log = String::new();
    flate2::read::MultiGzDecoder::new(bytes.as_ref()).read_to_string(&mut log).unwrap();
    let lines = log.lines().filter(|line| line.contains("Backing up ordered item"));
    let name = |line: &str| line.split(" name=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    (outcome, archived(store.as_ref(), ARCHIVE).await, lines.map(name).collect())
}

fn warnings(outcome: &Outcome) -> Vec<String> {
    outcome.results.warnings.all().map(|(_, text)| text.to_owned()).collect()
}

fn assert_before(names: &[String], expected: &[&str]) {
    let places: Vec<usize> = expected.iter().map(|name| place(names, name)).collect();
    assert!(places.is_sorted(), "{names:?}");
}

#[rstest]
#[case::with_one_that_is_not_listed("shop/a", &["pre a", "pre b", "post a", "post b", "pre c", "post c"])]
#[case::in_the_order_of_the_list("shop/b,shop/a,shop/c", &["pre b", "pre a", "post b", "post a", "pre c", "post c"])]
#[tokio::test]
async fn listed_pods_that_share_a_claim_keep_their_block(#[case] list: &str, #[case] expected: &[&str]) {
    let world = shop();
    world.pod("shop", "a", &["data"], true).pod("shop", "b", &["data"], true).pod("shop", "c", &[], true);
    let spec = json!({"orderedResources": {"pods": list}, "snapshotVolumes": false});
    let (outcome, ..) = ordered(&world, spec, None).await;
    assert_eq!(world.ran(), expected);
    assert_eq!(warnings(&outcome), Vec::<String>::new());
}

#[tokio::test]
async fn a_pod_that_its_block_pulls_forward_is_named_in_a_warning() {
    let world = shop();
    world.pod("shop", "a", &["data"], true).pod("shop", "b", &["data"], true).pod("shop", "c", &[], true);
    let spec = json!({"orderedResources": {"pods": "shop/a,shop/c,shop/b"}, "snapshotVolumes": false});
    let (outcome, _, log) = ordered(&world, spec, None).await;
    assert_eq!(world.ran(), ["pre a", "pre b", "post a", "post b", "pre c", "post c"]);
    assert_eq!(log, ["a", "b", "c"]);
    let said = warnings(&outcome);
    assert!(said.len() == 1 && said[0].contains("\"shop/b\"") && said[0].contains("\"shop/c\""), "{said:?}");
}

#[tokio::test]
async fn a_claim_that_is_not_listed_comes_before_a_listed_one_only_with_a_warning() {
    let world = shop();
    world.pod("shop", "a", &["data-a"], true).pod("shop", "b", &["data-b"], true);
    let order = json!({"pods": "shop/a,shop/b", "persistentvolumeclaims": "shop/data-b"});
    let spec = json!({"orderedResources": order, "snapshotVolumes": false});
    let (outcome, names, _) = ordered(&world, spec, None).await;
    assert_before(
        &names,
        &["persistentvolumeclaims/namespaces/shop/data-a", "persistentvolumeclaims/namespaces/shop/data-b"],
    );
    let said = warnings(&outcome);
    assert!(
        said.len() == 1 && said[0].contains("\"shop/data-a\"") && said[0].contains("\"shop/data-b\""),
        "{said:?}"
    );
}

#[rstest]
#[case::of_an_earlier_type(asking("pods", "p", vec![id("configmaps", "shop", "d"), id("configmaps", "shop", "b"), id("configmaps", "shop", "a")], false))]
#[case::of_its_own_type(asking("configmaps", "c", vec![id("configmaps", "shop", "d"), id("configmaps", "shop", "b")], false))]
#[tokio::test]
async fn an_additional_item_of_an_ordered_type_waits_for_its_place(
    #[case] action: Arc<dyn BackupItemAction>,
) {
    let world = World::default();
    world.namespace("shop").pod("shop", "p", &[], false);
    for name in ["a", "b", "c", "d"] {
        world.add("configmaps", "shop", name, json!({}));
    }
    let spec = json!({"orderedResources": {"pods": "shop/p", "configmaps": "shop/c,shop/a,shop/d"}});
    let (outcome, names, log) = ordered(&world, spec, Some(action)).await;
    assert_before(
        &names,
        &["c", "a", "d", "b"]
            .map(|name| format!("configmaps/namespaces/shop/{name}"))
            .each_ref()
            .map(String::as_str),
    );
    assert_eq!(log, ["p", "c", "a", "d"]);
    assert_eq!(warnings(&outcome), Vec::<String>::new());
}

#[tokio::test]
async fn an_additional_item_waits_for_the_block_in_which_it_belongs() {
    let world = shop();
    world.pod("shop", "a", &[], true).pod("shop", "b", &["data"], true);
    let action = asking("pods", "a", vec![id("persistentvolumeclaims", "shop", "data")], false);
    let spec = json!({"orderedResources": {"pods": "shop/a,shop/b"}, "snapshotVolumes": false});
    let (_, names, _) = ordered(&world, spec, Some(action)).await;
    assert_before(&names, &["pods/namespaces/shop/a", "persistentvolumeclaims/namespaces/shop/data"]);
}

#[rstest]
#[case::in_time("a", &["key", "settings"], 0)]
#[case::too_late("z", &["settings", "key"], 1)]
#[tokio::test]
async fn an_item_that_only_an_action_asks_for_has_its_place_if_it_is_asked_for_in_time(
    #[case] asks: &'static str,
    #[case] expected: &[&str],
    #[case] count: usize,
) {
    let world = shop();
    world.pod("shop", "a", &[], false).pod("shop", "z", &[], false);
    world.add("configmaps", "blog", "key", json!({}));
    let action = asking("pods", asks, vec![id("configmaps", "blog", "key")], true);
    let order = json!({"pods": "shop/a", "configmaps": "blog/key,shop/settings"});
    let spec = json!({"includedNamespaces": ["shop"], "orderedResources": order});
    let (outcome, _, log) = ordered(&world, spec, Some(action)).await;
    assert_eq!(log[1..], *expected);
    let said = warnings(&outcome);
    assert_eq!(said.len(), count, "{said:?}");
    assert!(said.iter().all(|text| text.contains("key") && text.contains("shop/settings")), "{said:?}");
}

#[tokio::test]
async fn cluster_scoped_items_that_only_others_ask_for_have_their_order() {
    let world = shop();
    for name in ["a", "b", "c"] {
        world.add("clusterroles", "", name, json!({}));
        world.add("serviceaccounts", "shop", name, json!({}));
        let subject = json!({"kind": "ServiceAccount", "namespace": "shop", "name": name});
        let binding = json!({"roleRef": {"name": name}, "subjects": [subject]});
        world.add("clusterrolebindings", "", name, binding);
    }
    let spec = json!({"includedNamespaces": ["shop"], "orderedResources": {"clusterroles": "c,b,gone"}});
    let (outcome, names, log) = ordered(&world, spec, None).await;
    let roles = ["c", "b", "a"].map(|name| format!("clusterroles.rbac.authorization.k8s.io/cluster/{name}"));
    assert_before(&names, &roles.each_ref().map(String::as_str));
    assert_eq!(log, ["c", "b"]);
    let said = warnings(&outcome);
    assert!(said.len() == 1 && said[0].contains("\"gone\""), "{said:?}");
}

#[tokio::test]
async fn a_namespace_that_an_action_asks_for_waits_for_its_place() {
    let world = shop();
    world.pod("shop", "p", &[], false);
    let action = asking("pods", "p", vec![id("namespaces", "", "blog")], false);
    let spec = json!({"orderedResources": {"namespaces": "shop,blog"}});
    let (outcome, _, log) = ordered(&world, spec, Some(action)).await;
    assert_eq!(log, ["shop", "blog"]);
    assert_eq!(warnings(&outcome), Vec::<String>::new());
}

#[tokio::test]
async fn names_that_are_separated_by_semicolons_are_pointed_out() {
    let world = shop();
    world.pod("shop", "a", &[], false).pod("shop", "b", &[], false);
    let spec = json!({"orderedResources": {"pods": "shop/b;shop/a"}});
    let (outcome, _, log) = ordered(&world, spec, None).await;
    assert_eq!(log, Vec::<String>::new());
    let said = warnings(&outcome);
    assert!(said.len() == 1 && said[0].contains("separated by commas, not by semicolons"), "{said:?}");
}
