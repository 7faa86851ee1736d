//! Resource policies: the YAML in a ConfigMap that a Backup references. Takes the text; gives types to include and
//! exclude, and the action for each volume: that of the first policy whose conditions all match. Unknown fields are
//! an error, as upstream.

mod filters;
pub mod items;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::quantity::Quantity;
pub use filters::{NamespacedRule, ResourceRule};
use filters::{WireCluster, WireNamespaced};
pub use volume::VolumeFacts;

/// Whether a text is a valid Kubernetes quantity.
pub fn is_quantity(text: &str) -> bool {
    Quantity::parse(text).is_some()
}

/// Why a text is not a valid policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("the text cannot be read as resource policies: {0}")]
    Yaml(String),
    #[error("version is {0:?}; only v1 is supported")]
    Version(String),
    #[error("volumePolicies[{at}].action.type is {action:?}; write skip, fs-backup, snapshot or custom")]
    Action { at: usize, action: String },
    #[error(
        "volumePolicies[{at}].conditions.capacity is {text:?}; write it like \"1Gi,10Gi\", \"1Gi,\" or \",10Gi\""
    )]
    Capacity { at: usize, text: String },
    #[error(
        "volumePolicies[{at}].conditions.csi.volumeAttributes is set without csi.driver, whose attributes they are; set csi.driver"
    )]
    AttributesWithoutDriver { at: usize },
    #[error("includeExcludePolicy: '*' cannot be used in its lists")]
    Star,
    #[error("includeExcludePolicy: {0:?} is both included and excluded")]
    Both(String),
    #[error("{at}: {problem}")]
    Filter { at: String, problem: String },
    #[error("the ConfigMap must have exactly one key with the policies; it has {0}")]
    Keys(usize),
}

/// How a volume's data is backed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeAction {
    Skip,
    FsBackup,
    Snapshot,
    /// A plugin handles it.
    Custom,
}

/// Types to include and exclude in addition to the spec's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IncludeExcludePolicy {
    pub included_cluster_scoped_resources: Vec<String>,
    pub excluded_cluster_scoped_resources: Vec<String>,
    pub included_namespace_scoped_resources: Vec<String>,
    pub excluded_namespace_scoped_resources: Vec<String>,
}

/// Validated policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    pub include_exclude: Option<IncludeExcludePolicy>,
    /// The filters for cluster-scoped types.
    pub cluster_filters: Vec<ResourceRule>,
    /// The filters for single namespaces.
    pub namespaced_filters: Vec<NamespacedRule>,
    volumes: Vec<(Conditions, VolumeAction)>,
}

impl Policies {
    /// Parses the data of the ConfigMap.
    pub fn from_data(data: &BTreeMap<String, String>) -> Result<Self, PolicyError> {
        match data.values().next() {
            Some(text) if data.len() == 1 => Self::parse(text),
            _ => Err(PolicyError::Keys(data.len())),
        }
    }

    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let wire: Wire =
            serde_saphyr::from_str(text).map_err(|error| PolicyError::Yaml(error.to_string()))?;
        if wire.version != "v1" {
            return Err(PolicyError::Version(wire.version));
        }
        if let Some(policy) = &wire.include_exclude_policy {
            check(&policy.included_cluster_scoped_resources, &policy.excluded_cluster_scoped_resources)?;
            check(&policy.included_namespace_scoped_resources, &policy.excluded_namespace_scoped_resources)?;
        }
        let volumes = wire.volume_policies.into_iter().enumerate().map(|(at, policy)| policy.compile(at));
        let cluster = wire.cluster_scoped_filter_policy.map(WireCluster::compile).transpose()?;
        Ok(Self {
            include_exclude: wire.include_exclude_policy,
            cluster_filters: cluster.unwrap_or_default(),
            namespaced_filters: filters::namespaced(wire.namespaced_filter_policies)?,
            volumes: volumes.collect::<Result<_, _>>()?,
        })
    }

    /// Whether it selects types, which cannot be combined with the spec's older type lists.
    pub fn chooses_types(&self) -> bool {
        self.include_exclude.is_some()
            || !self.cluster_filters.is_empty()
            || !self.namespaced_filters.is_empty()
    }

    /// The action of the first policy that matches a volume.
    pub fn action(&self, volume: &VolumeFacts) -> Option<VolumeAction> {
        self.volumes.iter().find(|(conditions, _)| conditions.hold(volume)).map(|(_, action)| *action)
    }
}

