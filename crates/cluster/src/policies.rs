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

/// Whether the API server has ValidatingAdmissionPolicies: Kubernetes has since 1.30.
pub async fn are_known(client: &Client) -> Result<bool, ApiError> {
    let Some(api) = api_of(client, KINDS[0].0) else { return Ok(false) };
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        listed => listed.attempt(format!("list objects of kind {}", KINDS[0].0)).map(|_| true),
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use lifeboat_plan::install::policies::objects;
    use serde_json::json;

    use super::*;
    use crate::testing::{Asked, client, failure, merge};

    type Stored = Arc<Mutex<BTreeMap<String, Value>>>;

    /// As the API server does it: an apply leaves fields of others.
    fn answer(stored: &Stored, asked: &Asked) -> (u16, Value) {
        let mut stored = stored.lock().unwrap();
        match (asked.method.as_str(), stored.get_mut(&asked.path)) {
            ("GET", _) if asked.path.ends_with("policies") || asked.path.ends_with("bindings") => {
                let items: Vec<_> = stored.iter().filter(|(path, _)| path.starts_with(&asked.path)).collect();
                let items: Vec<_> = items.into_iter().map(|(_, object)| object).collect();
                (200, json!({"metadata": {}, "items": items}))
            }
            ("PATCH", found) => {
                let mut object = found.map_or(Value::Null, |found| found.clone());
                merge(&mut object, &asked.body);
                stored.insert(asked.path.clone(), object.clone());
                (200, object)
            }
            ("GET", Some(found)) => (200, found.clone()),
            ("DELETE", Some(_)) => (200, stored.remove(&asked.path).unwrap_or_default()),
            _ => failure(404, "NotFound"),
        }
    }

    #[tokio::test]
    async fn a_cluster_without_admission_policies_is_told_from_one_without_rights() {
        let with = |code: u16, body: Value| async move {
            let client = client(move |_| (code, body.clone())).await;
            are_known(&client).await
        };
        assert!(with(200, json!({"metadata": {}, "items": []})).await.unwrap());
        assert!(!with(404, failure(404, "NotFound").1).await.unwrap());
        assert!(with(403, failure(403, "Forbidden").1).await.is_err(), "a refusal proves nothing");
    }

    #[tokio::test]
    async fn what_others_added_to_a_policy_is_gone_after_it_was_applied_again() {
        let stored = Stored::default();
        let server = stored.clone();
        let client = client(move |asked| answer(&server, &asked)).await;
        let all = objects("lifeboat");
        for object in &all {
            apply(&client, object).await.unwrap();
        }
        let held_now = held(&client, "lifeboat").await.unwrap();
        assert_eq!(held_now.len(), all.len());
        assert_eq!(held_now[0].kind, KINDS[1].0, "bindings first");
        assert!(held(&client, "boat").await.unwrap().is_empty(), "those of another installation");

        let path = stored.lock().unwrap().keys().next().cloned().unwrap();
        let exempt = json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}});
        merge(stored.lock().unwrap().get_mut(&path).unwrap(), &exempt);
        for object in &all {
            apply(&client, object).await.unwrap();
        }
        let stored = stored.lock().unwrap();
        assert_eq!(stored[&path]["spec"]["paramKind"], Value::Null);
        assert_eq!(stored.len(), all.len());
    }
}
