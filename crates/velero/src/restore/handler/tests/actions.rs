//! What actions may give back, sense and nonsense: only the item that it is about suffers.

use std::sync::Arc;

use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plugin::actions::{ActionError, RestoreItemAction, RestoreOutcome};
use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, object};
use super::{listed, shop};
use crate::testing::acts::Acts;

type Acting = Acts<RestoreOutcome>;

pub(super) fn id(resource: &str, namespace: &str, name: &str) -> ItemId {
    ItemId::namespaced(GroupResource::parse(resource), namespace, name)
}

fn world(objects: Vec<Value>, action: Arc<Acting>) -> World {
    let mut world = World::new(objects);
    world.actions = vec![action as Arc<dyn RestoreItemAction>];
    world
}

/// Restores the shop with an action on its ConfigMap; gives the errors of that namespace.
async fn with(made: fn(Value) -> Result<RestoreOutcome, ActionError>) -> (Vec<String>, Vec<String>) {
    let (ended, _) = world(shop(), Arc::new(Acts::on(&["configmaps"], made))).restore().await;
    assert!(ended.results.errors.velero.is_empty(), "{:?}", ended.results);
    (ended.results.errors.namespaces.get("shop").cloned().unwrap_or_default(), listed(&ended.list))
}

fn named(mut item: Value, name: &str) -> RestoreOutcome {
    item["metadata"]["name"] = json!(name);
    RestoreOutcome::item(item)
}

#[rstest]
#[case::an_error(|_| Err(ActionError::Failed("I cannot".into())), "action example.io/acts: I cannot")]
#[case::no_object(|_| Ok(RestoreOutcome::item(Value::Null)), "returned something that is not an object")]
#[case::a_way_out(|item| Ok(named(item, "../../secrets/x")), "the name \"../../secrets/x\", which is not valid for an object")]
#[case::a_kind_that_is_not_there(|mut item: Value| { item["kind"] = json!("Gadget"); Ok(RestoreOutcome::item(item)) },
    "changed its kind to v1 Gadget, which the cluster does not serve")]
#[case::no_kind(|mut item: Value| { item["kind"] = json!(7); Ok(RestoreOutcome::item(item)) }, "which the cluster does not serve")]
#[tokio::test]
async fn an_item_that_cannot_be_is_named_and_the_others_come(
    #[case] made: fn(Value) -> Result<RestoreOutcome, ActionError>,
    #[case] message: &str,
) {
    let (errors, items) = with(made).await;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("configmaps/shop/settings") && errors[0].contains(message), "{errors:?}");
    assert_eq!(items.iter().filter(|item| item.ends_with("(created)")).count(), 5, "{items:?}");
}

#[tokio::test]
async fn an_action_that_does_not_say_what_it_is_for_is_left_out_and_named() {
    let action = Arc::new(Acting::on(&["configmaps"], |item| Ok(RestoreOutcome::item(item))).mute());
    let (ended, _) = world(shop(), action.clone()).restore().await;
    let message = &ended.results.errors.velero;
    assert!(message[0].contains("example.io/acts") && message[0].contains("it crashed"), "{message:?}");
    assert_eq!((message.len(), action.calls(), ended.list.count()), (1, 0, 6));
    assert!(listed(&ended.list).iter().all(|item| item.ends_with("(created)")));
}

#[tokio::test]
async fn an_item_that_names_itself_or_is_named_back_is_restored_once() {
    let action = Acting::on(&["configmaps", "secrets"], |item| {
        let additional_items = vec![id("configmaps", "shop", "settings"), id("secrets", "shop", "key")];
        Ok(RestoreOutcome { additional_items, ..RestoreOutcome::item(item) })
    });
    let mut objects = shop();
    objects.push(object("v1", "Secret", "shop/key"));
    let action = Arc::new(action);
    let (ended, api) = world(objects, action.clone()).restore().await;
    assert!(ended.results.errors.is_empty() && ended.results.warnings.is_empty(), "{:?}", ended.results);
    assert_eq!((action.calls(), api.created().len()), (2, 7));
}

#[tokio::test]
async fn thousands_of_additional_items_that_are_not_there_are_few_warnings() {
    let action = Acting::on(&["configmaps"], |item| {
        let additional_items =
            (0..5000).map(|number| id("gadgets.example.org", "shop", &number.to_string())).collect();
        Ok(RestoreOutcome { additional_items, ..RestoreOutcome::item(item) })
    });
    let (ended, _) = world(shop(), Arc::new(action)).restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let warnings = &ended.results.warnings.namespaces["shop"];
    assert_eq!(warnings.len(), 11, "{warnings:?}");
    assert!(warnings[10].starts_with("4990 more additional items"), "{warnings:?}");
}

#[tokio::test]
async fn a_long_chain_of_additional_items_is_restored_from_its_end() {
    let last = 3000;
    let action = Acting::on(&["secrets"], move |item| {
        let number: usize = item["metadata"]["name"].as_str().unwrap()[1..].parse().unwrap();
        let next = (number < last).then(|| id("secrets", "shop", &format!("s{}", number + 1)));
        Ok(RestoreOutcome { additional_items: next.into_iter().collect(), ..RestoreOutcome::item(item) })
    });
    let mut objects = vec![object("v1", "Namespace", "shop")];
    objects.extend((0..=last).map(|number| object("v1", "Secret", &format!("shop/s{number}"))));
    let (ended, api) = world(objects, Arc::new(action)).restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let created: Vec<String> = api.created().into_iter().filter(|path| path.contains("/secrets/")).collect();
    assert_eq!(created.len(), last + 1);
    assert!(created[0] > created[1] || created[0].ends_with("s3000"), "{:?}", &created[..3]);
}

#[tokio::test]
async fn an_item_that_is_left_out_brings_nothing_and_asks_nothing() {
    let action = Acting::on(&["configmaps"], |item| {
        let additional_items = vec![id("secrets", "shop", "key")];
        let wait_for_additional_items = true;
        Ok(RestoreOutcome { additional_items, wait_for_additional_items, ..RestoreOutcome::skipped(item) })
    });
    let mut objects = shop();
    objects.push(object("v1", "Secret", "shop/key"));
    let mut world = world(objects, Arc::new(action));
    world.spec = json!({"includedResources": ["configmaps"]});
    let (ended, _) = world.restore().await;
    assert!(ended.results.errors.is_empty() && ended.results.warnings.is_empty(), "{:?}", ended.results);
    assert_eq!(listed(&ended.list), ["v1/ConfigMap shop/settings(skipped)", "v1/Namespace shop(created)"]);
}
