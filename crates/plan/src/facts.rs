//! Facts about single objects and about the cluster that decisions depend on. Read by crate `cluster`.

use std::collections::BTreeMap;

/// The parts of an object that filters look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectFacts<'a> {
    pub name: &'a str,
    pub namespace: Option<&'a str>,
    /// None if the labels were not read; label filters are then skipped.
    pub labels: Option<&'a BTreeMap<String, String>>,
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
