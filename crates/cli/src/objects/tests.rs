//! Tests of commands against the API server of `lifeboat_control::testing`.

use std::sync::Mutex;

use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifeboat_api::velero::{Backup, Restore, Schedule};
use lifeboat_cluster::testing::failure;
use lifeboat_control::testing::ApiServer;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::download::{LinkArgs, TlsArgs};
use crate::objects::follow::follow;
use crate::settings::Settings;

pub(crate) fn settings() -> Settings {
    Settings {
        namespace: "lifeboat".into(),
        namespace_is_given: true,
        connection: lifeboat_cluster::ConnectOptions::default(),
    }
}

/// A client of an API server that holds these objects of group velero.io, by their plurals.
pub(crate) async fn holding(objects: Vec<(&'static str, Value)>) -> Client {
    let server = ApiServer::default();
    for (plural, object) in objects {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        server.put(&format!("/apis/velero.io/v1/namespaces/lifeboat/{plural}/{name}"), object);
    }
    server.client().await
}

pub(crate) fn backup(name: &str, phase: &str) -> (&'static str, Value) {
    let object = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name}, "spec": {},
        "status": {"phase": phase}});
    ("backups", object)
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
    let client = holding(vec![backup("nightly-1", "Completed"), backup("by-hand", "Completed")]).await;
    let api = BACKUP.api(&client, "lifeboat");
    let error = BACKUP.find(&api, "nightly-2").await.unwrap_err();
    assert_eq!(error.code(), 3);
    assert_eq!(error.to_string(), "there is no backup \"nightly-2\"");
    let help = miette::Diagnostic::help(&error).unwrap().to_string();
    assert_eq!(help, "there are: nightly-1, by-hand");
}

#[tokio::test]
async fn objects_are_chosen_once_each_or_all_by_name() {
    let client = holding(vec![backup("b", "Completed"), backup("a", "Completed")]).await;
    let api = BACKUP.api(&client, "lifeboat");
    let names = |found: Vec<DynamicObject>| found.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let twice = ["b".to_owned(), "b".to_owned()];
    assert_eq!(names(BACKUP.chosen(&api, &twice, None).await.unwrap()), ["b"]);
    assert_eq!(names(BACKUP.chosen(&api, &[], None).await.unwrap()), ["a", "b"]);
}

/// Follows a backup; the API server gives these answers one after another and repeats the last one.
async fn followed(answers: Vec<(u16, Value)>) -> Result<String, String> {
    let (server, answers) = (ApiServer::default(), Mutex::new(answers));
    server.answer(move |_, _| {
        let mut answers = answers.lock().unwrap();
        Some(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    });
    let api = BACKUP.api(&server.client().await, "lifeboat");
    follow(BACKUP, &api, "b").await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_backup_is_followed_over_an_api_server_in_trouble_to_its_end() {
    let state = |phase: &str| (200, backup("b", phase).1);
    let end = followed(vec![state("InProgress"), failure(503, "Unavailable"), state("Completed")]).await;
    assert_eq!(end.as_deref(), Ok("Backup \"b\" completed: 0 items."));
    let end = followed(vec![state("InProgress"), failure(404, "NotFound")]).await;
    assert_eq!(end.unwrap_err(), "backup \"b\" was deleted before it ended");
    assert!(followed(vec![state("PartiallyFailed")]).await.unwrap_err().contains("incomplete"));
    assert!(followed(vec![failure(403, "Forbidden")]).await.unwrap_err().contains("read backup b"));
}

/// Parses one of the examples that users copy.
fn example<K: DeserializeOwned>(text: &str) -> K {
    let value: Value = serde_saphyr::from_str(text).unwrap();
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_examples_are_what_they_say() {
    let backup: Backup = example(include_str!("../../../../examples/backup.yaml"));
    assert!(backup.spec.hooks.is_some());
    let ordered: Backup = example(include_str!("../../../../examples/ordered-resources.yaml"));
    assert_eq!(ordered.spec.ordered_resources.map(|order| order.len()), Some(3));
    let restore: Restore = example(include_str!("../../../../examples/restore.yaml"));
    assert_eq!(restore.spec.backup_name, backup.metadata.name);
    let schedule: Schedule = example(include_str!("../../../../examples/schedule.yaml"));
    assert!(lifeboat_plan::velero::schedule::valid(&schedule).is_ok());
}

#[tokio::test]
async fn an_empty_listing_says_why_it_is_empty() {
    let server = ApiServer::default();
    server.put("/api/v1/namespaces/lifeboat", json!({"apiVersion": "v1", "kind": "Namespace"}));
    let there = server.client().await;
    let message = get::none_found(&settings(), &there, RESTORE, Some("x=y")).await.unwrap();
    assert_eq!(message, "No restores in namespace lifeboat match \"x=y\".");
    assert!(get::none_found(&settings(), &there, RESTORE, None).await.unwrap().contains("make one with"));
    server.remove("/api/v1/namespaces/lifeboat");
    let error = get::none_found(&settings(), &there, RESTORE, None).await.unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (3, "there is no namespace \"lifeboat\""));
}

#[tokio::test]
async fn a_backup_that_never_began_has_no_log_to_wait_for() {
    let client = holding(vec![backup("b", "FailedValidation")]).await;
    let object = BACKUP.find(&BACKUP.api(&client, "lifeboat"), "b").await.unwrap();
    let kind = lifeboat_api::velero::DownloadTargetKind::BackupLog;
    let request = logs::LogRequest { noun: BACKUP, object: &object, kind, location: "default" };
    let link = LinkArgs { timeout: "1m".parse().unwrap(), tls: TlsArgs::default() };
    let error = logs::print(&settings(), &client, request, &link).await.unwrap_err();
    assert!(error.to_string().contains("never started"), "{error}");
    assert!(miette::Diagnostic::help(&error).unwrap().to_string().contains("backup describe b"));
}
