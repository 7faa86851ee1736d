//! Opens a location: the only way from a BackupStorageLocation to its bucket. The location's own controller validates
//! with it; every other controller reads and writes through it.

pub(crate) mod controller;
mod open;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_archive::ObjectStore;
use lifeboat_cluster::{ApiError, Attempt, chain};
use lifeboat_control::unreadable;
use lifeboat_plan::install::CLOUD_CREDENTIALS;
use lifeboat_plan::velero::garbage::LocationState;
use lifeboat_plan::velero::location::{self, CaSource, SecretKey, ValidLocation};
use lifeboat_plugin::host::{Kind, PluginHost, qualified};
use lifeboat_plugin::remote::ObjectStoreLocation;
use lifeboat_store::{Outage, Provider, Retry, StoreConfig};
use lifeboat_transfer::repositories::storage_message;
use secrecy::SecretSlice;

use crate::context::Context;
pub(crate) use crate::plugin_store::PluginOpening;
pub(crate) use crate::storage_problem::Problem;
pub(crate) use open::{find, open, open_found, open_patient, open_plugin};
use open::{find_in, unavailable};
pub(crate) use stored::{Metadata, MetadataError, stored_backup, stored_phase};

/// The values of a Secret; the version shows whether it changed.
#[derive(Clone)]
pub(crate) struct SecretValues {
    pub(crate) version: String,
    pub(crate) values: BTreeMap<String, Vec<u8>>,
}

/// The Secrets that a location names, by name; a missing one is `None`.
pub(crate) type Secrets = BTreeMap<String, Option<SecretValues>>;

/// Everything needed to open the bucket: an installed plugin for the provider takes precedence over the built-in
/// store.
pub(crate) enum Opening {
    BuiltIn(Box<StoreConfig>),
    Plugin(PluginOpening),
}

impl Opening {
    /// The store that is used, for people.
    pub(crate) fn used(&self) -> &str {
        match self {
            Self::BuiltIn(_) => "the built-in store",
            Self::Plugin(plugin) => &plugin.used,
        }
    }
}

/// A location whose bucket is open.
pub(crate) struct Location {
    pub(crate) name: String,
    pub(crate) object: BackupStorageLocation,
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Whether storage is away; of plugins' storage that is not known.
    pub(crate) outage: Outage,
}

/// Why a location cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    #[error("backup storage location '{0}' does not exist; create it with `lifeboat backup-location create`")]
    NotFound(String),
    #[error("backup storage location '{name}' is not available: {message}")]
    Unavailable { name: String, message: String },
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl LocationError {
    /// The error with its causes, for people.
    pub(crate) fn chain(&self) -> String {
        chain(self)
    }

    /// When a later try may succeed.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::NotFound(_) => Retry::Never,
            Self::Unavailable { .. } | Self::Api(_) => Retry::Later,
        }
    }

    /// The location's state as the decisions in crate `plan` need it.
    pub(crate) fn state(&self) -> LocationState {
        match self {
            Self::NotFound(_) => LocationState::NotFound,
            Self::Unavailable { .. } => LocationState::Unavailable,
            Self::Api(_) => LocationState::Unknown,
        }
    }
}

/// Reads the Secrets that a location names.
pub(crate) async fn secrets(
    context: &Context,
    location: &BackupStorageLocation,
) -> Result<Secrets, ApiError> {
    named_secrets(context, secret_names(location)).await
}

/// The settings that open a location's bucket with a built-in store: for a program beside the server, which has no
/// plugins.
pub async fn store_config(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<StoreConfig, LocationError> {
    let object = find_in(client, namespace, name).await?;
    let secrets = secrets_in(client, namespace, secret_names(&object)).await?;
    let config = valid(&object).and_then(|valid| built_in(&secrets, &valid));
    config.map_err(|problem| unavailable(name, problem))
}

/// The Secrets with these names in Lifeboat's namespace.
pub(crate) async fn named_secrets(context: &Context, names: Vec<String>) -> Result<Secrets, ApiError> {
    secrets_in(&context.client, &context.namespace, names).await
}

async fn secrets_in(client: &Client, namespace: &str, names: Vec<String>) -> Result<Secrets, ApiError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut secrets = Secrets::new();
    for name in names {
        let found = api.get_opt(&name).await.attempt(format!("read Secret {namespace}/{name}"))?;
        secrets.insert(name, found.map(values));
    }
    Ok(secrets)
}

