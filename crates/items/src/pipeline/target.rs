//! Where an object is written: its type must be served, or defined by an item of the same backup.

use lifeboat_cluster::write::Target;
use lifeboat_plan::catalogue::{GroupResource, ItemId, is_path_segment};
use serde_json::Value;

use super::item::WorkItem;
use super::run::Run;

/// Why an object cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTarget {
    #[error("an action changed its kind to {api_version} {kind}, which the cluster does not serve")]
    ChangedKind { api_version: String, kind: String },
    #[error(
        "the cluster does not serve {0}; install its definition and restore again, or leave the type out (--exclude-resources)"
    )]
    Type(GroupResource),
    #[error(
        "the cluster serves {resource} as {served}, the backup holds {version}; back it up again from a cluster that serves both (--features EnableAPIGroupVersions), or change it with a resource modifier"
    )]
    Version { resource: GroupResource, served: String, version: String },
    #[error("an action or a resource modifier gave it the name {0:?}, which is not valid for an object")]
    Name(String),
}

/// The type and name under which the object is written: its version must be served, and an action may have changed
/// its kind.
pub fn target(run: &Run, item: &WorkItem, object: &Value) -> Result<Target, NoTarget> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let plural = if kind == item.kind {
        item.id.resource.resource.clone()
    } else {
        match run.catalogue.of_kind(&api_version, &kind) {
            Some(known) => known.id.resource.clone(),
            None => return Err(NoTarget::ChangedKind { api_version, kind }),
        }
    };
    is_served(run, &api_version, &plural)?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&item.id.name).to_owned();
    if !is_path_segment(&name) {
        return Err(NoTarget::Name(name));
    }
    Ok(Target { api_version, plural, kind, namespace: item.target.clone(), name })
}

fn is_served(run: &Run, api_version: &str, plural: &str) -> Result<(), NoTarget> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let id = GroupResource::new(group, plural);
    let types = run.catalogue.all().iter().filter(|known| known.id == id);
    let served: Vec<&str> = types.map(|known| known.version.as_str()).collect();
    if served.contains(&version) {
        return Ok(());
    }
    // A CustomResourceDefinition in the same backup may add the version.
    let definitions = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
    if run.source.find(&ItemId::cluster(definitions, id.to_string())).is_some() {
        return Ok(());
    }
    Err(if served.is_empty() {
        NoTarget::Type(id)
    } else {
        NoTarget::Version { resource: id, served: served.join(", "), version: version.to_owned() }
    })
}
