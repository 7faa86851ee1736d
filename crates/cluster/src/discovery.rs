//! Discovers all groups, versions and types of the cluster in two requests. An aggregated API server that is down
//! causes a warning, not an error: everything else is served. Called by backups and restores before they start.

use kube::Client;
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery};
use lifeboat_api::catalogue::{Catalogue, GroupResource, ResourceType};
use lifeboat_plan::backup::defaults::ClusterVersion;

use crate::{ApiError, Attempt};

/// The types of a cluster, and warnings about groups that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    pub catalogue: Catalogue,
    /// Groups whose API server does not answer.
    pub warnings: Vec<String>,
    pub version: ClusterVersion,
}

pub async fn discover(client: &Client) -> Result<Discovered, ApiError> {
    let (core, groups, version) = futures::try_join!(
        client.list_core_api_versions_aggregated(),
        client.list_api_groups_aggregated(),
        client.apiserver_version(),
    )
    .attempt("discover which resources the cluster serves")?;
    let (catalogue, warnings) = catalogue(&core, &groups);
    let version = ClusterVersion { git: version.git_version, major: version.major, minor: version.minor };
    Ok(Discovered { catalogue, warnings, version })
}

/// The version of an API group that the cluster prefers; None if it does not serve the group.
pub async fn preferred_version(client: &Client, group: &str) -> Result<Option<String>, ApiError> {
    let request = http::Request::get(format!("/apis/{group}")).body(Vec::new());
    let asked = match request {
        Ok(request) => client.request::<serde_json::Value>(request).await,
        Err(error) => Err(kube::Error::HttpError(error)),
    };
    match asked {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        asked => {
            let found = asked.attempt(format!("discover which version of {group} the cluster serves"))?;
            Ok(found
                .pointer("/preferredVersion/version")
                .and_then(|version| version.as_str())
                .map(str::to_owned))
        }
    }
}

/// Types in the order in which they are collected: pods, claims and volumes first, group `extensions` last, as in stock
/// Velero.
fn catalogue(core: &APIGroupDiscoveryList, groups: &APIGroupDiscoveryList) -> (Catalogue, Vec<String>) {
    let mut types = Vec::new();
    let mut warnings = Vec::new();
    for group in core.items.iter().chain(&groups.items) {
        add_group(group, &mut types, &mut warnings);
    }
    types.sort_by_key(|kind: &ResourceType| rank(&kind.id));
    (Catalogue::new(types), warnings)
}

fn rank(id: &GroupResource) -> u8 {
    match (id.group.as_str(), id.resource.as_str()) {
        ("", "pods") => 0,
        ("", "persistentvolumeclaims") => 1,
        ("", "persistentvolumes") => 2,
        ("extensions", _) => 4,
        _ => 3,
    }
}

fn add_group(group: &APIGroupDiscovery, types: &mut Vec<ResourceType>, warnings: &mut Vec<String>) {
    let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
    let first = types.len();
    for version in &group.versions {
        let number = version.version.clone().unwrap_or_default();
        if version.freshness.as_deref() == Some("Stale") {
            warnings.push(format!(
                "the server of API group {name}/{number} does not answer: its objects are left out (`kubectl get apiservices` shows why)"
            ));
            continue;
        }
        for resource in &version.resources {
            // A type's preferred version is the first one that has it: some types exist only in older versions of their
            // group.
            let preferred =
                !types[first..].iter().any(|known| Some(&known.id.resource) == resource.resource.as_ref());
            types.extend(resource_type(&name, &number, resource, preferred));
        }
    }
}

fn resource_type(
    group: &str,
    version: &str,
    resource: &APIResourceDiscovery,
    preferred: bool,
) -> Option<ResourceType> {
    let plural = resource.resource.clone().filter(|name| !name.is_empty())?;
    let kind = resource.response_kind.as_ref()?.kind.clone().filter(|kind| !kind.is_empty())?;
    Some(ResourceType {
        id: GroupResource::new(group, plural),
        version: version.to_owned(),
        kind,
        singular: resource.singular_resource.clone().unwrap_or_default(),
        short_names: resource.short_names.clone(),
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        verbs: resource.verbs.clone(),
        preferred,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{client, failure};

    fn resource(plural: &str, kind: &str) -> Value {
        json!({"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced",
            "singularResource": kind.to_lowercase(), "verbs": ["list", "get", "create", "delete"]})
    }

    fn core() -> Value {
        json!({"items": [{"metadata": {}, "versions": [{"version": "v1",
            "resources": [resource("configmaps", "ConfigMap"), resource("pods", "Pod")]}]}]})
    }

    fn groups() -> Value {
        json!({"items": [
            {"metadata": {"name": "extensions"}, "versions": [{"version": "v1", "resources": [resource("a", "A")]}]},
            {"metadata": {"name": "apps"}, "versions": [
                {"version": "v1", "resources": [resource("deployments", "Deployment")]},
                {"version": "v1beta1", "resources": [resource("deployments", "Deployment"), resource("olds", "Old")]},
            ]},
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [
                {"version": "v1", "freshness": "Stale", "resources": []}]},
        ]})
    }

    #[tokio::test]
    async fn everything_is_found_in_order_and_a_server_that_is_down_is_reported() {
        let client = client(|asked| match asked.path.as_str() {
            "/api" => (200, core()),
            "/apis" => (200, groups()),
            "/version" => (
                200,
                json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            ),
            _ => failure(404, "NotFound"),
        });
        let found = discover(&client.await).await.unwrap();
        let types: Vec<_> =
            found.catalogue.types().map(|kind| format!("{} {}", kind.id, kind.version)).collect();
        assert_eq!(
            types,
            ["pods v1", "configmaps v1", "deployments.apps v1", "olds.apps v1beta1", "a.extensions v1"]
        );
        assert_eq!(found.catalogue.all().len(), 6);
        assert!(found.warnings[0].contains("metrics.k8s.io/v1"), "{:?}", found.warnings);
        assert_eq!(found.version.git, "v1.34.4");
    }
}
