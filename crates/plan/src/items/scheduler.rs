//! When each item of a restore may start: a state machine that takes events and gives the items to start. Barriers
//! are opened one after the other; within a barrier, items run in parallel. An item that waits leaves its barrier,
//! and the items that depend on it are held back. Driven by the pipeline in crate `items`.
//!
//! There is no deadlock: an item that is held back has a fixed set of holders, all of which precede it; and a request
//! for an additional item that would close a cycle is answered with [`Need::Circle`], or starts the item regardless
//! of its holders.

mod places;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The scheduler's view of an item. Items are numbered by their index in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its barrier. Lower barriers come first.
    pub barrier: usize,
    /// The items that hold it back while they are still waiting after leaving their own barrier.
    pub after: Vec<usize>,
    /// The Restore does not select it: it only starts if another item requests it.
    pub dormant: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not requested by any item.
    Dormant,
    Pending,
    /// A dependency left its barrier and has not ended: this item left its barrier without starting.
    Held,
    /// It may start and has not been started yet.
    Ready,
    Running,
    Done,
}

/// The answer to a request for an additional item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It has already ended.
    Done,
    /// Start it now; the requesting item continues when it has ended.
    Start,
    /// It is running; the requesting item continues when it has ended.
    Wait,
    /// It waits for the requesting item itself: continue without it.
    Circle,
}

/// The state machine.
pub struct Scheduler {
    entries: Vec<Entry>,
    states: Vec<State>,
    /// Whether an item no longer counts in its barrier: it waits, is held back, or has ended.
    left: Vec<bool>,
    /// The number of holders of each held item.
    holders: BTreeMap<usize, usize>,
    /// The items that are held back by an item that left its barrier.
    holds: BTreeMap<usize, Vec<usize>>,
    /// The items whose end a started item awaits, and the inverse map.
    awaits: BTreeMap<usize, BTreeSet<usize>>,
    awaited_by: BTreeMap<usize, BTreeSet<usize>>,
    /// The items of each barrier, dependencies first.
    barriers: Vec<Vec<usize>>,
    /// How many items of each barrier have not left it.
    open: Vec<usize>,
    /// The barrier to open next.
    next: usize,
    ready: VecDeque<usize>,
    /// Items that have not ended, without dormant ones.
    rest: usize,
    /// Items that were started, left their barrier and have not ended.
    behind: usize,
}

impl Scheduler {
    pub fn new(entries: Vec<Entry>) -> Self {
        let barriers = places::barriers(&entries);
        let open: Vec<usize> = barriers.iter().map(Vec::len).collect();
        let count = entries.len();
        let state = |entry: &Entry| if entry.dormant { State::Dormant } else { State::Pending };
        let states = entries.iter().map(state).collect();
        let mut scheduler = Self {
            entries,
            states,
            left: vec![false; count],
            holders: BTreeMap::new(),
            holds: BTreeMap::new(),
            awaits: BTreeMap::new(),
            awaited_by: BTreeMap::new(),
            barriers,
            rest: open.iter().sum(),
            behind: 0,
            open,
            next: 0,
            ready: VecDeque::new(),
        };
        scheduler.open_barriers();
        scheduler
    }

    /// The next item to start; None if no item may start now.
    pub fn start(&mut self) -> Option<usize> {
        // An item that was requested in the meantime has already started.
        let item =
            std::iter::from_fn(|| self.ready.pop_front()).find(|&item| self.states[item] == State::Ready)?;
        self.run(item);
        Some(item)
    }

    /// Whether every item has ended.
    pub fn is_finished(&self) -> bool {
        self.rest == 0
    }

    /// How many items were started, left their barrier and have not ended.
    pub fn waiting_count(&self) -> usize {
        self.behind
    }

