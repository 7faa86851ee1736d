//! Ordered items: block by block, each finished before the next one starts, and before everything that is not ordered.
//! Cluster-scoped types come first, then pods, claims and volumes as one chain, because they are backed up together; then
//! the other types. The order of namespaces applies at the end, when they are backed up.
//!
//! A listed item keeps the block that it would have without an order; blocks contain no items of types that another chain
//! orders. All blocks are made before the first one starts, so that additional items can wait for their place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::transfer::directory::claim_of;
use lifeboat_plan::velero::order::{List, Object, order_blocks};
use serde_json::Value;

use super::blocks::Block;
use super::collect::Collection;
use super::{About, Pass};

/// The blocks of one or several types, in their order.
struct Chain {
    types: Vec<GroupResource>,
    blocks: Vec<Block>,
}

/// The items of a type in a chain.
#[derive(Default)]
struct Items {
    ids: Vec<ItemId>,
    objects: Vec<Object>,
    /// Indexes into `ids`, in the order of the list; empty if the type has none.
    listed: Vec<usize>,
}

/// Which pods mount each claim and which claim has each volume, by path.
#[derive(Default)]
struct Links {
    mounted_by: BTreeMap<String, Vec<ItemId>>,
    claim_of: BTreeMap<String, ItemId>,
}

impl Pass {
    pub(super) async fn run_chains(self: &Arc<Self>) {
        let Some(collected) = self.collected.get() else { return };
        let mut chains = Vec::new();
        let mut in_block = vec![false; collected.items.len()];
        for types in self.chained_types() {
            let chain = self.chain(collected, types, &mut in_block);
            let Some(chain) = self.unless_stopped(chain).await else { return };
            self.turns.plan(chain.blocks.iter().flat_map(|block| block.ids(collected)));
            chains.push(chain);
        }
        for Chain { types, blocks } in chains {
            // A type that the backup does not list has only additional items, which are added until the end
            // of the pass.
            let alone = types.first().filter(|_| types.len() == 1);
            let alone = alone.filter(|id| collected.kinds.iter().any(|kind| kind.id == **id));
            for block in blocks {
                if let Some(id) = alone {
                    self.take_listed_before(collected, id, Some(&block)).await;
                }
                if self.stop.is_cancelled() {
                    return;
                }
                self.turns.start(block.ids(collected).collect());
                let rest = self.run_block(&block).await;
                self.settle(rest).await;
            }
            if let Some(id) = alone {
                self.take_listed_before(collected, id, None).await;
            }
            if alone.is_some() || types.len() > 1 {
                self.turns.finish(&types);
            }
        }
    }

    /// The types of each chain, in the order in which the chains run.
    fn chained_types(&self) -> Vec<Vec<GroupResource>> {
        let orders = &self.valid.orders.by_type;
        let volumes = volume_types();
        let alone =
            |id: &&GroupResource| !volumes.contains(id) && **id != GroupResource::new("", "namespaces");
        let scoped = |id: &&GroupResource| self.catalogue.get(id).is_some_and(|kind| kind.namespaced);
        let (namespaced, cluster): (Vec<_>, Vec<_>) = orders.keys().filter(alone).partition(scoped);
        let mut chains: Vec<_> = cluster.into_iter().map(|id| vec![id.clone()]).collect();
        if volumes.iter().any(|id| orders.contains_key(id)) {
            chains.push(volumes.into());
        }
        chains.extend(namespaced.into_iter().map(|id| vec![id.clone()]));
        chains
    }

    /// Whether a chain orders the items of a type.
    fn is_chained(&self, id: &GroupResource) -> bool {
        let (orders, volumes) = (&self.valid.orders.by_type, volume_types());
        orders.contains_key(id)
            || volumes.contains(id) && volumes.iter().any(|volume| orders.contains_key(volume))
    }

    /// Makes the blocks of all listed items of some types, and orders them.
    async fn chain(&self, collected: &Collection, types: Vec<GroupResource>, in_block: &mut [bool]) -> Chain {
        let mut lists: Vec<Items> = types.iter().map(|id| items_of(collected, id)).collect();
        let links = if let [pods, claims, volumes] = lists.as_mut_slice() {
            link(collected, pods, claims, volumes)
        } else {
            Links::default()
        };
        for (id, items) in types.iter().zip(&mut lists) {
            if let Some(order) = self.valid.orders.by_type.get(id) {
                let paths: Vec<String> = items.ids.iter().map(ItemId::path).collect();
                items.listed = order.sort(&paths).listed;
                self.turns.know(id, paths);
            }
        }
        let elsewhere = |id: &GroupResource| !types.contains(id) && self.is_chained(id);
        let mut blocks = Vec::new();
        let mut block_of: BTreeMap<ItemId, usize> = BTreeMap::new();
        for items in &lists {
            for id in items.listed.iter().map(|at| &items.ids[*at]) {
                if block_of.contains_key(id) {
                    continue;
                }
                let (seeds, others) = links.seeds(collected, id);
                let mut block = self.grow(collected, &seeds, in_block, elsewhere).await;
                block.others.extend(others);
                for id in block.ids(collected) {
                    block_of.entry(id).or_insert(blocks.len());
                }
                blocks.push(block);
            }
        }
        for items in &mut lists {
            for (object, id) in items.objects.iter_mut().zip(&items.ids) {
                object.block = block_of.get(id).copied();
            }
        }
        let blocks = self.in_order(collected, &types, &lists, blocks);
        Chain { types, blocks }
    }

