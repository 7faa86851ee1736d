//! The admission policies of an installation: applied exactly as they are given, and found by their labels and names. Called by
//! install and uninstall; the server watches them itself.

use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_plan::install::policies::{API, KINDS, is_as_installed, is_of};
use serde_json::Value;

use crate::apply::{self, ObjectName};
use crate::objects::{resource, to_json};
use crate::{ApiError, Attempt};

const LABELS: &str = "app.kubernetes.io/name=lifeboat,component=velero";

/// Creates or updates an object. A policy or binding that others have changed is created anew: an update leaves fields that they
/// added, such as a condition that exempts someone, and the server does not accept those.
pub async fn apply(client: &Client, object: &Value) -> Result<ObjectName, ApiError> {
    let name = apply::apply(client, object).await?;
    let Some(api) = api_of(client, &name.kind) else { return Ok(name) };
    let found = api.get_opt(&name.name).await.attempt(format!("read {name}"))?;
    if found.is_some_and(|found| !is_as_installed(object, &to_json(&found))) {
        apply::delete(client, &name).await?;
        apply::apply(client, object).await?;
    }
    Ok(name)
}

/// The policies and bindings of the server in `namespace`; bindings first.
pub async fn held(client: &Client, namespace: &str) -> Result<Vec<ObjectName>, ApiError> {
    let mut names = Vec::new();
    for (kind, _) in KINDS.iter().rev() {
        let Some(api) = api_of(client, kind) else { continue };
        let found = match api.list(&ListParams::default().labels(LABELS)).await {
            // A cluster that does not know them has none.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed.attempt(format!("list objects of kind {kind}"))?,
        };
        let ours = found.iter().map(ResourceExt::name_any).filter(|name| is_of(name, namespace));
        names.extend(ours.map(|name| ObjectName {
            api_version: format!("{}/{}", API.0, API.1),
            kind: (*kind).to_owned(),
            namespace: None,
            name,
        }));
    }
    Ok(names)
}

/// Where objects of a kind are; None for other kinds.
fn api_of(client: &Client, kind: &str) -> Option<Api<DynamicObject>> {
    let (kind, plural) = KINDS.iter().find(|(known, _)| *known == kind)?;
    Some(Api::all_with(client.clone(), &resource(API.0, API.1, kind, plural)))
}
