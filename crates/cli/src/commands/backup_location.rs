//! `lifeboat backup-location …`: creates, lists, changes and deletes locations.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod set;
pub(crate) mod spec;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::install::CLOUD_CREDENTIALS;
use serde_json::Value;

use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a location
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
    objects::namespaced(client, namespace, &objects::resource_of::<BackupStorageLocation>())
}

/// Reads the location; the error of a missing one lists the existing locations.
async fn find(api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject, CliError> {
    if let Some(found) = api.get_opt(name).await.attempt(format!("read BackupStorageLocation {name}"))? {
        return Ok(found);
    }
    let names: Vec<_> =
        listed(api, None).await?.iter().filter_map(|location| location.metadata.name.clone()).collect();
    let there_is = if names.is_empty() {
        "there is none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(CliError::not_found(format!("there is no backup location {name:?}")).help(there_is))
}

/// The locations with these labels, or all of them.
async fn listed(api: &Api<DynamicObject>, selector: Option<&str>) -> Result<Vec<DynamicObject>, CliError> {
    let params = selector.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    Ok(api.list(&params).await.attempt("list BackupStorageLocations")?.items)
}

fn is_default(location: &DynamicObject) -> bool {
    location.data.pointer("/spec/default") == Some(&Value::Bool(true))
}

fn text(object: &DynamicObject, pointer: &str) -> String {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The state of a location and its credentials before a change. A validation result that belongs to this state does not
/// count for the changed location.
pub(crate) struct Freshness {
    inputs: Inputs,
    last_look: String,
}

/// What the validation result depends on. It is compared and never printed.
#[derive(Default, PartialEq)]
struct Inputs {
    spec: Option<Value>,
    credentials: Option<BTreeMap<String, ByteString>>,
}

impl Freshness {
    /// A location that does not exist yet has no earlier validation result.
    pub(crate) async fn of(client: &Client, namespace: &str, name: &str) -> Result<Self, CliError> {
        let found = match api(client, namespace).get_opt(name).await {
            // Before the first installation the custom resource definition does not exist either.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            found => found.attempt(format!("read BackupStorageLocation {name}"))?,
        };
        let Some(location) = found else {
            return Ok(Self { inputs: Inputs::default(), last_look: String::new() });
        };
        let own = text(&location, "/spec/credential/name");
        let secret = if own.is_empty() { CLOUD_CREDENTIALS.0 } else { &own };
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let secret = secrets.get_opt(secret).await.attempt(format!("read Secret {secret}"))?;
        let credentials = secret.and_then(|secret| secret.data);
        let inputs = Inputs { spec: location.data.get("spec").cloned(), credentials };
        Ok(Self { inputs, last_look: text(&location, "/status/lastValidationTime") })
    }
}

/// Waits until the server has validated the location. The server's message is the error if it is not Available.
pub(crate) async fn wait_until_available(
    client: &Client,
    namespace: &str,
    name: &str,
    before: &Freshness,
    limit: Duration,
) -> Result<(), CliError> {
    eprintln!("  waiting for location {name}");
    let changed = Freshness::of(client, namespace, name).await?.inputs != before.inputs;
    let api = api(client, namespace);
    let outcome = until(&format!("location {name}"), limit, async || {
        let found = api.get(name).await.attempt(format!("read BackupStorageLocation {name}"))?;
        let looked = text(&found, "/status/lastValidationTime");
        if looked.is_empty() || (changed && looked == before.last_look) {
            return Ok(Look::NotYet("not validated by the server yet".into()));
        }
        let available = text(&found, "/status/phase") == "Available";
        Ok::<_, ApiError>(Look::Done((!available).then(|| text(&found, "/status/message"))))
    })
    .await?;
    match outcome {
        None => Ok(()),
        Some(message) => Err(CliError::refused(format!("location {name} is not usable: {message}"))
            .help(format!("the location exists; change it with `lifeboat backup-location set {name}`"))),
    }
}
