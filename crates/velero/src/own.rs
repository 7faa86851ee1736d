//! Which Secrets are keys of the server: those of its locations, of its repositories, of its links and of its gateway.
//! Read when a backup or a restore starts; both leave them out.

use std::collections::BTreeSet;

use kube::api::{DynamicObject, ListParams};
use lifeboat_api::velero::{BackupStorageLocation, VolumeSnapshotLocation};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::install::CLOUD_CREDENTIALS;
use lifeboat_plan::own::OwnObjects;
use lifeboat_plan::{password, transfer};
use serde_json::Value;

use crate::context::Context;
use crate::downloads;

/// Where a location names Secrets.
const NAMED: [&str; 2] = ["/spec/credential/name", "/spec/objectStorage/caCertRef/name"];

/// Where a location names a Secret as SECRET/KEY.
const NAMED_WITH_KEY: &str = "/spec/config/customerKeyEncryptionSecret";

/// Reads the locations.
pub(crate) async fn objects(context: &Context) -> Result<OwnObjects, ApiError> {
    let mut locations = locations_of::<BackupStorageLocation>(context).await?;
    locations.extend(locations_of::<VolumeSnapshotLocation>(context).await?);
    Ok(of(context, &locations))
}

/// `locations`: all, of both kinds.
pub(crate) fn of<'a>(
    context: &Context,
    locations: impl IntoIterator<Item = &'a DynamicObject>,
) -> OwnObjects {
    let fixed = [CLOUD_CREDENTIALS.0, password::SECRET, downloads::SECRET.0, transfer::gateway::SECRET];
    let mut secrets: BTreeSet<String> = fixed.map(str::to_owned).into();
    secrets.extend(locations.into_iter().flat_map(named).map(str::to_owned));
    OwnObjects {
        server: context.namespace.clone(),
        movers: context.movers.settings().namespace.clone(),
        secrets,
    }
}

fn named(location: &DynamicObject) -> impl Iterator<Item = &str> {
    let text = |pointer: &str| location.data.pointer(pointer).and_then(Value::as_str);
    let with_key = text(NAMED_WITH_KEY).and_then(|both| Some(both.split_once('/')?.0));
    NAMED.into_iter().filter_map(text).chain(with_key)
}

/// The locations of one kind.
pub(crate) async fn locations_of<K: kube::Resource<DynamicType = ()>>(
    context: &Context,
) -> Result<Vec<DynamicObject>, ApiError> {
    let resource = objects::resource_of::<K>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    Ok(api.list(&ListParams::default()).await.attempt(format!("list {}", resource.plural))?.items)
}