    /// Sorts the blocks of a chain, and their items.
    fn in_order(
        &self,
        collected: &Collection,
        types: &[GroupResource],
        lists: &[Items],
        mut blocks: Vec<Block>,
    ) -> Vec<Block> {
        let keys: Vec<String> = types.iter().map(ToString::to_string).collect();
        let of_type = lists.iter().zip(&keys);
        let of_type =
            of_type.map(|(items, key)| List { key, objects: &items.objects, listed: &items.listed });
        let sequence = order_blocks(&of_type.collect::<Vec<_>>());
        for warning in &sequence.warnings {
            self.report.warning(&About::Server, warning, None);
        }
        for note in &sequence.notes {
            self.report.info(note, &[]);
        }
        let steps = sequence.steps.into_iter().map(|step| {
            let first = step.first.iter().map(|(kind, at)| &lists[*kind].ids[*at]);
            std::mem::take(&mut blocks[step.block]).beginning_with(collected, first)
        });
        steps.collect()
    }
}

impl Links {
    /// The items from which the block of a listed item grows: those that were collected, and the others. A volume brings its
    /// claim, and a claim the pods that mount it.
    fn seeds(&self, collected: &Collection, listed: &ItemId) -> (Vec<usize>, Vec<ItemId>) {
        let [_, claims, volumes] = volume_types();
        let claim = if listed.resource == volumes {
            self.claim_of.get(&listed.path())
        } else {
            Some(listed).filter(|id| id.resource == claims)
        };
        let pods = claim.and_then(|claim| self.mounted_by.get(&claim.path()));
        let all: BTreeSet<&ItemId> =
            [listed].into_iter().chain(claim).chain(pods.into_iter().flatten()).collect();
        let (mut seeds, mut others) = (Vec::new(), Vec::new());
        for id in all {
            match collected.place_of(id) {
                Some(at) => seeds.push(at),
                None => others.push(id.clone()),
            }
        }
        (seeds, others)
    }
}

/// The collected items of a type.
fn items_of(collected: &Collection, resource: &GroupResource) -> Items {
    let ids: Vec<ItemId> = collected.of(resource).into_iter().map(|at| collected.id(at)).collect();
    let objects = ids.iter().map(object).collect();
    Items { ids, objects, listed: Vec::new() }
}

fn object(id: &ItemId) -> Object {
    Object { path: id.path(), ..Object::default() }
}

/// Reads which pods mount which claims, and which volumes these have. Volumes that only claims name are added to the
/// collected ones, because they are backed up with their claims.
fn link(collected: &Collection, pods: &Items, claims: &mut Items, volumes: &mut Items) -> Links {
    let [_, claim_type, volume_type] = volume_types();
    let mut links = Links::default();
    for pod in &pods.ids {
        let Some(object) = collected.place_of(pod).map(|at| value(collected, at)) else { continue };
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        for volume in object["spec"]["volumes"].as_array().into_iter().flatten() {
            if let Some(claim) = claim_of(&pod.name, volume) {
                let claim = ItemId::namespaced(claim_type.clone(), namespace, &claim);
                links.mounted_by.entry(claim.path()).or_default().push(pod.clone());
            }
        }
    }
    let mut known: BTreeSet<String> = volumes.ids.iter().map(|id| id.name.clone()).collect();
    for (claim, object) in claims.ids.iter().zip(&mut claims.objects) {
        let found = collected.place_of(claim).map(|at| value(collected, at)).unwrap_or_default();
        let Some(name) = found["spec"]["volumeName"].as_str().filter(|name| !name.is_empty()) else {
            continue;
        };
        object.volume = Some(name.to_owned());
        links.claim_of.insert(name.to_owned(), claim.clone());
        if known.insert(name.to_owned()) {
            let id = ItemId::cluster(volume_type.clone(), name);
            volumes.objects.push(self::object(&id));
            volumes.ids.push(id);
        }
    }
    links
}

/// The item as JSON; `null` if it cannot be read, which is reported when the item is backed up.
pub(super) fn value(collected: &Collection, at: usize) -> Value {
    let raw = collected.raw(at).ok();
    raw.and_then(|raw| serde_json::from_slice(&raw.json).ok()).unwrap_or_default()
}

pub(super) fn volume_types() -> [GroupResource; 3] {
    ["pods", "persistentvolumeclaims", "persistentvolumes"].map(|name| GroupResource::new("", name))
}
