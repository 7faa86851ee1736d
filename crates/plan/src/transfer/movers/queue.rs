//! The queue of movers: which movers run, which wait and why, and which one starts next. The number of running movers
//! is limited in total, per node and per repository: 500 schedules at midnight do not start 500 pods. Groups
//! (backups, restores) alternate, so that a small one does not wait for all volumes of a large one; within a group,
//! movers start in the order of arrival.
//!
//! If the first mover of a group cannot start because its node or repository is full, another one of the group may.
//! The first one keeps its turn, so that no later mover takes the slot that it waits for. Driven by the server.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::common::TaskId;

use super::MoverJob;

/// The limits of running movers. A limit below one counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub total: usize,
    pub on_node: usize,
    pub on_repository: usize,
}

/// The queue's view of a mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub task: TaskId,
    pub group: String,
    /// None if the scheduler chooses the node.
    pub node: Option<String>,
    pub repository: String,
}

impl Candidate {
    pub fn of(job: &MoverJob) -> Self {
        Self {
            task: job.task.clone(),
            group: job.group.clone(),
            node: job.place.node().map(str::to_owned),
            repository: job.repository.clone(),
        }
    }

    /// Movers of the same lane wait for the same limits.
    fn lane(&self) -> Lane {
        (self.group.clone(), self.node.clone(), self.repository.clone())
    }
}

type Lane = (String, Option<String>, String);

/// Why a candidate cannot start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Total,
    Node,
    Repository,
}

/// The waiting and the running movers.
#[derive(Clone, Debug)]
pub struct Queue {
    limits: Limits,
    /// In order of arrival.
    waiting: Vec<Candidate>,
    running: BTreeMap<TaskId, Candidate>,
    /// Running movers whose pods have no image: they copy nothing, and do not count while they are few.
    parked: BTreeSet<TaskId>,
    /// When each waiting group had its last turn, or arrived.
    turns: BTreeMap<String, u64>,
    /// The turn that a lane had when its node or repository was full.
    kept: BTreeMap<Lane, u64>,
    clock: u64,
}

