//! Ordered items: one after the other, each finished before the next one starts, and before any item that could add
//! them as additional items. Cluster-scoped types come first, because namespaced items add those; then pods, claims
//! and volumes as one chain; then the other types. The order of namespaces applies at the end, when they are backed
//! up.

use std::sync::Arc;

use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::velero::order::{Claimed, Listed, Mounts, Order, Step, order_volumes};
use serde_json::Value;

use super::blocks::Block;
use super::collect::Collection;
use super::{About, Pass};

impl Pass {
    pub(super) async fn run_chains(self: &Arc<Self>) {
        let Some(collected) = self.collected.get() else { return };
        let orders = &self.valid.orders.by_type;
        let [pods, claims, volumes] = volume_types();
        let own_chain = |id: &&GroupResource| {
            ![&pods, &claims, &volumes, &GroupResource::new("", "namespaces")].contains(id)
        };
        let scoped = |id: &GroupResource| self.catalogue.get(id).is_some_and(|kind| kind.namespaced);
        let (namespaced, cluster): (Vec<_>, Vec<_>) =
            orders.keys().filter(own_chain).partition(|id| scoped(id));
        for id in cluster {
            self.run_chain(collected, id, &orders[id]).await;
        }
        let listed =
            Listed { pods: orders.get(&pods), claims: orders.get(&claims), volumes: orders.get(&volumes) };
        if listed.pods.is_some() || listed.claims.is_some() || listed.volumes.is_some() {
            self.run_volume_chain(collected, listed).await;
        }
        for id in namespaced {
            self.run_chain(collected, id, &orders[id]).await;
        }
    }

    async fn run_chain(&self, collected: &Collection, id: &GroupResource, order: &Order) {
        let places = collected.of(id);
        let paths: Vec<_> = places.iter().map(|at| collected.id(*at).path()).collect();
        let sorted = order.sort(&paths);
        for warning in &sorted.warnings {
            self.report.warning(&About::Server, warning, None);
        }
        for listed in sorted.listed {
            self.run_step(&Block::of(vec![places[listed]])).await;
        }
    }

    async fn run_volume_chain(&self, collected: &Collection, listed: Listed<'_>) {
        let [pods, claims, volumes] = volume_types();
        let (pod_places, claim_places) = (collected.of(&pods), collected.of(&claims));
        let mounting: Vec<_> = pod_places.iter().map(|at| mounts(collected, *at)).collect();
        let bound: Vec<_> = claim_places.iter().map(|at| claimed(collected, *at)).collect();
        // Volumes that only claims name are ordered too, although they are not listed as a type.
        let mut names: Vec<String> =
            collected.of(&volumes).iter().map(|at| collected.items[*at].meta.name.clone()).collect();
        names.extend(bound.iter().filter_map(|claim| claim.volume.clone()));
        names.sort();
        names.dedup();
        let order = order_volumes(listed, &mounting, &bound, &names);
        for warning in &order.warnings {
            self.report.warning(&About::Server, warning, None);
        }
        for step in order.steps {
            let block = match step {
                Step::Pods(pods) => Block::of(pods.iter().map(|pod| pod_places[*pod]).collect()),
                Step::Claim(claim) => Block::of(vec![claim_places[claim]]),
                Step::Volume(volume) => {
                    let id = ItemId::cluster(volumes.clone(), &names[volume]);
                    match collected.place_of(&id) {
                        Some(at) => Block::of(vec![at]),
                        None => Block { items: Vec::new(), others: vec![id] },
                    }
                }
            };
            self.run_step(&block).await;
        }
    }

    async fn run_step(&self, block: &Block) {
        if self.stop.is_cancelled() {
            return;
        }
        if let Some(collected) = self.collected.get() {
            for at in &block.items {
                self.report.info_about(&collected.id(*at), "Backing up ordered item");
            }
        }
        let rest = self.run_block(block).await;
        self.settle(rest).await;
    }
}

fn mounts(collected: &Collection, at: usize) -> Mounts {
    let id = collected.id(at);
    let object = value(collected, at);
    let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    let namespace = id.namespace.clone().unwrap_or_default();
    Mounts { pod: id.path(), claims: claims.map(|claim| format!("{namespace}/{claim}")).collect() }
}

fn claimed(collected: &Collection, at: usize) -> Claimed {
    let object = value(collected, at);
    let volume = object["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
    Claimed { claim: collected.id(at).path(), volume: volume.map(str::to_owned) }
}

/// The item as JSON; `null` if it cannot be read, which is reported when the item is backed up.
pub(super) fn value(collected: &Collection, at: usize) -> Value {
    let raw = collected.raw(at).ok();
    raw.and_then(|raw| serde_json::from_slice(&raw.json).ok()).unwrap_or_default()
}

fn volume_types() -> [GroupResource; 3] {
    ["pods", "persistentvolumeclaims", "persistentvolumes"].map(|name| GroupResource::new("", name))
}
