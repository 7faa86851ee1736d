//! Builds the work of a run from the heads of all items: one work for each item and each namespace, and the scheduler
//! that orders them. Called once when a run starts.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_plan::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::items::priorities::Priorities;
use lifeboat_plan::items::relations::{self, Related};
use lifeboat_plan::items::rules::ItemRules;
use lifeboat_plan::items::scheduler::Scheduler;

use crate::source::{ItemHead, ItemSource};

/// One unit of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Create a namespace if it is missing, by its name in the backup.
    Namespace(String),
    /// Restore the item at a position of the source.
    Item(usize),
}

impl Work {
    pub fn namespace(&self) -> Option<&str> {
        if let Self::Namespace(name) = self { Some(name) } else { None }
    }
}

/// All work of a run.
pub(super) struct Schedule {
    pub(super) works: Vec<Work>,
    /// How many works the Restore selects; the others wait until an item asks for them.
    pub(super) selected: usize,
    pub(super) scheduler: Scheduler,
}

/// Schedules all items of the source (unselected ones start only as additional items) and the namespaces that items
/// are restored into.
pub(super) fn schedule(
    source: &dyn ItemSource,
    rules: &ItemRules,
    priorities: &Priorities,
    catalogue: &Catalogue,
) -> Schedule {
    let items: Vec<ItemHead<'_>> = source.heads().filter(|head| !head.is_namespace()).collect();
    let selected: Vec<bool> = items.iter().map(|head| is_selected(head, rules)).collect();
    let homes = homes(source, &items, &selected, rules);
    let namespaces = GroupResource::new("", "namespaces");
    let types: BTreeSet<GroupResource> =
        items.iter().map(|head| head.resource.clone()).chain([namespaces.clone()]).collect();
    let types: Vec<GroupResource> = types.into_iter().collect();
    let barriers = priorities.barriers(&types, catalogue);
    let owners: Vec<Vec<u128>> = items.iter().map(|head| source.owners(head.position)).collect();
    let mut related: Vec<Related<'_, u128>> = items
        .iter()
        .zip(&selected)
        .zip(&owners)
        .map(|((head, selected), owners)| Related {
            resource: head.resource,
            namespace: head.namespace,
            name: head.name,
            barrier: barriers[head.resource],
            dormant: !selected,
            uid: source.uid(head.position),
            owners,
            claims: source.claims(head.position),
        })
        .collect();
    related.extend(homes.iter().map(|&name| Related {
        resource: &namespaces,
        namespace: None,
        name,
        barrier: barriers[&namespaces],
        dormant: false,
        uid: None,
        owners: &[],
        claims: Vec::new(),
    }));
    let scheduler = Scheduler::new(relations::entries(&related));
    let works = items.iter().map(|head| Work::Item(head.position));
    let count = homes.len() + selected.iter().filter(|selected| **selected).count();
    let works = works.chain(homes.iter().map(|&name| Work::Namespace(name.to_owned()))).collect();
    Schedule { works, selected: count, scheduler }
}

/// The namespaces that items are restored from, and those that are selected themselves.
fn homes<'a>(
    source: &'a dyn ItemSource,
    items: &[ItemHead<'a>],
    selected: &[bool],
    rules: &ItemRules,
) -> BTreeSet<&'a str> {
    let own = source.heads().filter(|head| head.is_namespace() && is_selected(head, rules));
    let mut homes: BTreeSet<&str> = own.map(|head| head.name).collect();
    let chosen = items.iter().zip(selected).filter(|(_, selected)| **selected);
    homes.extend(chosen.filter_map(|(head, _)| head.namespace));
    homes
}

/// Whether the Restore selects an item itself, not only as an additional item.
pub(super) fn is_selected(head: &ItemHead<'_>, rules: &ItemRules) -> bool {
    let labels =
        if rules.filter.asks_for_labels() { head.labels.iter().cloned().collect() } else { BTreeMap::new() };
    rules.filter.judge(&head.id(), head.kind, &labels).is_ok()
}
