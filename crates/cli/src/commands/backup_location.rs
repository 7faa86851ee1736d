//! `lifeboat backup-location …`: where backups are kept.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod set;
pub(crate) mod spec;

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::{Api, Client};
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::install::CLOUD_CREDENTIALS;
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

/// The state of a location and its credentials before a change: a verdict from before it does not count.
pub(crate) struct Freshness {
    inputs: Vec<String>,
    last_look: String,
}

impl Freshness {
    /// A location that does not exist yet has no old verdict.
    pub(crate) async fn of(client: &Client, namespace: &str, name: &str) -> Result<Self, CliError> {
        let (inputs, last_look) = Self::read(client, namespace, name).await?;
        Ok(Self { inputs, last_look })
    }

    async fn read(client: &Client, namespace: &str, name: &str) -> Result<(Vec<String>, String), CliError> {
        let found = match api(client, namespace).get_opt(name).await {
            // Before the first installation the kind itself is not there.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            found => found.attempt(format!("read BackupStorageLocation {name}"))?,
        };
        let Some(location) = found else { return Ok((Vec::new(), String::new())) };
        let own = text(&location, "/spec/credential/name");
        let secret = if own.is_empty() { CLOUD_CREDENTIALS.0 } else { &own };
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let secret = secrets.get_opt(secret).await.attempt(format!("read Secret {secret}"))?;
        let data = secret.map(|secret| format!("{:?}", secret.data)).unwrap_or_default();
        let spec = location.data.get("spec").map(ToString::to_string).unwrap_or_default();
        Ok((vec![spec, data], text(&location, "/status/lastValidationTime")))
    }
}

/// Waits until the server found the bucket usable; what it finds wrong is the error.
pub(crate) async fn wait_until_available(
    client: &Client,
    namespace: &str,
    name: &str,
    before: &Freshness,
    limit: Duration,
) -> Result<(), CliError> {
    eprintln!("  waiting for location {name}");
    let changed = Freshness::read(client, namespace, name).await?.0 != before.inputs;
    let api = api(client, namespace);
    let outcome = until(&format!("location {name}"), limit, async || {
        let found = api.get(name).await.attempt(format!("read BackupStorageLocation {name}"))?;
        let looked = text(&found, "/status/lastValidationTime");
        if looked.is_empty() || (changed && looked == before.last_look) {
            return Ok(Look::NotYet("not looked at by the server yet".into()));
        }
        let available = text(&found, "/status/phase") == "Available";
        Ok::<_, ApiError>(Look::Done((!available).then(|| text(&found, "/status/message"))))
    })
    .await?;
    match outcome {
        None => Ok(()),
        Some(message) => Err(CliError::refused(format!("location {name} is not usable: {message}"))
            .help(format!("the location is there; change it with `lifeboat backup-location set {name}`"))),
    }
}
