//! Reads everything that the decision about one location needs: its typed form, the Secrets it names, the
//! installation's password, the other locations.

use std::sync::Arc;

use kube::api::{DynamicObject, ListParams};
use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::password::PasswordSecret;
use lifeboat_plan::velero::location::PastChecks;

use super::State;
use super::settled::Inputs;
use crate::context::Context;
use crate::locations::{self, Secrets};
use crate::password;

/// Everything that was read.
pub(super) struct Gathered {
    pub(super) object: Arc<DynamicObject>,
    pub(super) inputs: Inputs,
    /// The typed form, or why the object cannot be read (it may not match its schema).
    pub(super) location: Result<BackupStorageLocation, serde_json::Error>,
    /// The Secrets that the location names, by name; a missing one is `None`.
    pub(super) secrets: Secrets,
    pub(super) password: Option<PasswordSecret>,
    /// What the object shows of earlier checks.
    pub(super) shown: PastChecks,
    /// Every location that is marked as default and is not being deleted.
    pub(super) defaults: Vec<DynamicObject>,
}

pub(super) async fn gather(
    context: &Context,
    state: &State,
    object: Arc<DynamicObject>,
) -> Result<Gathered, ApiError> {
    let namespace = &context.namespace;
    let location = objects::typed::<BackupStorageLocation>(&object);
    let inputs = state.inputs(&object);
    let (secrets, password) = match (state.read_before(&object, &inputs), &location) {
        (Some(read), _) => read,
        (None, Ok(location)) => {
            let secrets = locations::secrets(context, location).await?;
            (secrets, password::read(&context.client, namespace).await?)
        }
        (None, Err(_)) => (Secrets::new(), password::read(&context.client, namespace).await?),
    };
    let all = objects::namespaced(&context.client, namespace, &state.resource)
        .list(&ListParams::default())
        .await
        .attempt("list BackupStorageLocations")?;
    let defaults = all
        .into_iter()
        .filter(|other| other.data.pointer("/spec/default") == Some(&serde_json::Value::Bool(true)))
        .filter(|other| other.metadata.deletion_timestamp.is_none())
        .collect();
    let shown = PastChecks::read(&object.data);
    Ok(Gathered { object, inputs, location, secrets, password, shown, defaults })
}
