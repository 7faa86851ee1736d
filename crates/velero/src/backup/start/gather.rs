//! Reads everything that the start of a Backup depends on: the types that the cluster serves, its namespaces, the
//! location, the volume policies, the snapshot locations.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use lifeboat_api::velero::{BackupSpec, BackupStorageLocation, VolumeSnapshotLocation, names};
use lifeboat_cluster::discovery::{Discovered, discover};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_plan::own::OwnObjects;
use lifeboat_plan::policy::Policies;
use lifeboat_plan::velero::backup::defaults::Surroundings;
use lifeboat_plan::velero::backup::validate::{LocationFacts, PoliciesProblem, SnapshotLocation};
use serde_json::Value;

use crate::context::Context;
use crate::own;

/// Everything that was read.
pub(super) struct Gathered {
    pub(super) discovered: Discovered,
    pub(super) namespaces: Vec<String>,
    pub(super) around: Surroundings,
    pub(super) snapshot_locations: Vec<SnapshotLocation>,
    pub(super) policies: Option<Result<Policies, PoliciesProblem>>,
    pub(super) own: OwnObjects,
    locations: Vec<DynamicObject>,
}

impl Gathered {
    /// The location with this name.
    pub(super) fn location(&self, name: &str) -> Option<LocationFacts> {
        let found = self.locations.iter().find(|location| location.name_any() == name)?;
        let text = |pointer: &str| found.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Some(LocationFacts {
            read_only: text("/spec/accessMode") == "ReadOnly",
            available: text("/status/phase") == "Available",
        })
    }
}

pub(super) async fn gather(context: &Context, spec: &BackupSpec) -> Result<Gathered, ApiError> {
    let discovered = discover(&context.client).await?;
    let api: Api<Namespace> = Api::all(context.client.clone());
    let namespaces = api.list_metadata(&ListParams::default()).await.attempt("list namespaces")?;
    let excluded = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(names::EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true")
    };
    let excluded_namespaces =
        namespaces.iter().filter(|one| excluded(one.labels())).map(ResourceExt::name_any).collect();
    let locations = own::locations_of::<BackupStorageLocation>(context).await?;
    let is_default =
        |location: &&DynamicObject| location.data.pointer("/spec/default") == Some(&Value::Bool(true));
    let around = Surroundings {
        default_location: locations.iter().find(is_default).map(ResourceExt::name_any),
        excluded_namespaces,
        version: discovered.version.clone(),
    };
    let snapshot_locations = own::locations_of::<VolumeSnapshotLocation>(context).await?;
    let own = own::of(context, locations.iter().chain(&snapshot_locations));
    let snapshot_locations = snapshot_locations.iter().map(|location| SnapshotLocation {
        name: location.name_any(),
        provider: location
            .data
            .pointer("/spec/provider")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    });
    Ok(Gathered {
        namespaces: namespaces.iter().map(ResourceExt::name_any).collect(),
        around,
        snapshot_locations: snapshot_locations.collect(),
        policies: policies(context, spec).await?,
        own,
        locations,
        discovered,
    })
}

async fn policies(
    context: &Context,
    spec: &BackupSpec,
) -> Result<Option<Result<Policies, PoliciesProblem>>, ApiError> {
    let Some(reference) = &spec.resource_policy else { return Ok(None) };
    if !reference.kind.eq_ignore_ascii_case("configmap") {
        return Ok(Some(Err(PoliciesProblem::Kind(reference.kind.clone()))));
    }
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &context.namespace);
    let name = &reference.name;
    let found = api.get_opt(name).await.attempt(format!("read ConfigMap {name}"))?;
    Ok(Some(match found {
        None => Err(PoliciesProblem::Missing(name.clone())),
        Some(map) => Policies::from_data(&map.data.unwrap_or_default())
            .map_err(|problem| PoliciesProblem::Invalid { name: name.clone(), problem }),
    }))
}