/// The names of the Secrets that a location depends on: its own, or the installation's.
fn secret_names(location: &BackupStorageLocation) -> Vec<String> {
    let credential =
        location.spec.credential.as_ref().map_or(CLOUD_CREDENTIALS.0, |reference| reference.name.as_str());
    let authority = location.spec.object_storage.ca_cert_ref.as_ref().map(|reference| reference.name.clone());
    // The encryption key of SSE-C, as SECRET/KEY.
    let config = location.spec.config.iter().flatten();
    let customer_key = config
        .filter(|(key, _)| *key == "customerKeyEncryptionSecret")
        .filter_map(|(_, value)| Some(value.split_once('/')?.0.to_owned()));
    std::iter::once(credential.to_owned())
        .chain(authority)
        .chain(customer_key)
        .filter(|name| !name.is_empty())
        .collect()
}

fn values(secret: Secret) -> SecretValues {
    SecretValues {
        version: secret.resource_version().unwrap_or_default(),
        values: secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect(),
    }
}

/// The problem of a location that does not match its schema.
pub(crate) fn unreadable_problem(error: &serde_json::Error) -> Problem {
    Problem { category: "unreadable", message: unreadable::message(error, unreadable::EDIT) }
}

/// Builds everything needed to open the bucket from a location and its Secrets.
pub(crate) fn opening(
    location: &BackupStorageLocation,
    secrets: &Secrets,
    plugins: &PluginHost,
) -> Result<Opening, Problem> {
    let valid = valid(location)?;
    if let Some(plugin) = plugins.find(Kind::ObjectStore, &valid.provider) {
        let used = format!("plugin {} ({})", plugin.name, plugin.program.display());
        return plugin_opening(location, secrets, &valid, used).map(Opening::Plugin);
    }
    built_in(secrets, &valid).map(|config| Opening::BuiltIn(Box::new(config)))
}

fn valid(location: &BackupStorageLocation) -> Result<ValidLocation, Problem> {
    location::validate(&location.spec).map_err(|problems| {
        let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Problem { category: "config", message }
    })
}

/// The settings of a built-in store.
fn built_in(secrets: &Secrets, valid: &ValidLocation) -> Result<StoreConfig, Problem> {
    if Provider::parse(&valid.provider).is_err() {
        return Err(no_store(&valid.provider));
    }
    let mut config = StoreConfig {
        provider: valid.provider.clone(),
        bucket: valid.bucket.clone(),
        prefix: valid.prefix.clone(),
        config: valid.config.clone(),
        ca_pem: authority(secrets, valid)?,
        credentials: credentials(secrets, valid)?,
        customer_key: None,
    };
    let named = config
        .customer_key_secret()
        .map_err(|error| Problem { category: error.category(), message: error.to_string() })?;
    config.customer_key =
        match named.map(|(secret, key)| SecretKey { secret: secret.into(), key: key.into() }) {
            Some(wanted) => Some(SecretSlice::from(secret_value(
                secrets,
                "spec.config[customerKeyEncryptionSecret]",
                &wanted,
            )?)),
            None => None,
        };
    Ok(config)
}

