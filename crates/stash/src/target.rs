//! Reads a target and its surroundings: the workload, its pods, claims with their volumes, nodes, the namespace. Decides nothing.
//! Called by the controllers of invokers and for each member of a session.

use std::collections::{BTreeMap, BTreeSet};

use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::targets::{
    Site, SnapshotClass, TargetFacts, claims_of, host_path_refusal, pod_template, pods_of,
};
use lifeboat_plan::transfer::directory::ClaimOf;
use lifeboat_plan::transfer::snapshots::{GROUP as SNAPSHOTS, VERSION as SNAPSHOTS_VERSION};
use lifeboat_transfer::MoverSettings;
use lifeboat_transfer::claims::Claims;
use serde_json::Value;

/// A target, by kind, namespace and name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetName<'a> {
    pub(crate) kind: TargetKind,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// Reads all facts from which the hosts of a target are derived. `snapshot_class`: `target.snapshotClassName`.
pub(crate) async fn read(
    core: &Core,
    settings: &MoverSettings,
    target: TargetName<'_>,
    snapshot_class: Option<&str>,
) -> Result<TargetFacts, ApiError> {
    let TargetName { kind, namespace, name } = target;
    let object = workload(core, target).await?;
    let mut facts = TargetFacts {
        kind,
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        between: Vec::new(),
        pods: Vec::new(),
        claims: BTreeMap::new(),
        nodes: Vec::new(),
        site: site(core, settings, namespace, snapshot_class).await?,
        object,
    };
    if let Some(object) = &facts.object {
        facts.between = between(core, kind, namespace).await?;
        facts.pods = list(core, namespace, "", "v1", "Pod", "pods").await?;
        let existing = claim_names(core, namespace).await?;
        let own = pods_of(object, &facts.between, &facts.pods);
        facts.claims = claims(core, namespace, claims_of(kind, object, &own, &existing)).await?;
        facts.nodes = nodes(core, &facts.pods).await?;
    }
    Ok(facts)
}

/// The workload, claim or AppBinding; None if it does not exist.
pub(crate) async fn workload(core: &Core, target: TargetName<'_>) -> Result<Option<Value>, ApiError> {
    let TargetName { kind, namespace, name } = target;
    let api = objects::namespaced(&core.client, namespace, &resource(kind));
    let found = api.get_opt(name).await.attempt(format!("read {kind} {namespace}/{name}"))?;
    Ok(found.as_ref().map(objects::to_json))
}

/// The API resource of a kind of targets.
pub(crate) fn resource(kind: TargetKind) -> ApiResource {
    let (group, version) = kind.api_version().rsplit_once('/').unwrap_or(("", kind.api_version()));
    let plural = format!("{}s", kind.as_str().to_lowercase());
    objects::resource(group, version, kind.as_str(), &plural)
}

/// The objects between a workload and its pods, such as ReplicaSets.
async fn between(core: &Core, kind: TargetKind, namespace: &str) -> Result<Vec<Value>, ApiError> {
    match kind {
        TargetKind::Deployment => list(core, namespace, "apps", "v1", "ReplicaSet", "replicasets").await,
        TargetKind::DeploymentConfig => {
            list(core, namespace, "", "v1", "ReplicationController", "replicationcontrollers").await
        }
        _ => Ok(Vec::new()),
    }
}

/// The claims of a target among those of its namespace. Only claims that its pods make for themselves need the pods.
pub(crate) async fn own_claims(
    core: &Core,
    kind: TargetKind,
    object: &Value,
    existing: &[String],
) -> Result<BTreeSet<String>, ApiError> {
    let volumes = pod_template(object).and_then(|template| template.pointer("/spec/volumes")?.as_array());
    let is_made = |volume: &Value| volume.get("ephemeral").is_some();
    if !volumes.is_some_and(|volumes| volumes.iter().any(is_made)) {
        return Ok(claims_of(kind, object, &[], existing));
    }
    let namespace = text(object, "/metadata/namespace");
    let between = between(core, kind, namespace).await?;
    let pods = list(core, namespace, "", "v1", "Pod", "pods").await?;
    Ok(claims_of(kind, object, &pods_of(object, &between, &pods), existing))
}

