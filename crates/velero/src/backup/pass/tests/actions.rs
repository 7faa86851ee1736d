//! What backup item actions and item block actions may give back, sense and nonsense: only the item that it is about suffers.

use async_trait::async_trait;
use lifeboat_plugin::ActionError;
use lifeboat_plugin::actions::{AppliesTo, BackupItemAction, BackupOutcome, ItemBlockAction, Lookup};

use super::*;
use crate::testing::acts::Acts;

type Acting = Acts<BackupOutcome>;

fn id(resource: &str, namespace: &str, name: &str) -> ItemId {
    ItemId::namespaced(GroupResource::parse(resource), namespace, name)
}

fn item(item: Value) -> BackupOutcome {
    BackupOutcome { item, ..BackupOutcome::default() }
}

fn named(mut object: Value, name: &str) -> BackupOutcome {
    object["metadata"]["name"] = json!(name);
    item(object)
}

async fn run_with(world: &World, registry: Registry) -> (Outcome, Vec<String>) {
    let store: Arc<dyn ObjectStore> = Arc::new(Store::memory());
    let mut input = input(world, json!({}), store.clone(), CancellationToken::new()).await;
    input.registry = registry;
    let outcome = tokio::time::timeout(Duration::from_mins(1), Box::pin(run(input))).await.unwrap().unwrap();
    (outcome, archived(store.as_ref(), ARCHIVE).await)
}

async fn acted(world: &World, action: Arc<Acting>) -> (Outcome, Vec<String>) {
    let backup = vec![action as Arc<dyn BackupItemAction>];
    run_with(world, Registry { backup, ..Registry::default() }).await
}

const SETTINGS: &str = "configmaps/namespaces/shop/settings";

#[rstest]
#[case::an_error(|_| Err(ActionError::Failed("I cannot".into())), "action example.io/acts failed: I cannot")]
#[case::no_object(|_| Ok(item(Value::Null)), "an action removed its name")]
#[case::a_way_out(|object| Ok(named(object, "../../x")), "which is not valid for an object")]
#[case::no_namespace(|mut object: Value| { object["metadata"]["namespace"] = Value::Null; Ok(item(object)) },
    "an action removed its namespace")]
#[case::another_kind(|mut object: Value| { object["kind"] = json!("Secret"); Ok(item(object)) },
    "an action changed its kind from ConfigMap to Secret")]
#[case::a_name_that_is_taken(|object| Ok(named(object, "taken")), "which is in the backup already")]
#[tokio::test]
async fn an_item_that_cannot_be_is_named_and_the_others_are_backed_up(
    #[case] made: fn(Value) -> Result<BackupOutcome, ActionError>,
    #[case] message: &str,
) {
    let world = shop();
    world.add("secrets", "shop", "key", json!({}));
    world.add("configmaps", "blog", "taken", json!({}));
    // Whatever names it could get are taken, so that order does not matter.
    let action = Acting::on(&["configmaps"], move |object| {
        if object["metadata"]["name"] != "settings" {
            return Ok(item(object));
        }
        let mut made = made(object)?;
        if made.item["metadata"]["name"] == "taken" {
            made.item["metadata"]["namespace"] = json!("blog");
            made.additional_items = vec![id("configmaps", "blog", "taken")];
        }
        Ok(made)
    });
    let (outcome, names) = acted(&world, Arc::new(action)).await;
    let errors = &outcome.results.errors.namespaces["shop"];
    assert_eq!((errors.len(), outcome.counts.errors), (1, 1), "{errors:?}");
    assert!(errors[0].contains("settings") && errors[0].contains(message), "{errors:?}");
    assert!(!names.contains(&SETTINGS.to_owned()), "{names:?}");
    for other in ["secrets/namespaces/shop/key", "configmaps/namespaces/blog/other"] {
        place(&names, other);
    }
}

#[tokio::test]
async fn an_item_is_kept_where_its_additional_item_cannot_be() {
    let action = Acting::on(&["configmaps"], |object| {
        Ok(BackupOutcome { additional_items: vec![id("gadgets.example.org", "shop", "g")], ..item(object) })
    });
    let (outcome, names) = acted(&shop(), Arc::new(action)).await;
    let errors = &outcome.results.errors.namespaces["shop"];
    let message = ["gadgets.example.org shop/g", "example.io/acts", "does not serve its type"];
    assert!(message.iter().all(|part| errors[0].contains(part)), "{errors:?}");
    place(&names, SETTINGS);
}

