//! Items that wait for their additional items.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_cluster::testing::failure;
use lifeboat_plan::items::waits::{Wait, Waits};
use lifeboat_plugin::actions::{ActionError, RestoreItemAction, RestoreOutcome};
use serde_json::{Value, json};

use super::actions::id;
use super::world::{World, object};
use super::{place, shop};
use crate::testing::acts::Acts;
use lifeboat_items::progress::Progress;

type Acting = Acts<RestoreOutcome>;

/// Asks for a Secret before each pod; waits where `wait` is set.
fn waits(wait: bool) -> Acting {
    Acts::on(&["pods"], move |item| {
        let additional_items = vec![id("secrets", "shop", "key"), id("secrets", "shop", "refused")];
        let outcome = RestoreOutcome { additional_items, ..RestoreOutcome::item(item) };
        Ok(RestoreOutcome { wait_for_additional_items: wait, ..outcome })
    })
}

fn objects() -> Vec<Value> {
    let mut objects = shop();
    objects.extend([object("v1", "Secret", "shop/key"), object("v1", "Secret", "shop/refused")]);
    objects
}

fn world(action: &Arc<Acting>) -> World {
    let mut world = World::new(objects());
    world.actions = vec![action.clone() as Arc<dyn RestoreItemAction>];
    world.rule = Box::new(|asked, _| {
        (asked.method == "POST" && asked.body["metadata"]["name"] == "refused")
            .then(|| failure(422, "no room"))
    });
    world
}

#[tokio::test]
async fn failed_items_are_left_out_of_the_question_and_names_are_the_backups() {
    let action = Arc::new(waits(true));
    let mut world = world(&action);
    world.spec = json!({"namespaceMapping": {"shop": "copy"}});
    let (ended, api) = world.restore().await;
    assert_eq!(ended.results.errors.count(), 1, "only the Secret that is refused: {:?}", ended.results);
    assert_eq!(*action.asked.lock().unwrap(), [vec![id("secrets", "shop", "key")]]);
    assert!(api.object("/api/v1/namespaces/copy/pods/web-1").is_some());
}

#[tokio::test]
async fn nobody_is_asked_where_the_action_does_not_want_to_wait() {
    let action = Arc::new(waits(false).ready(|_, _| Ok(false)));
    let (_, api) = world(&action).restore().await;
    assert!(action.asked.lock().unwrap().is_empty());
    assert!(api.object("/api/v1/namespaces/shop/pods/web-1").is_some());
}

#[tokio::test]
async fn an_error_of_the_question_ends_the_wait_and_the_item_is_attempted() {
    let answer = |number, _: &[_]| {
        if number == 0 { Ok(false) } else { Err(ActionError::Failed("the database is broken".into())) }
    };
    let action = Arc::new(waits(true).ready(answer));
    let (ended, api) = world(&action).restore().await;
    let errors = &ended.results.errors.namespaces["shop"];
    let message = "error verifying additional items are ready to use: the database is broken (action example.io/acts for pods/shop/web-1";
    assert!(errors.iter().any(|error| error.starts_with(message)), "{errors:?}");
    assert!(api.object("/api/v1/namespaces/shop/pods/web-1").is_some());
}

#[tokio::test]
async fn the_actions_own_time_counts_before_the_servers() {
    let action: Acting = Acts::on(&["pods"], |item| {
        Ok(RestoreOutcome {
            wait_for_additional_items: true,
            ready_timeout: Some(Duration::from_millis(30)),
            ..RestoreOutcome::item(item)
        })
    });
    let action = Arc::new(action.ready(|_, _| Ok(false)));
    let mut world = world(&action);
    world.times.ready = Duration::from_hours(1);
    let (ended, _) = tokio::time::timeout(Duration::from_secs(20), world.restore()).await.unwrap();
    let errors = &ended.results.errors.namespaces["shop"];
    assert!(errors.iter().any(|error| error.contains("not ready after 30ms")), "{errors:?}");
}

#[tokio::test]
async fn a_time_beyond_all_clocks_is_no_trouble() {
    let action: Acting = Acts::on(&["pods"], |item| {
        Ok(RestoreOutcome {
            wait_for_additional_items: true,
            ready_timeout: Some(Duration::MAX),
            ..RestoreOutcome::item(item)
        })
    });
    let action = Arc::new(action.ready(|number, _| Ok(number > 0)));
    let (ended, api) = tokio::time::timeout(Duration::from_secs(20), world(&action).restore()).await.unwrap();
    let errors = ended.results.errors.all().filter(|(_, message)| !message.contains("refused")).count();
    assert_eq!(errors, 0, "{:?}", ended.results);
    place(&api.created(), "/pods/");
}

#[tokio::test]
async fn a_restore_that_is_cancelled_ends_its_waits() {
    let cancel = tokio_util::sync::CancellationToken::new();
    let told = cancel.clone();
    let action = Arc::new(waits(true).ready(move |_, _| {
        told.cancel();
        Ok(false)
    }));
    let mut world = world(&action);
    (world.cancel, world.times.ready) = (cancel, Duration::from_hours(1));
    let (_, api) = tokio::time::timeout(Duration::from_secs(20), world.restore()).await.unwrap();
    assert!(!api.created().iter().any(|path| path.contains("/pods/")), "{:?}", api.created());
}