impl Queue {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: Vec::new(),
            running: BTreeMap::new(),
            parked: BTreeSet::new(),
            turns: BTreeMap::new(),
            kept: BTreeMap::new(),
            clock: 0,
        }
    }

    /// The scheduler chose a node for a running mover: it counts towards the node's limit.
    pub fn settle(&mut self, task: &TaskId, node: &str) {
        if let Some(candidate) = self.running.get_mut(task) {
            candidate.node.get_or_insert_with(|| node.to_owned());
        }
    }

    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Adds a mover at the end of its group, unless it is already running or waiting.
    pub fn arrive(&mut self, candidate: Candidate) {
        if self.is_running(&candidate.task) || self.waiting.iter().any(|other| other.task == candidate.task) {
            return;
        }
        if !self.turns.contains_key(&candidate.group) {
            let turn = self.next_turn();
            self.turns.insert(candidate.group.clone(), turn);
        }
        self.waiting.push(candidate);
    }

    /// Adds a mover whose Job already runs: it counts, regardless of the limits.
    pub fn adopt(&mut self, candidate: Candidate) {
        self.waiting.retain(|other| other.task != candidate.task);
        self.running.insert(candidate.task.clone(), candidate);
        self.forget();
    }

    /// The image of a running mover cannot be pulled, or its container runs at last. No more movers than the limit in total are
    /// parked, so that a missing image of many does not start pods without end.
    pub fn park(&mut self, task: &TaskId, is_stuck: bool) {
        if !is_stuck {
            self.parked.remove(task);
        } else if self.is_running(task) && self.parked.len() < self.limits.total.max(1) {
            self.parked.insert(task.clone());
        }
    }

    /// The running movers that count towards the limits.
    fn counted(&self) -> impl Iterator<Item = &Candidate> {
        self.running.iter().filter(|(task, _)| !self.parked.contains(*task)).map(|(_, running)| running)
    }

    /// Removes a mover that neither waits nor runs any more.
    pub fn leave(&mut self, task: &TaskId) {
        self.waiting.retain(|candidate| candidate.task != *task);
        self.running.remove(task);
        self.parked.remove(task);
        self.forget();
    }

    /// Starts every mover that may start: they count as running from now on.
    pub fn start(&mut self) {
        while let Some(place) = self.next() {
            let candidate = self.waiting.remove(place);
            self.kept.remove(&candidate.lane());
            let turn = self.next_turn();
            self.turns.insert(candidate.group.clone(), turn);
            self.running.insert(candidate.task.clone(), candidate);
        }
        self.forget();
    }

    pub fn is_running(&self, task: &TaskId) -> bool {
        self.running.contains_key(task)
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The message why a mover waits and how many are ahead of it; None if it does not wait.
    pub fn message(&self, task: &TaskId) -> Option<String> {
        let candidate = self.waiting.iter().find(|candidate| candidate.task == *task)?;
        let full = self.full_for(candidate);
        let rivals: Vec<&Candidate> = self
            .waiting
            .iter()
            .filter(|other| full.is_none_or(|full| same_place(full, candidate, other)))
            .collect();
        let before = self.before(candidate, &rivals);
        let (place, count, limit, flag) = match (full, &candidate.node) {
            (Some(Full::Node), Some(node)) => {
                (format!("on node {node}"), self.on_node(node), self.limits.on_node, "--movers-per-node")
            }
            (Some(Full::Repository), _) => (
                format!("on repository {}", candidate.repository),
                self.on_repository(&candidate.repository),
                self.limits.on_repository,
                "--movers-per-repository",
            ),
            _ => ("in all".to_owned(), self.counted().count(), self.limits.total, "--movers-at-once"),
        };
        let movers = if count == 1 { "1 mover runs".to_owned() } else { format!("{count} movers run") };
        let reason = format!("{movers} {place} (limit {}, {flag})", limit.max(1));
        Some(match before {
            0 => format!("waits for its turn: {reason}; it is next"),
            1 => format!("waits for its turn: {reason}; 1 is ahead of it"),
            _ => format!("waits for its turn: {reason}; {before} are ahead of it"),
        })
    }

    /// The index of the waiting mover that starts next.
    fn next(&mut self) -> Option<usize> {
        // The first mover of each lane, by turn, then by arrival: indexes are in that order.
        let mut heads: BTreeMap<Lane, usize> = BTreeMap::new();
        for (place, candidate) in self.waiting.iter().enumerate() {
            heads.entry(candidate.lane()).or_insert(place);
        }
        let turn = |lane: &Lane| {
            let group = self.turns.get(&lane.0).copied().unwrap_or_default();
            self.kept.get(lane).copied().unwrap_or(group)
        };
        let mut heads: Vec<(u64, usize, Lane)> =
            heads.into_iter().map(|(lane, place)| (turn(&lane), place, lane)).collect();
        heads.sort();
        let chosen = heads.iter().position(|(_, place, _)| self.full_for(&self.waiting[*place]).is_none())?;
        let place = heads[chosen].1;
        for (turn, _, lane) in heads.into_iter().take(chosen) {
            self.kept.entry(lane).or_insert(turn);
        }
        Some(place)
    }

    fn full_for(&self, candidate: &Candidate) -> Option<Full> {
        if self.counted().count() >= self.limits.total.max(1) {
            return Some(Full::Total);
        }
        if candidate.node.as_ref().is_some_and(|node| self.on_node(node) >= self.limits.on_node.max(1)) {
            return Some(Full::Node);
        }
        (self.on_repository(&candidate.repository) >= self.limits.on_repository.max(1))
            .then_some(Full::Repository)
    }

    fn on_node(&self, node: &str) -> usize {
        self.counted().filter(|running| running.node.as_deref() == Some(node)).count()
    }

    fn on_repository(&self, repository: &str) -> usize {
        self.counted().filter(|running| running.repository == repository).count()
    }

    /// How many of the rivals start before it when groups alternate.
    fn before(&self, candidate: &Candidate, rivals: &[&Candidate]) -> usize {
        let own = rivals.iter().filter(|rival| rival.group == candidate.group);
        let place = own.take_while(|rival| rival.task != candidate.task).count();
        let turn = |group: &str| self.turns.get(group).copied().unwrap_or_default();
        let mut others: BTreeMap<&str, usize> = BTreeMap::new();
        for rival in rivals.iter().filter(|rival| rival.group != candidate.group) {
            *others.entry(&rival.group).or_default() += 1;
        }
        let rounds = |group: &str| place + usize::from(turn(group) < turn(&candidate.group));
        place + others.into_iter().map(|(group, count)| count.min(rounds(group))).sum::<usize>()
    }

    fn next_turn(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Forgets groups and lanes without waiting movers.
    fn forget(&mut self) {
        let waiting = &self.waiting;
        self.turns.retain(|group, _| waiting.iter().any(|candidate| candidate.group == *group));
        self.kept.retain(|lane, _| waiting.iter().any(|candidate| candidate.lane() == *lane));
    }
}

fn same_place(full: Full, one: &Candidate, other: &Candidate) -> bool {
    match full {
        Full::Total => true,
        Full::Node => one.node == other.node,
        Full::Repository => one.repository == other.repository,
    }
}

#[cfg(test)]
mod tests;