fn check(included: &[String], excluded: &[String]) -> Result<(), PolicyError> {
    if included.iter().chain(excluded).any(|name| name == "*") {
        return Err(PolicyError::Star);
    }
    match excluded.iter().find(|name| included.contains(name)) {
        Some(name) => Err(PolicyError::Both(name.clone())),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    version: String,
    #[serde(default)]
    volume_policies: Vec<WirePolicy>,
    #[serde(default)]
    include_exclude_policy: Option<IncludeExcludePolicy>,
    #[serde(default)]
    cluster_scoped_filter_policy: Option<WireCluster>,
    #[serde(default)]
    namespaced_filter_policies: Vec<WireNamespaced>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WirePolicy {
    #[serde(default)]
    conditions: WireConditions,
    action: WireAction,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireAction {
    r#type: String,
    /// Parameters for plugins; parsed only so that they are accepted.
    #[serde(default, rename = "parameters")]
    _parameters: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireConditions {
    capacity: Option<String>,
    storage_class: Vec<String>,
    nfs: Option<Nfs>,
    csi: Option<Csi>,
    volume_types: Vec<String>,
    pvc_labels: BTreeMap<String, String>,
    pvc_phase: Vec<String>,
    pvc_volume_mode: String,
    pvc_access_modes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Nfs {
    server: String,
    path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Csi {
    driver: String,
    volume_attributes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Conditions {
    /// Lower and upper bound; zero means unbounded.
    capacity: (Quantity, Quantity),
    storage_class: Vec<String>,
    nfs: Option<Nfs>,
    csi: Option<Csi>,
    volume_types: Vec<String>,
    pvc_labels: BTreeMap<String, String>,
    pvc_phase: Vec<String>,
    pvc_volume_mode: String,
    pvc_access_modes: Vec<String>,
}

impl WirePolicy {
    fn compile(self, at: usize) -> Result<(Conditions, VolumeAction), PolicyError> {
        let action = match self.action.r#type.as_str() {
            "skip" => VolumeAction::Skip,
            "fs-backup" => VolumeAction::FsBackup,
            "snapshot" => VolumeAction::Snapshot,
            "custom" => VolumeAction::Custom,
            other => return Err(PolicyError::Action { at, action: other.to_owned() }),
        };
        let given = self.conditions;
        let text = given.capacity.clone().unwrap_or_default();
        let capacity = capacity(&text).ok_or(PolicyError::Capacity { at, text })?;
        if given.csi.as_ref().is_some_and(|csi| csi.driver.is_empty() && !csi.volume_attributes.is_empty()) {
            return Err(PolicyError::AttributesWithoutDriver { at });
        }
        let conditions = Conditions {
            capacity,
            storage_class: given.storage_class,
            nfs: given.nfs,
            csi: given.csi,
            volume_types: given.volume_types,
            pvc_labels: given.pvc_labels,
            pvc_phase: given.pvc_phase,
            pvc_volume_mode: given.pvc_volume_mode,
            pvc_access_modes: given.pvc_access_modes,
        };
        Ok((conditions, action))
    }
}

/// Parses `low,high`; either may be missing.
fn capacity(text: &str) -> Option<(Quantity, Quantity)> {
    if text.is_empty() {
        return Some((Quantity::ZERO, Quantity::ZERO));
    }
    let (low, high) = text.split_once(',')?;
    let bound = |text: &str| match text.trim() {
        "" => Some(Quantity::ZERO),
        given => Quantity::parse(given),
    };
    Some((bound(low)?, bound(high)?))
}

impl Conditions {
    fn hold(&self, volume: &VolumeFacts) -> bool {
        let listed = |list: &[String], value: &str| list.is_empty() || list.iter().any(|one| one == value);
        let claim = &volume.claim;
        let sorted = |modes: &[String]| {
            let mut modes = modes.to_vec();
            modes.sort();
            modes
        };
        self.capacity_holds(volume.capacity)
            && listed(&self.storage_class, &volume.storage_class)
            && self.nfs.as_ref().is_none_or(|nfs| nfs.holds(volume))
            && self.csi.as_ref().is_none_or(|csi| csi.holds(volume))
            && listed(&self.volume_types, &volume.kind)
            && self.pvc_labels.iter().all(|(key, value)| claim.labels.get(key) == Some(value))
            && listed(&self.pvc_phase, &claim.phase)
            && (self.pvc_volume_mode.is_empty() || self.pvc_volume_mode == claim.volume_mode)
            && (self.pvc_access_modes.is_empty()
                || sorted(&self.pvc_access_modes) == sorted(&claim.access_modes))
    }

    fn capacity_holds(&self, size: Quantity) -> bool {
        let (low, high) = self.capacity;
        low <= size && (high == Quantity::ZERO || size <= high)
    }
}

impl Nfs {
    fn holds(&self, volume: &VolumeFacts) -> bool {
        let same = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        volume.nfs.as_ref().is_some_and(|(server, path)| same(&self.server, server) && same(&self.path, path))
    }
}

impl Csi {
    fn holds(&self, volume: &VolumeFacts) -> bool {
        volume.csi.as_ref().is_some_and(|(driver, attributes)| {
            self.driver.is_empty()
                || self.driver == *driver
                    && self.volume_attributes.iter().all(|(key, value)| attributes.get(key) == Some(value))
        })
    }
}
