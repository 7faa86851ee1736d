//! What `uninstall` does about Stash's API: it removes the finalizers of objects that the removed server served, because without a
//! server they would keep their namespaces from being deleted, and finds the kinds that may be deleted.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use lifeboat_api::crds::{self, NAME_LABEL};
use lifeboat_api::stash::{Repository, RestoreBatch, RestoreSession};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::install::DEPLOYMENT;
use lifeboat_plan::stash::in_place::STANDSTILL_FINALIZER;
use lifeboat_plan::stash::repository::wipe_out;
use lifeboat_plan::stash::served::{SERVED_BY, Served};
use serde_json::json;

/// The settings of the server, read from its Deployment before that is deleted; None if it did not serve the API.
pub(super) async fn served(client: &Client, namespace: &str) -> Result<Option<Served>, ApiError> {
    let deployment = Api::<Deployment>::namespaced(client.clone(), namespace).get_opt(DEPLOYMENT).await;
    let deployment = deployment.attempt(format!("read Deployment {DEPLOYMENT}"))?;
    let pod = deployment.and_then(|deployment| deployment.spec?.template.spec);
    let args: Vec<String> = pod
        .into_iter()
        .flat_map(|pod| pod.containers)
        .flat_map(|container| container.args.unwrap_or_default())
        .collect();
    Ok(Served::of_args(args.iter().map(String::as_str)))
}

/// Removes our finalizers: from all objects, or from those in the namespaces that a server served. What they would have led to does
/// not happen any more: the data of a deleted Repository stays, and a workload that a restore has stopped stays down, with the
/// record by which `lifeboat stash resume-workload` starts it.
pub(super) async fn release(client: &Client, of: Option<&Served>) -> Result<(), ApiError> {
    let namespaces = labels(client).await?;
    let is_served = |namespace: &str| {
        of.is_none_or(|served| {
            let label = namespaces.get(namespace).and_then(Option::as_deref);
            served.may_serve(namespace) && served.is_own(label)
        })
    };
    let kinds: [(ApiResource, &str); 3] = [
        (objects::resource_of::<Repository>(), wipe_out::FINALIZER),
        (objects::resource_of::<RestoreSession>(), STANDSTILL_FINALIZER),
        (objects::resource_of::<RestoreBatch>(), STANDSTILL_FINALIZER),
    ];
    for (resource, finalizer) in kinds {
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let found = match all.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed.attempt(format!("list objects of kind {}", resource.kind))?,
        };
        for object in found.iter().filter(|object| is_served(&object.namespace().unwrap_or_default())) {
            if object.finalizers().iter().any(|name| name == finalizer) {
                release_one(client, &resource, object, finalizer).await?;
            }
        }
    }
    Ok(())
}

/// The label of each namespace that says which server serves it.
async fn labels(client: &Client) -> Result<BTreeMap<String, Option<String>>, ApiError> {
    let all = Api::<Namespace>::all(client.clone()).list_metadata(&ListParams::default()).await;
    let all = all.attempt("list Namespaces")?;
    Ok(all.iter().map(|found| (found.name_any(), found.labels().get(SERVED_BY).cloned())).collect())
}

async fn release_one(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
    finalizer: &str,
) -> Result<(), ApiError> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let kept: Vec<&String> = object.finalizers().iter().filter(|name| *name != finalizer).collect();
    let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object.resource_version()}});
    match objects::namespaced(client, &namespace, resource)
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        released => {
            released.attempt(format!("release {} {namespace}/{name}", resource.kind))?;
            eprintln!("  released {} {namespace}/{name}", resource.kind);
            Ok(())
        }
    }
}

/// The definitions that Lifeboat applied. Those of a Stash that was never replaced stay, with their objects.
pub(super) async fn our_kinds(client: &Client) -> Result<Vec<String>, ApiError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut names = Vec::new();
    for crd in crds::of_stash() {
        let name = crd.name();
        let found = api.get_opt(name).await.attempt(format!("read CustomResourceDefinition {name}"))?;
        if found
            .is_some_and(|found| found.labels().get(NAME_LABEL.0).is_some_and(|value| value == NAME_LABEL.1))
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
