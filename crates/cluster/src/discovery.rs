//! Discovers all groups, versions and types of the cluster in two requests. An aggregated API server that is down is
//! named; everything else is served. Called by backups and restores before they start.

use kube::Client;
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery};
use lifeboat_api::catalogue::{Catalogue, GroupResource, ResourceType};
use lifeboat_plan::facts::ClusterVersion;

use crate::{ApiError, Attempt};

/// The types of a cluster, and the groups that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    pub catalogue: Catalogue,
    pub unreachable: Vec<Unreachable>,
    pub version: ClusterVersion,
}

/// A version of an API group whose server does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreachable {
    pub group: String,
    pub version: String,
    /// Its types, if the cluster still knows them.
    pub types: Vec<ResourceType>,
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the server of API group {}/{} does not answer: its objects are left out (`kubectl get apiservices` shows why)",
            self.group, self.version
        )
    }
}

pub async fn discover(client: &Client) -> Result<Discovered, ApiError> {
    let (core, groups, version) = futures::try_join!(
        client.list_core_api_versions_aggregated(),
        client.list_api_groups_aggregated(),
        client.apiserver_version(),
    )
    .attempt("discover which resources the cluster serves")?;
    let (catalogue, unreachable) = catalogue(&core, &groups);
    let version = ClusterVersion { git: version.git_version, major: version.major, minor: version.minor };
    Ok(Discovered { catalogue, unreachable, version })
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
fn catalogue(core: &APIGroupDiscoveryList, groups: &APIGroupDiscoveryList) -> (Catalogue, Vec<Unreachable>) {
    let mut types = Vec::new();
    let mut unreachable = Vec::new();
    for group in core.items.iter().chain(&groups.items) {
        add_group(group, &mut types, &mut unreachable);
    }
    types.sort_by_key(|kind: &ResourceType| rank(&kind.id));
    (Catalogue::new(types), unreachable)
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

fn add_group(group: &APIGroupDiscovery, types: &mut Vec<ResourceType>, unreachable: &mut Vec<Unreachable>) {
    let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
    let first = types.len();
    for version in &group.versions {
        let number = version.version.clone().unwrap_or_default();
        if version.freshness.as_deref() == Some("Stale") {
            let known = version.resources.iter().filter_map(|one| resource_type(&name, &number, one, true));
            let types = known.collect();
            unreachable.push(Unreachable { group: name.clone(), version: number, types });
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
        assert!(found.unreachable[0].to_string().contains("metrics.k8s.io/v1"), "{:?}", found.unreachable);
        assert_eq!(found.version.git, "v1.34.4");
    }
}
