//! Reads everything the decision about one location needs: its typed form, the Secrets it names, the installation's
//! password, the other locations.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::install::CLOUD_CREDENTIALS;
use lifeboat_plan::location::Shown;
use lifeboat_plan::password::PasswordSecret;

use super::State;
use crate::context::Context;
use crate::password;

/// A Secret's values; the version tells whether it changed.
#[derive(Clone)]
pub(super) struct SecretValues {
    pub(super) version: String,
    pub(super) values: BTreeMap<String, Vec<u8>>,
}

/// All that was read.
pub(super) struct Gathered {
    pub(super) object: Arc<DynamicObject>,
    /// The typed form, or why the object cannot be read (it may be older than the schema).
    pub(super) location: Result<BackupStorageLocation, String>,
    /// The Secrets that the location names, by name; a missing one is `None`.
    pub(super) secrets: BTreeMap<String, Option<SecretValues>>,
    pub(super) password: Option<PasswordSecret>,
    /// What the object shows of earlier looks.
    pub(super) shown: Shown,
    /// Every location that is marked as default and not being deleted.
    pub(super) defaults: Vec<DynamicObject>,
}

pub(super) async fn gather(
    context: &Context,
    state: &State,
    object: Arc<DynamicObject>,
) -> Result<Gathered, ApiError> {
    let namespace = &context.settings.namespace;
    let location = objects::typed::<BackupStorageLocation>(&object).map_err(|error| error.to_string());
    let mut secrets = BTreeMap::new();
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    for name in location.iter().flat_map(secret_names) {
        let found = api.get_opt(&name).await.attempt(format!("read Secret {namespace}/{name}"))?;
        secrets.insert(name, found.map(values));
    }
    let password = password::read(&context.client, namespace).await?;
    let all = objects::namespaced(&context.client, namespace, &state.resource)
        .list(&ListParams::default())
        .await
        .attempt("list BackupStorageLocations")?;
    let defaults = all
        .into_iter()
        .filter(|other| other.data.pointer("/spec/default") == Some(&serde_json::Value::Bool(true)))
        .filter(|other| other.metadata.deletion_timestamp.is_none())
        .collect();
    let shown = Shown::read(&object.data);
    Ok(Gathered { object, location, secrets, password, shown, defaults })
}

/// The Secrets a location depends on: its own, or the installation's.
fn secret_names(location: &BackupStorageLocation) -> Vec<String> {
    let credential =
        location.spec.credential.as_ref().map_or(CLOUD_CREDENTIALS.0, |reference| reference.name.as_str());
    let authority = location.spec.object_storage.ca_cert_ref.as_ref().map(|reference| reference.name.clone());
    // The key of encryption by customer key (SSE-C), as SECRET/KEY.
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
