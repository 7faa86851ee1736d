//! The pod in which hooks of an AppBinding run: a Ready endpoint of its Service. Only in the AppBinding's own
//! namespace: through a Service of another namespace, the server would run commands in other tenants' pods.

use kube::api::ListParams;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::targets::HostPod;
use serde_json::Value;

use super::work::TaskWork;

/// The label of an EndpointSlice with the name of its Service.
const SERVICE: &str = "kubernetes.io/service-name";

/// The pod; None if the application is not a Service with a Ready pod in this namespace.
pub(crate) async fn endpoint_pod(core: &Core, work: &TaskWork) -> Result<Option<HostPod>, ApiError> {
    let namespace = work.namespace.as_str();
    let service = work.app.as_ref().and_then(|app| app.client_config.service.as_ref());
    let is_own =
        |other: &Option<String>| other.as_deref().is_none_or(|name| name.is_empty() || name == namespace);
    let Some(service) = service.filter(|service| is_own(&service.namespace)) else { return Ok(None) };
    let slices = objects::resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
    let listed = objects::namespaced(&core.client, namespace, &slices)
        .list(&ListParams::default().labels(&format!("{SERVICE}={}", service.name)))
        .await
        .attempt(format!("list EndpointSlices of Service {namespace}/{}", service.name))?;
    let slices: Vec<Value> = listed.items.iter().map(objects::to_json).collect();
    let mut names: Vec<&str> = slices.iter().flat_map(ready_pods).collect();
    names.sort_unstable();
    let pods = objects::namespaced(&core.client, namespace, &objects::resource("", "v1", "Pod", "pods"));
    for name in names {
        let found = pods.get_opt(name).await.attempt(format!("read Pod {namespace}/{name}"))?;
        if let Some(pod) = found.as_ref().map(objects::to_json) {
            let of = |at: &str| text(&pod, at).to_owned();
            let (uid, node) = (of("/metadata/uid"), of("/spec/nodeName"));
            return Ok(Some(HostPod { name: name.to_owned(), uid, node, object: pod }));
        }
    }
    Ok(None)
}

/// The names of the pods of a slice that are Ready.
fn ready_pods(slice: &Value) -> impl Iterator<Item = &str> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    ready.map(|endpoint| &endpoint["targetRef"]).filter(|of| of["kind"] == "Pod").map(|of| text(of, "/name"))
}