/// The settings of a plugin, as upstream passes them: the location's `config`, the certificate authority if there is
/// one, and credentials as a file only if the location names its own; the installation's credentials are in the
/// environment.
fn plugin_opening(
    location: &BackupStorageLocation,
    secrets: &Secrets,
    valid: &ValidLocation,
    used: String,
) -> Result<PluginOpening, Problem> {
    let bucket = valid.bucket.trim_matches('/');
    if bucket.contains('/') {
        let message = format!(
            "spec.objectStorage.bucket: {bucket:?} has a '/'; set only the bucket's name here, and the directory in spec.objectStorage.prefix"
        );
        return Err(Problem { category: "config", message });
    }
    let mut config = valid.config.clone();
    if let Some(pem) = authority(secrets, valid)? {
        let text = String::from_utf8(pem).map_err(|_| Problem {
            category: "config",
            message: "spec.objectStorage: the certificate authority is not PEM text".to_owned(),
        })?;
        config.insert("caCert".to_owned(), text);
    }
    let credentials = match &valid.credential {
        Some(wanted) => Some(SecretSlice::from(secret_value(secrets, "spec.credential", wanted)?)),
        None => None,
    };
    let versions: Vec<_> =
        secrets.iter().map(|(name, secret)| (name, secret.as_ref().map(|secret| &secret.version))).collect();
    Ok(PluginOpening {
        uid: location.uid().unwrap_or_else(|| location.name_any()),
        state: format!("{:?} {versions:?}", location.spec),
        provider: valid.provider.clone(),
        used,
        location: ObjectStoreLocation {
            bucket: bucket.to_owned(),
            prefix: valid.prefix.trim_matches('/').to_owned(),
            config,
        },
        credentials,
    })
}

/// No store for this provider; the message names both ways to get one.
fn no_store(provider: &str) -> Problem {
    let message = format!(
        "spec.provider: there is no store for {provider:?}: it is neither built in (aws, gcp, azure, lifeboat.io/local) nor is \
         a plugin '{}' of kind ObjectStore installed; correct the provider, or add its plugin with `lifeboat plugin add \
         IMAGE` (`lifeboat plugin get` lists those that are there)",
        qualified(provider)
    );
    Problem { category: "config", message }
}

fn authority(secrets: &Secrets, valid: &ValidLocation) -> Result<Option<Vec<u8>>, Problem> {
    match &valid.ca {
        CaSource::System => Ok(None),
        CaSource::Inline(pem) => Ok(Some(pem.clone())),
        CaSource::Secret(wanted) => secret_value(secrets, "spec.objectStorage.caCertRef", wanted).map(Some),
    }
}

/// The location's own credentials, or else the installation's, if there are any.
fn credentials(secrets: &Secrets, valid: &ValidLocation) -> Result<Option<SecretSlice<u8>>, Problem> {
    if let Some(wanted) = &valid.credential {
        return secret_value(secrets, "spec.credential", wanted).map(|value| Some(SecretSlice::from(value)));
    }
    // A credentials file in the server that the location names takes precedence over the installation's credentials.
    if valid.config.get("credentialsFile").is_some_and(|path| !path.is_empty()) {
        return Ok(None);
    }
    let (name, key) = CLOUD_CREDENTIALS;
    let installation = secrets.get(name).and_then(Option::as_ref);
    Ok(installation.and_then(|secret| secret.values.get(key)).map(|value| SecretSlice::from(value.clone())))
}

/// One value of a Secret; `field` is the field that names it.
pub(crate) fn secret_value(secrets: &Secrets, field: &str, wanted: &SecretKey) -> Result<Vec<u8>, Problem> {
    let SecretKey { secret: name, key } = wanted;
    let Some(Some(secret)) = secrets.get(name) else {
        return Err(no_secret(format!(
            "{field} names Secret {name:?}, which does not exist in Lifeboat's namespace"
        )));
    };
    secret.values.get(key).cloned().ok_or_else(|| {
        let keys = secret.values.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        no_secret(format!("{field} names key {key:?} of Secret {name:?}, which has only: {keys}"))
    })
}

fn no_secret(message: String) -> Problem {
    Problem { category: "secret_not_found", message }
}

/// An error of storage with its causes, where they add something, and a hint.
pub(crate) fn problem(error: &lifeboat_store::Error) -> Problem {
    Problem { category: error.category(), message: storage_message(error) }
}

/// An error of the narrow store trait as a message with its causes and a hint.
pub(crate) fn message(error: &lifeboat_archive::StoreError) -> String {
    narrow_problem(error).message
}

/// An error of the narrow store trait as a problem.
pub(crate) fn narrow_problem(error: &lifeboat_archive::StoreError) -> Problem {
    match error {
        lifeboat_archive::StoreError::Store(error) => problem(error),
        other => Problem { category: other.category(), message: other.to_string() },
    }
}
