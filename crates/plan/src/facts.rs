//! Facts that decisions need of a single object and of the cluster. Read by crate `cluster`.

use std::collections::BTreeMap;

/// What is asked of a single object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectFacts<'a> {
    pub name: &'a str,
    pub namespace: Option<&'a str>,
    /// None where they are not known; then no labels are asked for.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// Whether it carries `velero.io/exclude-from-backup=true`.
    pub excluded: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The version of the cluster, as its API server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterVersion {
    pub git: String,
    pub major: String,
    pub minor: String,
}
