//! Objects that the server itself made or that hold its keys: the Secrets of storage, repositories and links,
//! and the parts of movers. They are neither backed up nor restored, because a reader of a backup could open
//! everything with them, and a restored one would replace the key of this cluster. Given by the API's caller,
//! which knows the names; used by the filters of backups and restores.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::catalogue::{Catalogue, GroupResource};

use crate::facts::ObjectFacts;
use crate::transfer::exposed::MADE_FOR;
use crate::transfer::movers::job;

/// Types of the parts of movers.
const PARTS: [(&str, &str); 4] =
    [("", "secrets"), ("batch", "jobs"), ("", "pods"), ("", "persistentvolumeclaims")];

/// Where the server keeps its own objects, and which Secrets are its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnObjects {
    /// The server's namespace.
    pub server: String,
    /// The movers' namespace.
    pub movers: String,
    /// The names of the Secrets with the server's keys, in its namespace.
    pub secrets: BTreeSet<String>,
}

impl OwnObjects {
    /// Whether an object is a key of the server or a part of a mover.
    pub fn has(&self, resource: &GroupResource, object: &ObjectFacts<'_>) -> bool {
        let Some(namespace) = object.namespace else { return false };
        let (group, plural) = (resource.group.as_str(), resource.resource.as_str());
        if !PARTS.contains(&(group, plural)) {
            return false;
        }
        let is_key = namespace == self.server && plural == "secrets" && self.secrets.contains(object.name);
        is_key || namespace == self.movers || object.labels.is_some_and(is_of_a_mover)
    }
}

/// Whether an object was made for a mover, of whatever server and in whatever namespace.
fn is_of_a_mover(labels: &BTreeMap<String, String>) -> bool {
    labels.contains_key(MADE_FOR) || job::is_labelled(labels)
}

/// The server's own objects, unless namespace and type are asked for by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutOwn {
    own: OwnObjects,
    /// Names in the list of namespaces; patterns name nothing.
    namespaces: BTreeSet<String>,
    /// Types in the lists of types; patterns name nothing.
    types: BTreeSet<GroupResource>,
}

impl LeftOutOwn {
    /// The namespaces of the server itself.
    pub fn homes(&self) -> [&str; 2] {
        [&self.own.server, &self.own.movers]
    }

    /// `namespaces`, `types`: what is asked for, as a user lists it.
    pub fn new<'a>(
        own: OwnObjects,
        namespaces: &[String],
        types: impl IntoIterator<Item = &'a String>,
        catalogue: &Catalogue,
    ) -> Self {
        let types = types.into_iter().flat_map(|name| catalogue.resolve(name));
        Self {
            own,
            namespaces: namespaces.iter().cloned().collect(),
            types: types.map(|known| known.id.clone()).collect(),
        }
    }

    /// Whether an object is left out.
    pub fn leaves(&self, resource: &GroupResource, object: &ObjectFacts<'_>) -> bool {
        self.own.has(resource, object) && !self.names(resource, object.namespace)
    }

    /// Whether an object is not restored, from its own namespace into `target`.
    pub fn leaves_between(
        &self,
        resource: &GroupResource,
        object: &ObjectFacts<'_>,
        target: Option<&str>,
    ) -> bool {
        let moved = ObjectFacts { namespace: target, ..*object };
        (self.own.has(resource, object) || self.own.has(resource, &moved))
            && !self.names(resource, object.namespace)
    }

    fn names(&self, resource: &GroupResource, namespace: Option<&str>) -> bool {
        namespace.is_some_and(|namespace| self.namespaces.contains(namespace))
            && self.types.contains(resource)
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::catalogue::ResourceType;
    use rstest::rstest;

    use super::*;

    fn own() -> OwnObjects {
        OwnObjects {
            server: "lifeboat".into(),
            movers: "lifeboat-movers".into(),
            secrets: BTreeSet::from(["cloud-credentials".into()]),
        }
    }

    #[rstest]
    #[case::a_key("secrets", "lifeboat", "cloud-credentials", None, true)]
    #[case::a_key_under_another_type("configmaps", "lifeboat", "cloud-credentials", None, false)]
    #[case::the_same_name_elsewhere("secrets", "shop", "cloud-credentials", None, false)]
    #[case::a_users_secret("secrets", "lifeboat", "tls", None, false)]
    #[case::a_schedule("schedules.example.com", "lifeboat", "cloud-credentials", None, false)]
    #[case::a_movers_task("secrets", "lifeboat-movers", "mover-u", None, true)]
    #[case::a_movers_job("jobs.batch", "lifeboat-movers", "mover-u", None, true)]
    #[case::a_movers_claim("persistentvolumeclaims", "lifeboat-movers", "lifeboat-u", None, true)]
    #[case::a_policy_of_the_movers(
        "networkpolicies.networking.k8s.io",
        "lifeboat-movers",
        "lifeboat-mover",
        None,
        false
    )]
    #[case::a_mover_of_a_tenant("secrets", "shop", "mover-u", Some(("app.kubernetes.io/name", "lifeboat-mover")), true)]
    #[case::a_claim_of_another_server("persistentvolumeclaims", "m", "lifeboat-u", Some(("lifeboat.io/data-movement", "u")), true)]
    #[case::a_users_claim("persistentvolumeclaims", "shop", "data", Some(("app.kubernetes.io/name", "shop")), false)]
    fn keys_and_parts_of_movers_are_the_servers_own(
        #[case] resource: &str,
        #[case] namespace: &str,
        #[case] name: &str,
        #[case] label: Option<(&str, &str)>,
        #[case] expected: bool,
    ) {
        let mut labels = BTreeMap::from([("lifeboat.io/task".to_owned(), "u".to_owned())]);
        labels.extend(label.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let labels = Some(&labels).filter(|_| label.is_some());
        let object = ObjectFacts { name, namespace: Some(namespace), labels, deleting: false };
        assert_eq!(own().has(&GroupResource::parse(resource), &object), expected);
    }

    #[rstest]
    #[case::both_by_name(&["lifeboat"], &["secrets"], false)]
    #[case::a_pattern_for_the_namespace(&["life*"], &["secrets"], true)]
    #[case::no_type(&["lifeboat"], &[], true)]
    #[case::all_types(&["lifeboat"], &["*"], true)]
    #[case::another_namespace(&["shop"], &["secrets"], true)]
    fn keys_come_only_where_namespace_and_type_are_named(
        #[case] namespaces: &[&str],
        #[case] types: &[&str],
        #[case] left_out: bool,
    ) {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let secrets = ResourceType { id: GroupResource::new("", "secrets"), ..ResourceType::default() };
        let own =
            LeftOutOwn::new(own(), &list(namespaces), &list(types), &Catalogue::new(vec![secrets.clone()]));
        let key =
            ObjectFacts { name: "cloud-credentials", namespace: Some("lifeboat"), ..ObjectFacts::default() };
        assert_eq!(own.leaves(&secrets.id, &key), left_out);
        let moved = ObjectFacts { namespace: Some("old"), ..key };
        assert!(own.leaves_between(&secrets.id, &moved, Some("lifeboat")));
    }
}
