//! Members that would store their data under equal host names. CEL only detects equal aliases; host names are also
//! equal for two members without alias, for a StatefulSet `app` and a Deployment `app-1`, and because of names of
//! nodes.

use std::collections::BTreeSet;
use std::fmt;

use super::{DEFAULT_ALIAS, HostName, HostOf, TargetKind, ordinal_after};

/// All hosts that a member may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSet {
    One(HostName),
    /// `<prefix>-<ordinal>` for every ordinal, because a StatefulSet may be scaled at any time.
    Ordinals {
        prefix: String,
    },
    /// The hosts of a DaemonSet on the nodes that it has pods on now; `alias` is the part before the node's name.
    Nodes {
        alias: Option<String>,
        nodes: BTreeSet<String>,
    },
}

impl HostSet {
    /// The hosts of a member. `kind`: None for a task without target. `nodes`: of a DaemonSet, the nodes of its pods.
    pub fn of(kind: Option<TargetKind>, alias: Option<&str>, nodes: &[String]) -> Self {
        let alias = alias.filter(|alias| !alias.is_empty());
        match kind {
            Some(TargetKind::StatefulSet) => {
                Self::Ordinals { prefix: alias.unwrap_or(DEFAULT_ALIAS).to_owned() }
            }
            Some(TargetKind::DaemonSet) => {
                Self::Nodes { alias: alias.map(str::to_owned), nodes: nodes.iter().cloned().collect() }
            }
            _ => Self::One(HostName::of(alias, &HostOf::Whole)),
        }
    }

    /// Whether a host of this name is one of the member's.
    pub fn contains(&self, host: &HostName) -> bool {
        match self {
            Self::One(one) => one == host,
            Self::Ordinals { prefix } => ordinal_after(&host.0, prefix).is_some(),
            Self::Nodes { .. } => self.listed().contains(host),
        }
    }

    /// A host that both members have, or a pattern that stands for such hosts.
    pub fn overlap(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (Self::Ordinals { prefix }, Self::Ordinals { prefix: same }) => {
                (prefix == same).then(|| format!("{prefix}-<ordinal>"))
            }
            // Two DaemonSets with one alias collide on every node that runs both; which nodes these are changes with the cluster.
            (Self::Nodes { alias, .. }, Self::Nodes { alias: same, .. }) if alias == same => {
                Some(alias.as_ref().map_or("<node>".to_owned(), |alias| format!("{alias}-<node>")))
            }
            (Self::Ordinals { .. }, listed) => first_in(listed, self),
            (listed, pattern) => first_in(listed, pattern),
        }
    }

    /// The hosts that can be listed; none for a pattern.
    fn listed(&self) -> Vec<HostName> {
        match self {
            Self::One(host) => vec![host.clone()],
            Self::Ordinals { .. } => Vec::new(),
            Self::Nodes { alias, nodes } => {
                let part = |node: &String| HostOf::Node(node.clone());
                nodes.iter().map(|node| HostName::of(alias.as_deref(), &part(node))).collect()
            }
        }
    }
}

fn first_in(listed: &HostSet, hosts: &HostSet) -> Option<String> {
    listed.listed().into_iter().find(|host| hosts.contains(host)).map(|host| host.0)
}

/// A member of an invoker, or a whole invoker, and its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberHosts {
    /// How messages name it, for example `members[0] (StatefulSet app)`.
    pub member: String,
    pub hosts: HostSet,
}

/// Two members with an equal host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The host, or a pattern such as `app-<ordinal>`.
    pub host: String,
    pub first: String,
    pub second: String,
}

impl fmt::Display for Collision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, first, second } = self;
        write!(
            formatter,
            "{first} and {second} would both store their data as host {host:?}; give one of them another target.alias"
        )
    }
}

/// All pairs of members that have an equal host, in the order of the members.
pub fn collisions(members: &[MemberHosts]) -> Vec<Collision> {
    let pairs = members
        .iter()
        .enumerate()
        .flat_map(|(place, first)| members.iter().skip(place + 1).map(move |second| (first, second)));
    let colliding = pairs.filter_map(|(first, second)| {
        let host = first.hosts.overlap(&second.hosts)?;
        Some(Collision { host, first: first.member.clone(), second: second.member.clone() })
    });
    colliding.collect()
}
