//! Derives the scheduler's entries from the index of a backup: for each item, the items that must be done before it.
//! Owners come after everything they own, transitively; owned items, pods with claims, custom resources and objects
//! in a namespace come after what they need.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use lifeboat_api::catalogue::GroupResource;

use super::scheduler::Entry;

/// One item, as recorded in the index of the backup.
#[derive(Clone, Debug)]
pub struct Related<'a, U> {
    pub resource: &'a GroupResource,
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    pub barrier: usize,
    /// Whether it is only restored if another item requests it.
    pub dormant: bool,
    pub uid: Option<U>,
    /// The UIDs of its owners.
    pub owners: &'a [U],
    /// The claims that a pod mounts, by name.
    pub claims: Vec<&'a str>,
}

/// The maximum depth of owner references that is followed; real objects stay far below it.
const GENERATIONS: usize = 16;

/// One entry per item, in the order of the items.
pub fn entries<U: Copy + Eq + Hash>(items: &[Related<'_, U>]) -> Vec<Entry> {
    let by_uid: HashMap<U, usize> =
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
            Entry { barrier: item.barrier, after: after.into_iter().collect(), dormant: item.dormant }
        })
        .collect()
}

fn owners<U: Copy + Eq + Hash>(item: &Related<'_, U>, by_uid: &HashMap<U, usize>) -> Vec<usize> {
    item.owners.iter().filter_map(|uid| by_uid.get(uid).copied()).collect()
}

fn ancestors<U: Copy + Eq + Hash>(
    mut generation: Vec<usize>,
    items: &[Related<'_, U>],
    by_uid: &HashMap<U, usize>,
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

/// The items that other items need, by name.
#[derive(Default)]
struct Names<'a> {
    namespaces: HashMap<&'a str, usize>,
    definitions: HashMap<&'a str, usize>,
    claims: HashMap<(&'a str, &'a str), usize>,
}

impl<'a> Names<'a> {
    fn new<U>(items: &[Related<'a, U>]) -> Self {
        let mut names = Self::default();
        for (place, item) in items.iter().enumerate() {
            let (namespace, name) = (item.namespace, item.name);
            match (item.resource.group.as_str(), item.resource.resource.as_str(), namespace) {
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

    fn needs<U>(&self, item: &Related<'_, U>) -> BTreeSet<usize> {
        let namespace = item.namespace;
        let home = namespace.and_then(|namespace| self.namespaces.get(namespace));
        let definition = (!item.resource.group.is_empty() && !self.definitions.is_empty())
            .then(|| self.definitions.get(item.resource.to_string().as_str()))
            .flatten();
        let claims =
            item.claims.iter().filter_map(|claim| self.claims.get(&(namespace.unwrap_or_default(), *claim)));
        home.into_iter().chain(definition).chain(claims).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item<'a>(resource: &'a GroupResource, namespace: Option<&'a str>, name: &'a str) -> Related<'a, u8> {
        Related {
            resource,
            namespace,
            name,
            barrier: 0,
            dormant: false,
            uid: None,
            owners: &[],
            claims: Vec::new(),
        }
    }

    #[test]
    fn items_stay_behind_what_they_need_and_owners_behind_all_their_descendants() {
        let types = [
            "namespaces",
            "customresourcedefinitions.apiextensions.k8s.io",
            "persistentvolumeclaims",
            "pods",
            "replicasets.apps",
            "deployments.apps",
            "widgets.example.com",
        ]
        .map(GroupResource::parse);
        let (set, deployment, elsewhere) = (1, 2, 3);
        let by_deployment = [deployment, elsewhere];
        let shop = Some("shop");
        let mut items = [
            item(&types[0], None, "shop"),
            item(&types[1], None, "widgets.example.com"),
            item(&types[2], shop, "data"),
            item(&types[3], shop, "web-1"),
            item(&types[4], shop, "web"),
            item(&types[5], shop, "web"),
            item(&types[6], Some("other"), "w"),
        ];
        items[3].claims = vec!["data"];
        items[3].owners = &[1];
        items[4].uid = Some(set);
        items[4].owners = &by_deployment;
        items[5].uid = Some(deployment);
        let after: Vec<Vec<usize>> = entries(&items).into_iter().map(|entry| entry.after).collect();
        assert_eq!(after, [vec![], vec![], vec![0], vec![0, 2, 4], vec![0, 3, 5], vec![0, 3, 4], vec![1]]);
    }

    #[test]
    fn a_circle_of_owners_ends() {
        let resource = GroupResource::parse("a");
        let mut items = [item(&resource, None, "x"), item(&resource, None, "y")];
        (items[0].uid, items[0].owners) = (Some(1), &[2]);
        (items[1].uid, items[1].owners) = (Some(2), &[1]);
        assert_eq!(entries(&items)[0].after, [1]);
    }
}
