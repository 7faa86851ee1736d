//! Nothing that a user writes is lost or changed by reading it into our types.

use lifeboat_api::appcatalog::AppBinding;
use lifeboat_api::repositories::Snapshot;
use lifeboat_api::stash::{
    BackupAgent, BackupBatch, BackupBlueprint, BackupConfiguration, BackupSession, Function, Recovery,
    Repository, Restic, RestoreBatch, RestoreSession, Task,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fixtures::{Fixture, load};

#[test]
fn the_objects_of_the_seed_documents_come_back_unchanged() {
    load("seeds").iter().for_each(assert_round_trip);
}

#[test]
fn the_accepted_manifests_come_back_unchanged() {
    load("accepted/stash").iter().for_each(assert_round_trip);
}

fn assert_round_trip(fixture: &Fixture) {
    let back = through_our_type(fixture.kind(), fixture.object.clone());
    let mut expected = fixture.object.clone();
    add_defaults(&mut expected);
    normalise(&mut expected);
    assert_eq!(back, expected, "{}", fixture.name);
}

fn through_our_type(kind: &str, object: Value) -> Value {
    match kind {
        "AppBinding" => through::<AppBinding>(object),
        "BackupAgent" => through::<BackupAgent>(object),
        "BackupBatch" => through::<BackupBatch>(object),
        "BackupBlueprint" => through::<BackupBlueprint>(object),
        "BackupConfiguration" => through::<BackupConfiguration>(object),
        "BackupSession" => through::<BackupSession>(object),
        "Function" => through::<Function>(object),
        "Recovery" => through::<Recovery>(object),
        "Repository" => through::<Repository>(object),
        "Restic" => through::<Restic>(object),
        "RestoreBatch" => through::<RestoreBatch>(object),
        "RestoreSession" => through::<RestoreSession>(object),
        "Snapshot" => through::<Snapshot>(object),
        "Task" => through::<Task>(object),
        other => unreachable!("no type for kind {other}"),
    }
}

fn through<K: DeserializeOwned + Serialize>(object: Value) -> Value {
    let typed: K = serde_json::from_value(object).expect("a valid manifest decodes");
    serde_json::to_value(typed).expect("an object encodes")
}

/// What the schema fills in on the server, and our types when they read: the defaults that are no zero value.
fn add_defaults(object: &mut Value) {
    let defaults: &[(&str, Value)] = match object["kind"].as_str() {
        Some("BackupConfiguration" | "BackupBatch") => {
            &[("driver", json!("Restic")), ("backupHistoryLimit", json!(1))]
        }
        Some("RestoreSession" | "RestoreBatch") => &[("driver", json!("Restic"))],
        Some("BackupBlueprint") => &[("backupHistoryLimit", json!(1))],
        _ => &[],
    };
    for (field, value) in defaults {
        let spec = object["spec"].as_object_mut().expect("a manifest has a spec");
        spec.entry(*field).or_insert_with(|| value.clone());
    }
    default_in_hooks_and_retries(&mut object["spec"]);
}

fn default_in_hooks_and_retries(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let default = match name.as_str() {
                    "postBackup" | "postRestore" => Some(("executionPolicy", json!("Always"))),
                    "retryConfig" => Some(("maxRetry", json!(1))),
                    _ => None,
                };
                if let (Some((inner, value)), Some(fields)) = (default, field.as_object_mut()) {
                    fields.entry(inner).or_insert(value);
                }
                default_in_hooks_and_retries(field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(default_in_hooks_and_retries),
        _ => {}
    }
}

/// Two spellings of the same: `null`, and `false` and empty lists where they are the default, may go; a
/// duration is written as Go prints it; quantities are text.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !field.is_null() && !is_default(name, field));
            for (name, field) in fields {
                match (name.as_str(), &*field) {
                    ("timeOut" | "delay" | "sessionDuration" | "duration", Value::String(text)) => {
                        let duration: lifeboat_api::common::GoDuration =
                            text.parse().expect("fixtures have valid durations");
                        *field = Value::from(duration.to_string());
                    }
                    ("cpu", Value::Number(number)) => *field = Value::from(number.to_string()),
                    _ => normalise(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        _ => {}
    }
}

fn is_default(name: &str, field: &Value) -> bool {
    match name {
        "wipeOut" | "dryRun" | "insecureSkipTLSVerify" => field == &Value::Bool(false),
        _ => false,
    }
}
