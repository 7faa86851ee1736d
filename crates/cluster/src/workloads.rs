//! The cluster's Deployments, StatefulSets and DaemonSets, in the form that `plan::foreign` evaluates. Called by
//! install.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use lifeboat_plan::foreign::Workload;

use crate::{ApiError, Attempt};

/// Every workload of the cluster.
pub async fn list(client: &Client) -> Result<Vec<Workload>, ApiError> {
    let everything = ListParams::default();
    let deployments =
        Api::<Deployment>::all(client.clone()).list(&everything).await.attempt("list Deployments")?;
    let stateful =
        Api::<StatefulSet>::all(client.clone()).list(&everything).await.attempt("list StatefulSets")?;
    let daemons = Api::<DaemonSet>::all(client.clone()).list(&everything).await.attempt("list DaemonSets")?;
    let mut found = Vec::new();
    found.extend(deployments.iter().map(|d| {
        let spec = d.spec.as_ref();
        workload("Deployment", d, spec.map(|s| &s.template), spec.and_then(|s| s.replicas).unwrap_or(1))
    }));
    found.extend(stateful.iter().map(|s| {
        let spec = s.spec.as_ref();
        workload("StatefulSet", s, spec.map(|s| &s.template), spec.and_then(|s| s.replicas).unwrap_or(1))
    }));
    found.extend(daemons.iter().map(|d| {
        let wanted = d.status.as_ref().map_or(0, |status| status.desired_number_scheduled);
        workload("DaemonSet", d, d.spec.as_ref().map(|s| &s.template), wanted)
    }));
    Ok(found)
}

fn workload(
    kind: &str,
    object: &impl ResourceExt,
    template: Option<&PodTemplateSpec>,
    replicas: i32,
) -> Workload {
    let containers =
        template.and_then(|t| t.spec.as_ref()).map(|spec| spec.containers.as_slice()).unwrap_or_default();
    Workload {
        kind: kind.to_owned(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        labels: object.labels().iter().map(|(k, v)| (k.clone(), v.clone())).collect::<BTreeMap<_, _>>(),
        images: containers.iter().filter_map(|container| container.image.clone()).collect(),
        replicas,
    }
}