pub(crate) async fn list(
    core: &Core,
    namespace: &str,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
) -> Result<Vec<Value>, ApiError> {
    let api = objects::namespaced(&core.client, namespace, &objects::resource(group, version, kind, plural));
    let listed =
        api.list(&ListParams::default()).await.attempt(format!("list {plural} of namespace {namespace}"))?;
    let mut items: Vec<Value> = listed.items.iter().map(objects::to_json).collect();
    for item in &mut items {
        // A list does not repeat the kind of its items.
        item["kind"] = Value::from(kind);
    }
    Ok(items)
}

/// The names of all claims of a namespace.
async fn claim_names(core: &Core, namespace: &str) -> Result<Vec<String>, ApiError> {
    let claims = list(core, namespace, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims").await?;
    Ok(claims.iter().map(|claim| text(claim, "/metadata/name").to_owned()).collect())
}

pub(crate) async fn claims(
    core: &Core,
    namespace: &str,
    names: BTreeSet<String>,
) -> Result<BTreeMap<String, ClaimOf>, ApiError> {
    let claims = Claims::new(&core.client);
    let mut found = BTreeMap::new();
    for name in names {
        let Some(claim) = claims.get(namespace, &name).await? else { continue };
        let volume = match text(&claim, "/spec/volumeName") {
            "" => None,
            volume => claims.volume(volume).await?,
        };
        found.insert(name, ClaimOf { claim, volume });
    }
    Ok(found)
}

/// The nodes of pods. If nodes may not be read, the setting of the kubelet's directory applies to all of them.
async fn nodes(core: &Core, pods: &[Value]) -> Result<Vec<Value>, ApiError> {
    let names: BTreeSet<&str> =
        pods.iter().map(|pod| text(pod, "/spec/nodeName")).filter(|name| !name.is_empty()).collect();
    let api: Api<DynamicObject> =
        Api::all_with(core.client.clone(), &objects::resource("", "v1", "Node", "nodes"));
    let mut nodes = Vec::new();
    for name in names {
        match api.get_opt(name).await.attempt(format!("read Node {name}")) {
            Ok(found) => nodes.extend(found.as_ref().map(objects::to_json)),
            Err(error) if error.code() == Some(403) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
    }
    Ok(nodes)
}

async fn site(
    core: &Core,
    settings: &MoverSettings,
    namespace: &str,
    snapshot_class: Option<&str>,
) -> Result<Site, ApiError> {
    let namespaces =
        Api::all_with(core.client.clone(), &objects::resource("", "v1", "Namespace", "namespaces"));
    let found: Option<DynamicObject> =
        namespaces.get_opt(namespace).await.attempt(format!("read Namespace {namespace}"))?;
    let found = found.as_ref().map(objects::to_json).unwrap_or_default();
    let snapshot_class = match snapshot_class {
        Some(name) => Some(class(core, name).await?),
        None => None,
    };
    Ok(Site {
        kubelet_root: settings.kubelet_root.clone(),
        node_access: settings.node_access,
        host_path_refusal: host_path_refusal(&found),
        snapshot_class,
    })
}

async fn class(core: &Core, name: &str) -> Result<SnapshotClass, ApiError> {
    let resource =
        objects::resource(SNAPSHOTS, SNAPSHOTS_VERSION, "VolumeSnapshotClass", "volumesnapshotclasses");
    let api: Api<DynamicObject> = Api::all_with(core.client.clone(), &resource);
    let found = api.get_opt(name).await.attempt(format!("read VolumeSnapshotClass {name}"))?;
    let driver = found.and_then(|found| found.data["driver"].as_str().map(str::to_owned));
    Ok(SnapshotClass { name: name.to_owned(), driver })
}
