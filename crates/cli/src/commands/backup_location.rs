//! `lifeboat backup-location …`: where backups are kept.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod set;
pub(crate) mod spec;

use std::time::Duration;

use kube::api::DynamicObject;
use kube::{Api, Client};
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{ApiError, Attempt, objects};
use serde_json::Value;

use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a location
    Create(create::Args),
    /// List locations
    Get(get::Args),
    /// Change a location
    Set(set::Args),
    /// Delete locations; the data in their buckets stays
    Delete(delete::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Create(args) => create::run(settings, args).await,
        Command::Get(args) => get::run(settings, args).await,
        Command::Set(args) => set::run(settings, args).await,
        Command::Delete(args) => delete::run(settings, args).await,
    }
}

pub(crate) fn api(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = objects::resource("velero.io", "v1", "BackupStorageLocation", "backupstoragelocations");
    objects::namespaced(client, namespace, &resource)
}

/// The location by name, or an error that says which there are.
async fn find(api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject, CliError> {
    if let Some(found) = api.get_opt(name).await.attempt(format!("read BackupStorageLocation {name}"))? {
        return Ok(found);
    }
    let all = api.list(&kube::api::ListParams::default()).await.attempt("list BackupStorageLocations")?;
    let names: Vec<_> = all.iter().filter_map(|location| location.metadata.name.clone()).collect();
    let there_is =
        if names.is_empty() { "there is none".to_owned() } else { format!("there is {}", names.join(", ")) };
    Err(CliError::not_found(format!("there is no backup location {name:?}")).help(there_is))
}

fn text(object: &DynamicObject, pointer: &str) -> String {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Waits until the server found the bucket usable; what it finds wrong is the error.
pub(crate) async fn wait_until_available(
    client: &Client,
    namespace: &str,
    name: &str,
    limit: Duration,
) -> Result<(), CliError> {
    eprintln!("  waiting for location {name}");
    let api = api(client, namespace);
    let outcome = until(&format!("location {name}"), limit, async || {
        let found = api.get(name).await.attempt(format!("read BackupStorageLocation {name}"))?;
        Ok::<_, ApiError>(
            match (text(&found, "/status/phase").as_str(), text(&found, "/status/lastValidationTime")) {
                ("Available", _) => Look::Done(None),
                (_, looked) if !looked.is_empty() => Look::Done(Some(text(&found, "/status/message"))),
                _ => Look::NotYet("not looked at by the server yet".into()),
            },
        )
    })
    .await?;
    match outcome {
        None => Ok(()),
        Some(message) => {
            Err(CliError::refused(format!("location {name} is not usable: {message}")).help(format!(
                "the location was made; change it with `lifeboat backup-location set {name}` or make it anew"
            )))
        }
    }
}