#[tokio::test]
async fn a_question_that_is_never_answered_holds_nobody_else_and_ends_in_time() {
    let action = Arc::new(waits(true).silent());
    let mut world = world(&action);
    world.times.ready = Duration::from_secs(1);
    world.objects.push(object("networking.k8s.io/v1", "Ingress", "shop/way"));
    let (ended, api) = tokio::time::timeout(Duration::from_secs(20), world.restore()).await.unwrap();
    let errors = &ended.results.errors.namespaces["shop"];
    assert!(errors.iter().any(|error| error.contains("context deadline exceeded")), "{errors:?}");
    let created = api.created();
    assert!(place(&created, "ingress") < place(&created, "/pods/"), "{created:?}");
}

#[tokio::test]
async fn a_hundred_unrelated_objects_come_while_one_waits_and_the_wait_is_told() {
    let progress = Arc::new(Progress::default());
    let seen: Arc<std::sync::Mutex<Vec<Waits>>> = Arc::default();
    let unrelated = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (told, kept, count) = (progress.clone(), seen.clone(), unrelated.clone());
    let action = waits(true).ready(move |number, _| {
        if number > 0 {
            kept.lock().unwrap().push(told.waits());
        }
        Ok(count.load(std::sync::atomic::Ordering::Relaxed) == 100)
    });
    let action = Arc::new(action);
    let mut world = world(&action);
    world.times.ready = Duration::from_secs(20);
    world.progress = progress.clone();
    // Their turn comes after the pods'.
    world.objects.extend(
        (0..100).map(|number| object("networking.k8s.io/v1", "Ingress", &format!("shop/way{number}"))),
    );
    world.rule = Box::new(move |asked, _| {
        if asked.method == "POST" && asked.path.ends_with("ingresses") {
            unrelated.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        None
    });
    let (ended, api) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let created = api.created();
    let pod = place(&created, "/pods/");
    assert_eq!(created[..pod].iter().filter(|path| path.contains("ingress")).count(), 100);
    let seen = seen.lock().unwrap();
    let wait = &seen.first().unwrap().waits[0];
    assert_eq!((wait.item.as_str(), wait.action.as_str()), ("pods/shop/web-1", "example.io/acts"));
    assert_eq!(wait.things, ["secrets shop/key", "secrets shop/refused"]);
    assert_eq!(progress.waits(), Waits::default(), "nothing waits at the end");
}

#[tokio::test]
async fn a_wait_that_an_earlier_server_saw_goes_on_since_then() {
    let since = Timestamp::from_second(Timestamp::now().as_second() - 60).unwrap();
    let before = Waits::new(vec![Wait::new("pods/shop/web-1", &[], "example.io/acts", since)]);
    let progress = Arc::new(Progress::going_on(before.annotation().as_deref(), None));
    let seen: Arc<std::sync::Mutex<Vec<Waits>>> = Arc::default();
    let (told, kept) = (progress.clone(), seen.clone());
    let action = Arc::new(waits(true).ready(move |number, _| {
        if number > 0 {
            kept.lock().unwrap().push(told.waits());
        }
        Ok(number == 1)
    }));
    let mut world = world(&action);
    world.times.ready = Duration::from_hours(1);
    world.progress = progress;
    world.restore().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].waits[0].since, since, "the second question");
}

/// A wait of an item for example.io/acts that began so many seconds ago under another server.
fn interrupted(seconds: i64) -> Arc<Progress> {
    let since = Timestamp::now().checked_sub(jiff::SignedDuration::from_secs(seconds)).unwrap();
    let before = Waits::new(vec![Wait::new("pods/shop/web-1", &[], "example.io/acts", since)]);
    Arc::new(Progress::going_on(before.annotation().as_deref(), None))
}

#[tokio::test]
async fn the_time_before_a_restart_counts_and_the_action_is_asked_once_more() {
    let action = Arc::new(waits(true).ready(|_, _| Ok(false)));
    let mut world = world(&action);
    (world.times.ready, world.progress) = (Duration::from_hours(1), interrupted(7200));
    let (ended, api) = tokio::time::timeout(Duration::from_secs(20), world.restore()).await.unwrap();
    let errors = &ended.results.errors.namespaces["shop"];
    assert!(errors.iter().any(|error| error.contains("not ready after 1h0m0s")), "{errors:?}");
    assert_eq!(action.asked.lock().unwrap().len(), 1);
    assert!(api.object("/api/v1/namespaces/shop/pods/web-1").is_some());
}

#[tokio::test]
async fn items_that_became_ready_while_no_server_ran_are_no_error() {
    let action = Arc::new(waits(true));
    let mut world = world(&action);
    (world.times.ready, world.progress) = (Duration::from_hours(1), interrupted(7200));
    let (ended, _) = world.restore().await;
    let errors = ended.results.errors.all().filter(|(_, message)| !message.contains("refused")).count();
    assert_eq!(errors, 0, "{:?}", ended.results);
}

#[tokio::test]
async fn an_answer_may_take_as_long_as_the_item_may_still_wait() {
    let action = Arc::new(waits(true));
    let mut world = world(&action);
    (world.times.ready, world.progress) = (Duration::from_hours(3), interrupted(3600));
    world.restore().await;
    let limit = action.limits.lock().unwrap()[0];
    assert!(limit > Duration::from_secs(7000) && limit < Duration::from_secs(7300), "{limit:?}");
}
