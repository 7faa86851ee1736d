//! Custom resource definitions: applies them and waits until the API server serves them.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use lifeboat_api::crds::Crd;

use crate::wait::{Look, WaitError, until};
use crate::{ApiError, Attempt, MANAGER};

/// How long the API server may take to serve a new kind.
const ESTABLISH: Duration = Duration::from_mins(1);

/// Applies all definitions, then waits until all of them are served.
pub async fn install(client: &Client, crds: &[Crd]) -> Result<(), WaitError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds {
        let name = crd.name();
        api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(crd.definition()))
            .await
            .attempt(format!("apply CustomResourceDefinition {name}"))?;
    }
    for crd in crds {
        let name = crd.name();
        until(&format!("the API of {name}"), ESTABLISH, async || {
            let found = api.get(name).await.attempt(format!("read CustomResourceDefinition {name}"))?;
            Ok(if established(&found) { Look::Done(()) } else { Look::NotYet("not established".into()) })
        })
        .await?;
    }
    Ok(())
}

/// The names among `names` for which the cluster has no definition.
pub async fn missing(client: &Client, names: &[String]) -> Result<Vec<String>, ApiError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut missing = Vec::new();
    for name in names {
        let found = api.get_opt(name).await.attempt(format!("read CustomResourceDefinition {name}"))?;
        if !found.is_some_and(|crd| established(&crd)) {
            missing.push(name.clone());
        }
    }
    Ok(missing)
}

/// Deletes the definition, and with it every object of the kind; false if it did not exist.
pub async fn delete(client: &Client, name: &str) -> Result<bool, ApiError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(source) => Err(source).attempt(format!("delete CustomResourceDefinition {name}")),
    }
}

fn established(crd: &CustomResourceDefinition) -> bool {
    crd.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}
