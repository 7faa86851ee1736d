//! When an ordered item may be processed. While chains run, an item that an action returns as an additional
//! item waits if its place in the order has not been reached: it belongs to a block that has not started, or
//! its type is ordered and not all listed items of the type are finished. It is processed by its chain, by
//! the blocks after the chains or by [`Pass::take_later`]; the item that asked for it does not wait.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Mutex;

use lifeboat_control::locked;
use lifeboat_plan::catalogue::{GroupResource, ItemId, ResourceType};

use super::blocks::Block;
use super::chains::volume_types;
use super::collect::Collection;
use super::{About, Pass};

/// The progress of the chains. Empty if nothing is ordered.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The items of blocks that have not started.
    planned: HashSet<ItemId>,
    /// The items of the block that is processed.
    current: HashSet<ItemId>,
    /// Ordered types whose listed items are finished.
    finished: BTreeSet<GroupResource>,
    /// The last place of each type that was reached, and its item.
    reached: BTreeMap<GroupResource, (usize, String)>,
    /// The items of each ordered type that the backup has, as `namespace/name` or `name`.
    known: BTreeMap<GroupResource, Vec<String>>,
}

impl Turns {
    pub(super) fn plan(&self, items: impl IntoIterator<Item = ItemId>) {
        locked(&self.state).planned.extend(items);
    }

    /// The block of these items starts.
    pub(super) fn start(&self, items: HashSet<ItemId>) {
        let mut state = locked(&self.state);
        for id in &items {
            state.planned.remove(id);
        }
        state.current = items;
    }

    pub(super) fn finish(&self, types: &[GroupResource]) {
        let mut state = locked(&self.state);
        state.current.clear();
        state.finished.extend(types.iter().cloned());
    }

    /// Notes that a listed item is backed up now; gives an item behind it in the list that came before it.
    fn reach(&self, id: &ItemId, place: usize) -> Option<String> {
        let mut state = locked(&self.state);
        let reached = state.reached.entry(id.resource.clone()).or_insert_with(|| (place, id.path()));
        if reached.0 > place {
            return Some(reached.1.clone());
        }
        *reached = (place, id.path());
        None
    }

    /// Adds items of an ordered type to those that its list may name.
    pub(super) fn know(&self, resource: &GroupResource, paths: impl IntoIterator<Item = String>) {
        locked(&self.state).known.entry(resource.clone()).or_default().extend(paths);
    }
}

impl Pass {
    /// Whether an additional item has a place that has not been reached.
    pub(super) fn waits_for_its_place(&self, id: &ItemId) -> bool {
        let orders = &self.valid.orders.by_type;
        if orders.is_empty() {
            return false;
        }
        let state = locked(&self.turns.state);
        let of_later_type = || orders.contains_key(&id.resource) && !state.finished.contains(&id.resource);
        !state.current.contains(id) && (state.planned.contains(id) || of_later_type())
    }

    /// Keeps an additional item for later. A collected item already has a place in a block.
    pub(super) fn keep_for_later(&self, id: &ItemId, must: bool) {
        if !self.is_collected_item(id) {
            self.made().later.push((id.clone(), must));
        }
    }

    /// The place of an item in the list of its type.
    fn place(&self, id: &ItemId) -> Option<usize> {
        self.valid.orders.by_type.get(&id.resource)?.place(&id.path())
    }

    /// Logs that an ordered item is backed up now. A warning names one that comes too late, because only an action asks for
    /// it; the other items are sorted.
    pub(super) fn note_ordered(&self, kind: &ResourceType, id: &ItemId) {
        let Some(place) = self.place(id).filter(|_| kind.preferred) else { return };
        self.report.info_about(id, "Backing up ordered item");
        let overtaken = self.turns.reach(id, place);
        if self.is_collected_item(id) || volume_types().contains(&id.resource) {
            return;
        }
        self.turns.know(&id.resource, [id.path()]);
        if let Some(other) = overtaken {
            let message = format!(
                "orderedResources lists it before {other:?}, but it is backed up after that: the filters of this backup leave it out, \
                 and an action asked for it too late"
            );
            self.report.warning(&About::Item(id), &message, None);
        }
    }

    /// Backs up the items that actions asked for, and that are listed before a block. `block`: None after the last one.
    pub(super) async fn take_listed_before(
        &self,
        collected: &Collection,
        resource: &GroupResource,
        block: Option<&Block>,
    ) {
        let places = |block: &Block| {
            let listed = block.ids(collected).filter(|id| id.resource == *resource);
            listed.filter_map(|id| self.place(&id)).min()
        };
        let until = block.map_or(Some(usize::MAX), places);
        let is_due = |id: &ItemId| {
            id.resource == *resource
                && self.place(id).is_some_and(|place| until.is_some_and(|end| place < end))
        };
        let all = std::mem::take(&mut self.made().later);
        let (mut due, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|(id, _)| is_due(id));
        self.made().later.extend(kept);
        due.sort_by_cached_key(|(id, _)| (self.place(id), id.path()));
        for (id, must) in due {
            self.turns.start([id.clone()].into());
            self.take_asked_for(&id, must).await;
        }
    }

    /// Backs up the additional items that had to wait: listed ones in their order, then the others. Called when nothing else
    /// asks for ordered items any more, except namespaces.
    pub(super) async fn take_later(&self) {
        let namespaces = GroupResource::new("", "namespaces");
        let types = self.valid.orders.by_type.keys().filter(|id| **id != namespaces);
        self.turns.finish(&types.cloned().collect::<Vec<_>>());
        loop {
            let later = self.later();
            if later.is_empty() || self.stop.is_cancelled() {
                return;
            }
            for (id, must) in later {
                self.take_asked_for(&id, must).await;
            }
        }
    }

    async fn take_asked_for(&self, id: &ItemId, must: bool) {
        if let Err(error) = self.take_additional(id, must, 1).await {
            let error = error.to_string();
            self.report.error(&About::Item(id), "Error backing up additional item", Some(&error));
        }
    }

    /// Takes the additional items whose place has been reached; the others are kept.
    fn later(&self) -> Vec<(ItemId, bool)> {
        let all = std::mem::take(&mut self.made().later);
        let (kept, mut ready): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(id, _)| self.waits_for_its_place(id));
        self.made().later.extend(kept);
        ready.sort_by_cached_key(|(id, _)| match self.place(id) {
            Some(place) => (false, Some((id.resource.clone(), place, id.path()))),
            None => (true, None),
        });
        ready
    }

    fn is_collected_item(&self, id: &ItemId) -> bool {
        self.collected.get().is_some_and(|collected| collected.place_of(id).is_some())
    }

    /// Warns about entries of orders that match nothing in the backup.
    pub(super) fn report_idle_entries(&self) {
        let known = std::mem::take(&mut locked(&self.turns.state).known);
        for (resource, order) in &self.valid.orders.by_type {
            let sorted = order.sort(known.get(resource).map(Vec::as_slice).unwrap_or_default());
            for warning in sorted.warnings {
                self.report.warning(&About::Server, &warning, None);
            }
        }
    }
}
