//! From what the index of a backup knows of its items to what the scheduler asks for: for each item those that keep it
//! back. Owners stay behind what they own, however far down; owned items, pods with claims, objects of a definition and
//! objects in a namespace stay behind what they need.

use std::collections::{BTreeSet, HashMap};

use super::scheduler::Entry;
use crate::catalogue::ItemId;

/// One item, as the index of the backup has it.
#[derive(Clone, Copy, Debug)]
pub struct Related<'a> {
    pub id: &'a ItemId,
    pub barrier: usize,
    pub uid: Option<&'a str>,
    /// The UIDs of its owners.
    pub owners: &'a [String],
    /// The claims that a pod mounts, by name.
    pub claims: &'a [String],
}

/// More generations of owners than this are not followed: nothing real has them.
const GENERATIONS: usize = 16;

/// One entry for each item, in their order.
pub fn entries(items: &[Related<'_>]) -> Vec<Entry> {
    let by_uid: HashMap<&str, usize> =
        items.iter().enumerate().filter_map(|(place, item)| Some((item.uid?, place))).collect();
    let by_name = Names::new(items);
    let mut after: Vec<BTreeSet<usize>> = items.iter().map(|item| by_name.needs(item)).collect();
    for (place, item) in items.iter().enumerate() {
        let owners: Vec<usize> = owners(item, &by_uid);
        after[place].extend(owners.iter().copied());
        for ancestor in ancestors(owners, items, &by_uid) {
            after[ancestor].insert(place);
        }
    }
    items
        .iter()
        .zip(after)
        .enumerate()
        .map(|(place, (item, mut after))| {
            after.remove(&place);
            Entry { barrier: item.barrier, after: after.into_iter().collect() }
        })
        .collect()
}

fn owners(item: &Related<'_>, by_uid: &HashMap<&str, usize>) -> Vec<usize> {
    item.owners.iter().filter_map(|uid| by_uid.get(uid.as_str()).copied()).collect()
}

fn ancestors(
    mut generation: Vec<usize>,
    items: &[Related<'_>],
    by_uid: &HashMap<&str, usize>,
) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for _ in 0..GENERATIONS {
        generation.retain(|owner| found.insert(*owner));
        if generation.is_empty() {
            break;
        }
        generation = generation.iter().flat_map(|owner| owners(&items[*owner], by_uid)).collect();
    }
    found
}

/// The items that others need, by name.
#[derive(Default)]
struct Names<'a> {
    namespaces: HashMap<&'a str, usize>,
    definitions: HashMap<&'a str, usize>,
    claims: HashMap<(&'a str, &'a str), usize>,
}

impl<'a> Names<'a> {
    fn new(items: &[Related<'a>]) -> Self {
        let mut names = Self::default();
        for (place, item) in items.iter().enumerate() {
            let ItemId { resource, namespace, name } = item.id;
            match (resource.group.as_str(), resource.resource.as_str(), namespace) {
                ("", "namespaces", None) => {
                    names.namespaces.insert(name, place);
                }
                ("apiextensions.k8s.io", "customresourcedefinitions", None) => {
                    names.definitions.insert(name, place);
                }
                ("", "persistentvolumeclaims", Some(namespace)) => {
                    names.claims.insert((namespace, name), place);
                }
                _ => {}
            }
        }
        names
    }

    fn needs(&self, item: &Related<'_>) -> BTreeSet<usize> {
        let namespace = item.id.namespace.as_deref();
        let home = namespace.and_then(|namespace| self.namespaces.get(namespace));
        let definition = (!item.id.resource.group.is_empty() && !self.definitions.is_empty())
            .then(|| self.definitions.get(item.id.resource.to_string().as_str()))
            .flatten();
        let claims = item
            .claims
            .iter()
            .filter_map(|claim| self.claims.get(&(namespace.unwrap_or_default(), claim.as_str())));
        home.into_iter().chain(definition).chain(claims).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::GroupResource;

    fn id(resource: &str, namespace: Option<&str>, name: &str) -> ItemId {
        ItemId {
            resource: GroupResource::parse(resource),
            namespace: namespace.map(Into::into),
            name: name.into(),
        }
    }

    #[test]
    fn items_stay_behind_what_they_need_and_owners_behind_all_their_descendants() {
        let ids = [
            id("namespaces", None, "shop"),
            id("customresourcedefinitions.apiextensions.k8s.io", None, "widgets.example.com"),
            id("persistentvolumeclaims", Some("shop"), "data"),
            id("pods", Some("shop"), "web-1"),
            id("replicasets.apps", Some("shop"), "web"),
            id("deployments.apps", Some("shop"), "web"),
            id("widgets.example.com", Some("other"), "w"),
        ];
        let (claims, by_set, by_deployment) = (
            vec!["data".to_owned()],
            vec!["rs".to_owned()],
            vec!["deploy".to_owned(), "elsewhere".to_owned()],
        );
        let mut items: Vec<Related<'_>> =
            ids.iter().map(|id| Related { id, barrier: 0, uid: None, owners: &[], claims: &[] }).collect();
        items[3].claims = &claims;
        items[3].owners = &by_set;
        items[4].uid = Some("rs");
        items[4].owners = &by_deployment;
        items[5].uid = Some("deploy");
        let after: Vec<Vec<usize>> = entries(&items).into_iter().map(|entry| entry.after).collect();
        assert_eq!(after, [vec![], vec![], vec![0], vec![0, 2, 4], vec![0, 3, 5], vec![0, 3, 4], vec![1]]);
    }

    #[test]
    fn a_circle_of_owners_ends() {
        let ids = [id("a", None, "x"), id("b", None, "y")];
        let (by_x, by_y) = (vec!["x".to_owned()], vec!["y".to_owned()]);
        let items = [
            Related { id: &ids[0], barrier: 0, uid: Some("x"), owners: &by_y, claims: &[] },
            Related { id: &ids[1], barrier: 0, uid: Some("y"), owners: &by_x, claims: &[] },
        ];
        assert_eq!(entries(&items)[0].after, [1]);
    }
}
