//! The resource types that a cluster serves, under every name that users give them. Made from discovery by crate
//! `cluster`; used by filters, ordered resources, actions and restores.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource type without its version: `pods`, `deployments.apps`. Archives and priorities name types in this form.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// Plural, lower case.
    pub resource: String,
}

impl GroupResource {
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Reads `resource` or `resource.group`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((resource, group)) => Self::new(group, resource),
            None => Self::new("", text),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// One object of a cluster or a backup, without its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemId {
    pub resource: GroupResource,
    /// None for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
}

impl ItemId {
    pub fn namespaced(
        resource: GroupResource,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { resource, namespace: Some(namespace.into()), name: name.into() }
    }

    pub fn cluster(resource: GroupResource, name: impl Into<String>) -> Self {
        Self { resource, namespace: None, name: name.into() }
    }

    /// `namespace/name`, or just the name of a cluster-scoped object.
    pub fn path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource, self.path())
    }
}

/// One served version of a resource type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceType {
    pub id: GroupResource,
    pub version: String,
    pub kind: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    /// Whether this is the version that the API server prefers for the group.
    pub preferred: bool,
}

impl ResourceType {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.id.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.id.group, self.version)
        }
    }

    /// Whether objects of this type can be listed, read, created and deleted, which a backup requires.
    pub fn can_be_backed_up(&self) -> bool {
        ["list", "create", "get", "delete"].iter().all(|verb| self.verbs.iter().any(|has| has == verb))
    }

    /// Whether `name` (any case) is one of this type's names: plural, singular, kind or short name, alone or followed
    /// by `.group` or `.version.group`.
    fn is_called(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let group = self.id.group.to_lowercase();
        let names = [&self.id.resource, &self.singular, &self.kind].into_iter().chain(&self.short_names);
        names.map(|own| own.to_lowercase()).filter(|own| !own.is_empty()).any(|own| {
            name == own
                || (!group.is_empty() && name == format!("{own}.{group}"))
                || (!group.is_empty() && name == format!("{own}.{}.{group}", self.version))
        })
    }
}

/// All types of a cluster, in the order in which they are collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    types: Vec<ResourceType>,
    by_id: BTreeMap<GroupResource, usize>,
}

impl Catalogue {
    /// `types` in the order of discovery; several versions of a type may be among them.
    pub fn new(types: Vec<ResourceType>) -> Self {
        let mut by_id = BTreeMap::new();
        for (place, known) in types.iter().enumerate() {
            if known.preferred {
                by_id.insert(known.id.clone(), place);
            }
        }
        for (place, known) in types.iter().enumerate() {
            by_id.entry(known.id.clone()).or_insert(place);
        }
        Self { types, by_id }
    }

    /// Every version of every type.
    pub fn all(&self) -> &[ResourceType] {
        &self.types
    }

    /// Each type once, in its preferred version, in the order of discovery.
    pub fn types(&self) -> impl Iterator<Item = &ResourceType> {
        self.types
            .iter()
            .enumerate()
            .filter(|(place, known)| self.by_id.get(&known.id) == Some(place))
            .map(|(_, known)| known)
    }

    /// The preferred version of a type.
    pub fn get(&self, id: &GroupResource) -> Option<&ResourceType> {
        self.by_id.get(id).map(|place| &self.types[*place])
    }

    /// One version of a type.
    pub fn version(&self, id: &GroupResource, version: &str) -> Option<&ResourceType> {
        self.types.iter().find(|known| known.id == *id && known.version == version)
    }

    /// The type of an object, by the object's `apiVersion` and `kind`.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&ResourceType> {
        self.types.iter().find(|known| known.kind == kind && known.api_version() == api_version)
    }

    /// The types that a user means by a name. A plural name alone may be served by several groups (`events`); it
    /// means all of them, as in Velero. A kind or short name of several groups means the first, as in kubectl.
    pub fn resolve(&self, name: &str) -> Vec<&ResourceType> {
        let plural: Vec<_> =
            self.types().filter(|known| known.id.resource.eq_ignore_ascii_case(name)).collect();
        if !plural.is_empty() {
            return plural;
        }
        self.types().find(|known| known.is_called(name)).into_iter().collect()
    }
}

/// The longest name of any object in Kubernetes.
const LONGEST_NAME: usize = 253;

/// Whether the API server can accept a text as a name: a single path segment that does not lead to another path.
pub fn is_path_segment(text: &str) -> bool {
    let bad = |c: char| c == '/' || c == '%' || c.is_control() || c.is_whitespace();
    !text.is_empty() && text.len() <= LONGEST_NAME && text != "." && text != ".." && !text.contains(bad)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn served(group: &str, resource: &str, kind: &str, singular: &str, short: &[&str]) -> ResourceType {
        ResourceType {
            id: GroupResource::new(group, resource),
            version: "v1".into(),
            kind: kind.into(),
            singular: singular.into(),
            short_names: short.iter().map(|&name| name.into()).collect(),
            namespaced: true,
            verbs: ["list", "create", "get", "delete"].map(Into::into).into(),
            preferred: true,
        }
    }

    fn cluster() -> Catalogue {
        Catalogue::new(vec![
            served("", "pods", "Pod", "pod", &["po"]),
            served("", "events", "Event", "event", &["ev"]),
            served("apps", "deployments", "Deployment", "deployment", &["deploy"]),
            served("events.k8s.io", "events", "Event", "event", &["ev"]),
        ])
    }

    #[rstest]
    #[case::plural("pods", &["pods"])]
    #[case::singular("pod", &["pods"])]
    #[case::short("po", &["pods"])]
    #[case::kind("Pod", &["pods"])]
    #[case::any_case("PODS", &["pods"])]
    #[case::with_group("deployments.apps", &["deployments.apps"])]
    #[case::kind_with_version_and_group("Deployment.v1.apps", &["deployments.apps"])]
    #[case::short_with_group("deploy.apps", &["deployments.apps"])]
    #[case::plural_of_two_groups("events", &["events", "events.events.k8s.io"])]
    #[case::short_of_two_groups("ev", &["events"])]
    #[case::unknown("widgets", &[])]
    #[case::wrong_group("pods.apps", &[])]
    #[case::empty("", &[])]
    fn a_type_is_found_under_each_of_its_names(#[case] name: &str, #[case] expected: &[&str]) {
        let catalogue = cluster();
        let found: Vec<_> = catalogue.resolve(name).iter().map(|known| known.id.to_string()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_preferred_version_stands_for_its_type() {
        let mut old = served("apps", "deployments", "Deployment", "deployment", &[]);
        old.version = "v1beta1".into();
        old.preferred = false;
        let catalogue =
            Catalogue::new(vec![old, served("apps", "deployments", "Deployment", "deployment", &[])]);
        let id = GroupResource::parse("deployments.apps");
        assert_eq!(catalogue.get(&id).unwrap().version, "v1");
        assert_eq!(catalogue.types().count(), 1);
        assert_eq!(catalogue.version(&id, "v1beta1").unwrap().version, "v1beta1");
    }

    #[rstest]
    #[case::plain("web-0", true)]
    #[case::with_colons("system:node", true)]
    #[case::dots_within("a..b", true)]
    #[case::empty("", false)]
    #[case::parent("..", false)]
    #[case::path("a/../b", false)]
    #[case::escaped("a%2fb", false)]
    #[case::space("a b", false)]
    fn a_name_is_one_segment_of_a_path(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_path_segment(name), expected);
    }
}
