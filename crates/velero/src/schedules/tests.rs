//! Reconciles against the API server of `lifeboat_control::testing`.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use lifeboat_api::velero::Schedule;
use lifeboat_cluster::objects;
use lifeboat_control::testing::{ApiServer, Requests, Verb, When};
use rstest::rstest;
use serde_json::{Value, json};

use super::work;
use crate::context::Context;

const SCHEDULE: &str = "/apis/velero.io/v1/namespaces/lifeboat/schedules/nightly";
const BACKUPS: &str = "/apis/velero.io/v1/namespaces/lifeboat/backups";

/// A cluster with the Schedule `nightly`.
struct World(ApiServer);

impl World {
    fn schedule(&self) -> Value {
        self.0.get(SCHEDULE).unwrap()
    }

    fn backup(&self, name: &str) -> Value {
        self.0.get(&format!("{BACKUPS}/{name}")).unwrap()
    }
}

fn world(spec: &Value, status: &Value) -> World {
    let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
        "metadata": {"uid": "u", "creationTimestamp": "2026-11-10T12:00:00Z"}, "spec": spec, "status": status});
    let server = ApiServer::default();
    server.put(SCHEDULE, schedule);
    World(server)
}

async fn context(world: &World) -> Context {
    crate::testing::context(world.0.client().await)
}

/// One reconcile at one in the morning of 2026-11-16.
async fn look(world: &World) -> Result<Action, String> {
    let context = context(world).await;
    let object: DynamicObject = serde_json::from_value(world.schedule()).unwrap();
    let now: Timestamp = "2026-11-16T01:00:00Z".parse().unwrap();
    work(&object, &context, &objects::resource_of::<Schedule>(), now).await.map_err(|error| error.chain())
}

fn daily() -> Value {
    json!({"template": {"includedNamespaces": ["shop"], "orderedResources": {"pod": "shop/a,shop/b"}}, "schedule": "0 3 * * *"})
}

fn enabled(last: &str) -> Value {
    json!({"phase": "Enabled", "lastBackup": last})
}

fn names(world: &World) -> Vec<String> {
    let paths = world.0.paths(BACKUPS).into_iter();
    paths.filter_map(|path| path.rsplit('/').next().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_due_run_is_made_under_its_own_time_and_noted() {
    let world = world(&daily(), &enabled("2026-11-13T03:00:00Z"));
    assert_eq!(look(&world).await, Ok(Action::await_change()));
    assert_eq!(names(&world), ["nightly-20261115030000"]);
    assert_eq!(world.schedule()["status"]["lastBackup"], "2026-11-15T03:00:00Z");
    let backup = world.backup("nightly-20261115030000");
    assert_eq!(backup["spec"]["orderedResources"]["pod"], "shop/a,shop/b");
    assert_eq!(backup["metadata"]["labels"]["velero.io/schedule-name"], "nightly");
}

#[tokio::test]
async fn a_server_that_died_before_its_note_makes_no_second_backup() {
    let world = world(&daily(), &enabled("2026-11-14T03:00:00Z"));
    world.0.fail(Requests::new(Verb::Patch, SCHEDULE), When::Next, 500);
    assert!(look(&world).await.is_err());
    assert_eq!(names(&world).len(), 1);
    assert_eq!(look(&world).await, Ok(Action::await_change()));
    assert_eq!(names(&world).len(), 1);
    assert_eq!(world.schedule()["status"]["lastBackup"], "2026-11-15T03:00:00Z");
}

#[tokio::test]
async fn a_create_that_meets_its_own_name_is_done() {
    let world = world(&daily(), &enabled("2026-11-14T03:00:00Z"));
    look(&world).await.unwrap();
    let schedule: Schedule = serde_json::from_value(world.schedule()).unwrap();
    let context = context(&world).await;
    let again = super::apply::create(&context, &schedule, "nightly-20261115030000").await;
    assert_eq!(again.map_err(|error| error.chain()), Ok(None));
    assert_eq!(names(&world), ["nightly-20261115030000"]);
}

#[tokio::test]
async fn an_unfinished_backup_holds_the_next_one_up() {
    let world = world(&daily(), &enabled("2026-11-14T03:00:00Z"));
    let unfinished = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "nightly-1",
        "labels": {"velero.io/schedule-name": "nightly"}}, "spec": {}, "status": {"phase": "Queued"}});
    world.0.put(&format!("{BACKUPS}/nightly-1"), unfinished);
    assert_eq!(look(&world).await, Ok(Action::requeue(super::HELD_UP)));
    assert_eq!(names(&world), ["nightly-1"]);
    world.0.change(&format!("{BACKUPS}/nightly-1"), &json!({"status": {"phase": "Completed"}}));
    look(&world).await.unwrap();
    assert_eq!(names(&world), ["nightly-1", "nightly-20261115030000"]);
}

#[tokio::test]
async fn a_name_that_a_strangers_backup_has_is_told_and_the_run_stays_due() {
    let world = world(&daily(), &enabled("2026-11-14T03:00:00Z"));
    let stranger = json!({"apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": "nightly-20261115030000"}, "spec": {}});
    world.0.put(&format!("{BACKUPS}/nightly-20261115030000"), stranger);
    assert_eq!(look(&world).await, Ok(Action::requeue(super::REFUSED)));
    assert_eq!(world.0.events(), ["NotMade"]);
    assert_eq!(world.schedule()["status"]["lastBackup"], "2026-11-14T03:00:00Z");
}

#[tokio::test]
async fn at_rest_nothing_is_asked() {
    let world = world(&daily(), &enabled("2026-11-15T03:00:00Z"));
    assert_eq!(look(&world).await, Ok(Action::requeue(Duration::from_mins(1))));
    assert_eq!(world.0.requests(&Requests::new(Verb::List, BACKUPS)).len(), 0);
}

#[rstest]
#[case::no_date(json!({"template": {}, "schedule": "0 0 31 2 *"}))]
#[case::not_even_readable(json!({"template": {"ttl": "a day"}, "schedule": "@daily"}))]
#[tokio::test]
async fn a_wrong_schedule_says_so_once(#[case] spec: Value) {
    let world = world(&spec, &json!({}));
    for _ in 0..3 {
        assert_eq!(look(&world).await, Ok(Action::await_change()));
    }
    assert!(names(&world).is_empty());
    assert_eq!(world.0.events(), ["FailedValidation"]);
    assert_eq!(world.schedule()["status"]["phase"], "FailedValidation");
}

#[tokio::test]
async fn a_new_schedule_is_enabled_and_skips_its_first_run_where_it_says_so() {
    let mut spec = daily();
    spec["skipImmediately"] = json!(true);
    let world = world(&spec, &json!({}));
    for _ in 0..2 {
        look(&world).await.unwrap();
    }
    assert!(names(&world).is_empty());
    let schedule = world.schedule();
    assert_eq!(schedule["spec"]["skipImmediately"], false);
    assert_eq!(schedule["status"]["lastSkipped"], "2026-11-16T01:00:00Z");
    assert_eq!(schedule["status"]["phase"], "Enabled");
}
