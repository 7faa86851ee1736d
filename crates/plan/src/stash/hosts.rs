//! Hosts: the names under which the data of a target is stored in a repository. Takes the target's kind, its alias
//! and the part of the target that a host stands for; gives the name, as in the batch document and upstream. Called
//! by `targets`, `rules` and the validation of invokers.
//!
//! - [`TargetKind::of`]: the kind of a target reference, or why it is none.
//! - [`HostName::of`]: `alias`, `alias-<ordinal>`, `alias-<node>`; without an alias `host-0`, `host-<ordinal>`, `<node>`.
//! - [`ordinals`]: the ordinals of a StatefulSet's pods; [`template_parts`]: the hosts of a restore into claim templates.
//! - [`HostSet::of`]: all hosts that a member may have; [`collisions`]: members that would store under equal names.

mod collisions;
#[cfg(test)]
mod tests;

pub use collisions::{Collision, HostSet, MemberHosts, collisions};

use std::fmt;
use std::ops::Range;

use lifeboat_api::stash::{RestoreTarget, TargetRef};
use serde_json::Value;

/// The prefix of a host without alias, as upstream has it.
const DEFAULT_ALIAS: &str = "host";

/// The name of a host in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(pub String);

impl HostName {
    /// The name of a part of a target. An empty alias counts as none. The default is upstream's, so that data that upstream
    /// stored is found.
    pub fn of(alias: Option<&str>, part: &HostOf) -> Self {
        let alias = alias.filter(|alias| !alias.is_empty());
        Self(match (alias, part) {
            (Some(alias), HostOf::Whole) => alias.to_owned(),
            (Some(alias), HostOf::Ordinal(ordinal)) => format!("{alias}-{ordinal}"),
            (Some(alias), HostOf::Node(node)) => format!("{alias}-{node}"),
            (None, HostOf::Whole) => format!("{DEFAULT_ALIAS}-0"),
            (None, HostOf::Ordinal(ordinal)) => format!("{DEFAULT_ALIAS}-{ordinal}"),
            (None, HostOf::Node(node)) => node.clone(),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The ordinal in the name, if it is the name of a StatefulSet's pod with this alias.
    pub fn ordinal(&self, alias: Option<&str>) -> Option<u32> {
        let alias = alias.filter(|alias| !alias.is_empty()).unwrap_or(DEFAULT_ALIAS);
        ordinal_after(&self.0, alias)
    }
}

/// The ordinal in `<prefix>-<ordinal>`, in the only way in which an ordinal is written.
fn ordinal_after(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?.strip_prefix('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(ordinal)
}

impl From<&str> for HostName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The kinds of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetKind {
    Deployment,
    ReplicaSet,
    ReplicationController,
    DeploymentConfig,
    StatefulSet,
    DaemonSet,
    Claim,
    AppBinding,
}

/// Why a target reference names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    #[error("target.ref.kind {kind:?} cannot be a target; expected one of {expected}", expected = TargetKind::names())]
    Unknown { kind: String },
    #[error("target.ref.apiVersion {api_version:?} does not have kind {kind}; expected {expected:?}")]
    ApiVersion { kind: &'static str, api_version: String, expected: &'static str },
}

impl TargetKind {
    pub const ALL: [Self; 8] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::DeploymentConfig,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Claim,
        Self::AppBinding,
    ];

    /// The kind that a reference names. The API version may be missing, and that of an AppBinding is ignored, because
    /// the sample in the batch document has `apps/v1` there.
    pub fn of(reference: &TargetRef) -> Result<Self, KindError> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == reference.kind);
        let kind = found.ok_or_else(|| KindError::Unknown { kind: reference.kind.clone() })?;
        let claimed = reference.api_version.as_deref().filter(|version| !version.is_empty());
        let Some(claimed) = claimed.filter(|_| kind != Self::AppBinding) else { return Ok(kind) };
        let group = claimed.rsplit_once('/').map_or("", |(group, _)| group);
        if kind.groups().contains(&group) {
            return Ok(kind);
        }
        let (api_version, expected) = (claimed.to_owned(), kind.api_version());
        Err(KindError::ApiVersion { kind: kind.as_str(), api_version, expected })
    }

    /// The kind as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
            Self::DeploymentConfig => "DeploymentConfig",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Claim => "PersistentVolumeClaim",
            Self::AppBinding => "AppBinding",
        }
    }

    /// The version that is read.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet | Self::DaemonSet => "apps/v1",
            Self::ReplicationController | Self::Claim => "v1",
            Self::DeploymentConfig => "apps.openshift.io/v1",
            Self::AppBinding => "appcatalog.appscode.com/v1alpha1",
        }
    }

    /// The groups under which manifests name the kind.
    fn groups(self) -> &'static [&'static str] {
        match self {
            Self::Deployment | Self::ReplicaSet | Self::DaemonSet => &["apps", "extensions"],
            Self::StatefulSet => &["apps"],
            Self::ReplicationController | Self::Claim => &[""],
            Self::DeploymentConfig => &["apps.openshift.io", ""],
            Self::AppBinding => &[],
        }
    }

    /// Whether the target has pods of its own.
    pub fn is_workload(self) -> bool {
        !matches!(self, Self::Claim | Self::AppBinding)
    }

    /// Whether the target has a number of replicas, and can be stopped by setting it to zero.
    pub fn has_scale(self) -> bool {
        self.is_workload() && self != Self::DaemonSet
    }

    fn names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for TargetKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(formatter)
    }
}

/// The part of a target that one host stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostOf {
    /// The whole target: Deployments and similar workloads, claims, AppBindings.
    Whole,
    /// One pod of a StatefulSet.
    Ordinal(u32),
    /// The pod of a DaemonSet on this node.
    Node(String),
}

/// The number of replicas of a workload; one if the field is missing, as in the API server.
pub fn replicas(workload: &Value) -> u32 {
    let replicas = workload.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    u32::try_from(replicas).unwrap_or(u32::MAX)
}

/// The ordinals of this many pods of a StatefulSet: from `spec.ordinals.start`.
pub fn ordinals(stateful_set: &Value, replicas: u32) -> Range<u32> {
    let start = stateful_set.pointer("/spec/ordinals/start").and_then(Value::as_u64).unwrap_or_default();
    let start = u32::try_from(start).unwrap_or_default();
    start..start.saturating_add(replicas)
}

/// The hosts of a restore into `volumeClaimTemplates`: one for each replica, or a single one if `replicas` is not
/// set, as in upstream.
pub fn template_parts(target: &RestoreTarget) -> Vec<HostOf> {
    match target.replicas {
        None => vec![HostOf::Whole],
        Some(replicas) => (0..u32::try_from(replicas).unwrap_or_default()).map(HostOf::Ordinal).collect(),
    }
}
