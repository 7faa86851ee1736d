//! Hosts: the names under which the data of a target is stored in a repository. Takes the target's kind, its alias and which part of
//! the target a host stands for; gives the name as the batch document and upstream have it.

use std::fmt;

/// The name of a host in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(pub String);

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

/// The part of a target that one host stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostOf {
    /// The whole target: Deployments and their like, claims, AppBindings.
    Whole,
    /// One pod of a StatefulSet.
    Ordinal(u32),
    /// The pod of a DaemonSet on this node.
    Node(String),
}