    /// The items that were started, left their barrier and have not ended.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        (0..self.states.len()).filter(|&item| self.states[item] == State::Running && self.left[item])
    }

    /// A started item now waits for something outside the restore: it leaves its barrier.
    pub fn wait(&mut self, item: usize) {
        let mut behind = vec![item];
        while let Some(item) = behind.pop() {
            if self.states[item] != State::Running || self.left[item] {
                continue;
            }
            self.leave(item);
            self.behind += 1;
            // Items that await its end leave their barriers, too.
            behind.extend(self.awaited_by.get(&item).into_iter().flatten());
        }
        self.open_barriers();
    }

    /// A started item cannot continue before `other` has ended.
    pub fn need(&mut self, item: usize, other: usize) -> Need {
        if self.states[other] == State::Done {
            return Need::Done;
        }
        if item == other {
            return Need::Circle;
        }
        let starts = match self.states[other] {
            State::Dormant | State::Pending | State::Ready => true,
            State::Held => self.leads_to(other, item),
            State::Running if self.leads_to(other, item) => return Need::Circle,
            State::Running | State::Done => false,
        };
        if starts {
            self.rest += usize::from(self.states[other] == State::Dormant);
            self.run(other);
        }
        self.awaits.entry(item).or_default().insert(other);
        self.awaited_by.entry(other).or_default().insert(item);
        if self.left[other] {
            self.wait(item);
        }
        if starts { Need::Start } else { Need::Wait }
    }

    /// A started item has ended, successfully or not.
    pub fn end(&mut self, item: usize) {
        if self.states[item] == State::Done {
            return;
        }
        if self.left[item] {
            self.behind -= usize::from(self.states[item] == State::Running);
        } else {
            self.leave(item);
        }
        self.states[item] = State::Done;
        self.rest -= 1;
        for other in self.awaits.remove(&item).into_iter().flatten() {
            if let Some(waiters) = self.awaited_by.get_mut(&other) {
                waiters.remove(&item);
            }
        }
        for waiter in self.awaited_by.remove(&item).into_iter().flatten() {
            if let Some(awaited) = self.awaits.get_mut(&waiter) {
                awaited.remove(&item);
            }
        }
        for held in self.holds.remove(&item).into_iter().flatten() {
            self.release(held);
        }
        self.open_barriers();
    }

    /// One of the holders of `held` has ended.
    fn release(&mut self, held: usize) {
        let Some(holders) = self.holders.get_mut(&held) else { return };
        *holders -= 1;
        if *holders == 0 {
            self.holders.remove(&held);
            if self.states[held] == State::Held {
                self.give_out(held);
            }
        }
    }

    fn run(&mut self, item: usize) {
        self.states[item] = State::Running;
        self.behind += usize::from(self.left[item]);
    }

    fn give_out(&mut self, item: usize) {
        self.states[item] = State::Ready;
        self.ready.push_back(item);
    }

    fn leave(&mut self, item: usize) {
        self.left[item] = true;
        // A dormant item belongs to no barrier but to the item that requested it.
        if !self.entries[item].dormant {
            self.open[self.entries[item].barrier] -= 1;
        }
    }

    /// Opens the next barriers as long as the current one has no items left.
    fn open_barriers(&mut self) {
        while self.next < self.barriers.len() && (self.next == 0 || self.open[self.next - 1] == 0) {
            let items = std::mem::take(&mut self.barriers[self.next]);
            self.next += 1;
            for item in items {
                if self.states[item] == State::Pending {
                    self.begin(item);
                }
            }
        }
    }

    /// The barrier of an item was opened: the item may start, or is held back.
    fn begin(&mut self, item: usize) {
        let behind: Vec<usize> =
            self.entries[item].after.iter().copied().filter(|&other| self.is_behind(other)).collect();
        if behind.is_empty() {
            self.give_out(item);
            return;
        }
        self.states[item] = State::Held;
        self.leave(item);
        self.holders.insert(item, behind.len());
        for other in behind {
            self.holds.entry(other).or_default().push(item);
        }
    }

    /// Whether an item has left its barrier and has not ended.
    fn is_behind(&self, item: usize) -> bool {
        self.left[item] && self.states[item] != State::Done
    }

    /// Whether `from` cannot end before `to`, because of what it awaits and what holds it.
    fn leads_to(&self, from: usize, to: usize) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(item) = next.pop() {
            if item == to {
                return true;
            }
            if !seen.insert(item) {
                continue;
            }
            next.extend(self.awaits.get(&item).into_iter().flatten());
            if self.states[item] == State::Held {
                next.extend(self.entries[item].after.iter().copied().filter(|&other| self.is_behind(other)));
            }
        }
        false
    }
}