#[tokio::test]
async fn an_item_goes_where_its_actions_renamed_it_to() {
    let world = shop();
    let action = Acting::on(&["configmaps"], |object| {
        let name = if object["metadata"]["name"] == "settings" { "renamed" } else { "other" };
        Ok(named(object, name))
    });
    let (outcome, names) = acted(&world, Arc::new(action)).await;
    assert!(outcome.results.errors.is_empty(), "{:?}", outcome.results);
    place(&names, "configmaps/namespaces/shop/renamed");
    assert!(!names.contains(&SETTINGS.to_owned()), "{names:?}");
}

#[tokio::test]
async fn an_action_that_does_not_say_what_it_is_for_is_left_out_and_named() {
    let action = Arc::new(Acting::on(&["configmaps"], |object| Ok(item(object))).mute());
    let (outcome, names) = acted(&shop(), action.clone()).await;
    let errors = &outcome.results.errors.velero;
    assert!(errors[0].contains("example.io/acts") && errors[0].contains("it crashed"), "{errors:?}");
    assert_eq!((errors.len(), action.calls()), (1, 0));
    place(&names, SETTINGS);
}

#[tokio::test]
async fn items_that_name_themselves_and_each_other_are_written_once() {
    let action = Acting::on(&["configmaps"], |object| {
        let additional_items = vec![id("configmaps", "shop", "settings"), id("configmaps", "blog", "other")];
        Ok(BackupOutcome { additional_items, ..item(object) })
    });
    let (outcome, names) = acted(&shop(), Arc::new(action)).await;
    assert!(
        outcome.results.errors.is_empty() && outcome.results.warnings.is_empty(),
        "{:?}",
        outcome.results
    );
    assert_eq!(names.iter().filter(|name| *name == SETTINGS).count(), 1);
}

#[tokio::test]
async fn a_long_chain_of_additional_items_is_backed_up() {
    let world = World::default();
    world.namespace("shop");
    let last = 500;
    for number in 0..=last {
        world.add("configmaps", "shop", &format!("c{number}"), json!({}));
    }
    let action = Acting::on(&["configmaps"], move |object| {
        let number: usize = object["metadata"]["name"].as_str().unwrap()[1..].parse().unwrap();
        let next = (number < last).then(|| id("configmaps", "shop", &format!("c{}", number + 1)));
        Ok(BackupOutcome { additional_items: next.into_iter().collect(), ..item(object) })
    });
    let (outcome, names) = acted(&world, Arc::new(action)).await;
    assert!(outcome.results.errors.is_empty(), "{:?}", outcome.results);
    assert_eq!(names.iter().filter(|name| name.starts_with("configmaps/namespaces/")).count(), last + 1);
}

/// Answers for each ConfigMap with what a function says.
struct Relates(fn() -> Result<Vec<ItemId>, ActionError>);

#[async_trait]
impl ItemBlockAction for Relates {
    fn name(&self) -> &'static str {
        "example.io/relates"
    }
    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["configmaps"]))
    }
    async fn related_items(&self, _: &Value, _: &Backup, _: &dyn Lookup) -> Result<Vec<ItemId>, ActionError> {
        (self.0)()
    }
}

#[rstest]
#[case::an_error(|| Err(ActionError::Failed("I cannot".into())), 2, "item block action example.io/relates")]
#[case::an_unknown_type(|| Ok(vec![id("gadgets.example.org", "shop", "g")]), 2, "does not serve its type")]
#[case::themselves(|| Ok(vec![id("configmaps", "shop", "settings"), id("configmaps", "blog", "other")]), 0, "")]
#[tokio::test]
async fn blocks_bear_what_is_no_relation(
    #[case] related: fn() -> Result<Vec<ItemId>, ActionError>,
    #[case] count: usize,
    #[case] message: &str,
) {
    let blocks = vec![Arc::new(Relates(related)) as Arc<dyn ItemBlockAction>];
    let (outcome, names) = run_with(&shop(), Registry { blocks, ..Registry::default() }).await;
    let errors: Vec<String> = outcome.results.errors.all().map(|(_, text)| text.to_owned()).collect();
    assert_eq!(errors.len(), count, "{errors:?}");
    assert!(errors.iter().all(|error| error.contains(message)), "{errors:?}");
    place(&names, SETTINGS);
    place(&names, "configmaps/namespaces/blog/other");
}
