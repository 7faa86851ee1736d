//! Reconciles against an API server of a few lines that keeps what is written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use lifeboat_api::velero::Schedule;
use lifeboat_cluster::objects;
use lifeboat_cluster::testing::{Asked, client, failure};
use rstest::rstest;
use serde_json::{Value, json};

use super::work;
use crate::context::Context;

/// What the API server holds and was asked.
#[derive(Default)]
struct World {
    schedule: Value,
    backups: BTreeMap<String, Value>,
    /// Codes for writes of the schedule, taken one by one; 200 without.
    codes: Vec<u16>,
    events: Vec<String>,
    lists: usize,
}

impl World {
    fn answer(&mut self, asked: &Asked) -> (u16, Value) {
        let last = asked.path.rsplit('/').next().unwrap_or_default();
        match asked.method.as_str() {
            "POST" if asked.path.contains("/events") => {
                self.events.push(asked.body["reason"].as_str().unwrap_or_default().to_owned());
                (201, asked.body.clone())
            }
            "PATCH" if asked.path.contains("/schedules/") => self.patch(asked),
            "GET" if asked.path.ends_with("/backups") => {
                self.lists += 1;
                let items: Vec<_> = self.backups.values().filter(|backup| is_labelled(backup)).collect();
                (
                    200,
                    json!({"apiVersion": "velero.io/v1", "kind": "BackupList", "metadata": {}, "items": items}),
                )
            }
            "GET" => {
                self.backups.get(last).map_or_else(|| failure(404, "NotFound"), |found| (200, found.clone()))
            }
            "POST" => {
                let name = asked.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.backups.contains_key(&name) {
                    return failure(409, "AlreadyExists");
                }
                self.backups.insert(name, asked.body.clone());
                (201, asked.body.clone())
            }
            _ => failure(500, "unexpected"),
        }
    }

    fn patch(&mut self, asked: &Asked) -> (u16, Value) {
        if let Some(code) = self.codes.pop().filter(|code| *code != 200) {
            return failure(code, "Trouble");
        }
        for part in ["spec", "status"] {
            for (key, value) in asked.body[part].as_object().into_iter().flatten() {
                self.schedule[part][key] = value.clone();
            }
        }
        (200, self.schedule.clone())
    }
}

fn is_labelled(backup: &Value) -> bool {
    backup.pointer("/metadata/labels/velero.io~1schedule-name") == Some(&json!("nightly"))
}

fn world(spec: &Value, status: &Value) -> Arc<Mutex<World>> {
    let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
        "metadata": {"name": "nightly", "namespace": "lifeboat", "uid": "u", "resourceVersion": "1",
            "creationTimestamp": "2026-11-10T12:00:00Z"},
        "spec": spec, "status": status});
    Arc::new(Mutex::new(World { schedule, ..World::default() }))
}

async fn context(world: &Arc<Mutex<World>>) -> Context {
    let answering = world.clone();
    let client = client(move |asked| answering.lock().unwrap().answer(&asked)).await;
    crate::testing::context(client)
}

/// One reconcile at one in the morning of 2026-11-16.
async fn look(world: &Arc<Mutex<World>>) -> Result<Action, String> {
    let context = context(world).await;
    let object: DynamicObject = serde_json::from_value(world.lock().unwrap().schedule.clone()).unwrap();
    let now: Timestamp = "2026-11-16T01:00:00Z".parse().unwrap();
    work(&object, &context, &objects::resource_of::<Schedule>(), now).await.map_err(|error| error.chain())
}

fn daily() -> Value {
    json!({"template": {"includedNamespaces": ["shop"], "orderedResources": {"pod": "shop/a,shop/b"}}, "schedule": "0 3 * * *"})
}

fn enabled(last: &str) -> Value {
    json!({"phase": "Enabled", "lastBackup": last})
}

fn names(world: &Mutex<World>) -> Vec<String> {
    world.lock().unwrap().backups.keys().cloned().collect()
}

#[tokio::test]
async fn a_due_run_is_made_under_its_own_time_and_noted() {
    let world = world(&daily(), &enabled("2026-11-13T03:00:00Z"));
    assert_eq!(look(&world).await, Ok(Action::await_change()));
    assert_eq!(names(&world), ["nightly-20261115030000"]);
    let world = world.lock().unwrap();
    assert_eq!(world.schedule["status"]["lastBackup"], "2026-11-15T03:00:00Z");
    let backup = &world.backups["nightly-20261115030000"];
    assert_eq!(backup["spec"]["orderedResources"]["pod"], "shop/a,shop/b");
    assert_eq!(backup["metadata"]["labels"]["velero.io/schedule-name"], "nightly");
}

#[tokio::test]
async fn a_server_that_died_before_its_note_makes_no_second_backup() {
    let world = world(&daily(), &enabled("2026-11-14T03:00:00Z"));
    world.lock().unwrap().codes = vec![500];
    assert!(look(&world).await.is_err());
    assert_eq!(names(&world).len(), 1);
    assert_eq!(look(&world).await, Ok(Action::await_change()));
    assert_eq!(names(&world).len(), 1);
    assert_eq!(world.lock().unwrap().schedule["status"]["lastBackup"], "2026-11-15T03:00:00Z");
}

#[tokio::test]
async fn a_create_that_meets_its_own_name_is_done() {
    let world = world(&daily(), &enabled("2026-11-14T03:00:00Z"));
    look(&world).await.unwrap();
    let schedule: Schedule = serde_json::from_value(world.lock().unwrap().schedule.clone()).unwrap();
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
    world.lock().unwrap().backups.insert("nightly-1".into(), unfinished);
    assert_eq!(look(&world).await, Ok(Action::requeue(super::HELD_UP)));
    assert_eq!(names(&world), ["nightly-1"]);
    world.lock().unwrap().backups.get_mut("nightly-1").unwrap()["status"]["phase"] = json!("Completed");
    look(&world).await.unwrap();
    assert_eq!(names(&world), ["nightly-1", "nightly-20261115030000"]);
}

#[tokio::test]
async fn a_name_that_a_strangers_backup_has_is_told_and_the_run_stays_due() {
    let world = world(&daily(), &enabled("2026-11-14T03:00:00Z"));
    let stranger = json!({"apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": "nightly-20261115030000"}, "spec": {}});
    world.lock().unwrap().backups.insert("nightly-20261115030000".into(), stranger);
    assert_eq!(look(&world).await, Ok(Action::requeue(super::REFUSED)));
    let world = world.lock().unwrap();
    assert_eq!(world.events, ["NotMade"]);
    assert_eq!(world.schedule["status"]["lastBackup"], "2026-11-14T03:00:00Z");
}

#[tokio::test]
async fn at_rest_nothing_is_asked() {
    let world = world(&daily(), &enabled("2026-11-15T03:00:00Z"));
    assert_eq!(look(&world).await, Ok(Action::requeue(Duration::from_mins(1))));
    assert_eq!(world.lock().unwrap().lists, 0);
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
    let world = world.lock().unwrap();
    assert_eq!(world.events, ["FailedValidation"]);
    assert_eq!(world.schedule["status"]["phase"], "FailedValidation");
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
    let world = world.lock().unwrap();
    assert_eq!(world.schedule["spec"]["skipImmediately"], false);
    assert_eq!(world.schedule["status"]["lastSkipped"], "2026-11-16T01:00:00Z");
    assert_eq!(world.schedule["status"]["phase"], "Enabled");
}
