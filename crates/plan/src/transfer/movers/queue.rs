//! The queue of movers: which movers run, which wait and why, and which one starts next. The number of running movers
//! is limited in total, per node and per repository: 500 schedules at midnight do not start 500 pods. Groups
//! (backups, restores) alternate, so that a small one does not wait for all volumes of a large one; within a group,
//! movers start in the order of arrival.
//!
//! If the first mover of a group cannot start because its node or repository is full, another one of the group may.
//! The first one keeps its turn, so that no later mover takes the slot that it waits for. Driven by the server.
//!
//! A place can be reserved for pods before hooks quiesce them, so that they are not quiesced while their volumes wait.
//! Reservations wait for their turn as movers do. The first mover of the pods takes the place of the reservation, and the
//! next one takes it over; their other movers start before all that are not waited for by a quiesced pod.

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

/// The queue's view of a mover, or of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub task: TaskId,
    pub group: String,
    /// None if the scheduler chooses the node.
    pub node: Option<String>,
    pub repository: String,
    /// The UIDs of the pods whose volumes it reads.
    pub pods: BTreeSet<String>,
    /// It reserves a place for movers of these pods in the same group.
    pub reserves: bool,
}

impl Default for Candidate {
    /// A mover of no pod.
    fn default() -> Self {
        Self {
            task: TaskId::new(String::new()),
            group: String::new(),
            node: None,
            repository: String::new(),
            pods: BTreeSet::new(),
            reserves: false,
        }
    }
}

impl Candidate {
    pub fn of(job: &MoverJob) -> Self {
        Self {
            task: job.task.clone(),
            group: job.group.clone(),
            node: job.place.node().map(str::to_owned),
            repository: job.repository.clone(),
            ..Self::default()
        }
    }

    /// Whether a place was reserved for this mover, there or anywhere else.
    fn is_expected_by(&self, reservation: &Self) -> bool {
        reservation.reserves
            && !self.reserves
            && self.group == reservation.group
            && !self.pods.is_disjoint(&reservation.pods)
    }

    /// Whether this mover takes the place of the reservation.
    fn takes_place_of(&self, reservation: &Self) -> bool {
        self.is_expected_by(reservation)
            && self.node == reservation.node
            && self.repository == reservation.repository
    }
}

/// Movers of the same lane wait for the same limits: group, node, repository, and whether a quiesced pod waits for them.
type Lane = (String, Option<String>, String, bool);

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

    /// The running movers that count towards the limits, and the reservations whose place no mover has taken.
    fn counted(&self) -> impl Iterator<Item = &Candidate> {
        let running = self.running.iter().filter(|(task, _)| !self.parked.contains(*task));
        running.map(|(_, running)| running).filter(|running| !self.is_taken(running))
    }

    /// A parked mover does not count, so it takes no place either.
    fn is_taken(&self, reservation: &Candidate) -> bool {
        let mut movers = self.running.iter().filter(|(task, _)| !self.parked.contains(*task));
        reservation.reserves && movers.any(|(_, mover)| mover.takes_place_of(reservation))
    }

    /// What counts towards the limits if this candidate starts, beside itself. A mover for which a quiesced pod waits, and which
    /// cannot take the place that is reserved for the pod (it is for another node), starts beside every reservation: that one is
    /// given back only after the mover has ended, and pods that hold reservations must not wait for each other.
    fn counted_beside<'a>(&'a self, candidate: &'a Candidate) -> impl Iterator<Item = &'a Candidate> {
        let has_place = self.running.values().any(|running| candidate.takes_place_of(running));
        let is_beside_all = !has_place && self.is_expected(candidate);
        self.counted()
            .filter(move |running| !(candidate.takes_place_of(running) || is_beside_all && running.reserves))
    }

    /// Whether a quiesced pod waits for this mover.
    fn is_expected(&self, candidate: &Candidate) -> bool {
        self.running.values().any(|running| candidate.is_expected_by(running))
    }

    fn lane(&self, candidate: &Candidate) -> Lane {
        let is_expected = self.is_expected(candidate);
        (candidate.group.clone(), candidate.node.clone(), candidate.repository.clone(), is_expected)
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
            self.kept.remove(&self.lane(&candidate));
            let turn = self.next_turn();
            self.turns.insert(candidate.group.clone(), turn);
            self.running.insert(candidate.task.clone(), candidate);
        }
        self.forget();
    }

    pub fn is_running(&self, task: &TaskId) -> bool {
        self.running.contains_key(task)
    }

    /// The number of running movers.
    pub fn running(&self) -> usize {
        self.running.values().filter(|candidate| !candidate.reserves).count()
    }

    pub fn running_tasks(&self) -> Vec<TaskId> {
        self.running.keys().cloned().collect()
    }

    /// The number of waiting movers.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().filter(|candidate| !candidate.reserves).count()
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
            heads.entry(self.lane(candidate)).or_insert(place);
        }
        let turn = |lane: &Lane| {
            let group = self.turns.get(&lane.0).copied().unwrap_or_default();
            self.kept.get(lane).copied().unwrap_or(group)
        };
        // Those for which a quiesced pod waits come first.
        let mut heads: Vec<(bool, u64, usize, Lane)> =
            heads.into_iter().map(|(lane, place)| (!lane.3, turn(&lane), place, lane)).collect();
        heads.sort();
        let chosen =
            heads.iter().position(|(_, _, place, _)| self.full_for(&self.waiting[*place]).is_none())?;
        let place = heads[chosen].2;
        for (_, turn, _, lane) in heads.into_iter().take(chosen) {
            self.kept.entry(lane).or_insert(turn);
        }
        Some(place)
    }

    fn full_for(&self, candidate: &Candidate) -> Option<Full> {
        let beside = |fits: &dyn Fn(&Candidate) -> bool| {
            self.counted_beside(candidate).filter(|running| fits(running)).count()
        };
        if beside(&|_| true) >= self.limits.total.max(1) {
            return Some(Full::Total);
        }
        let on_node = |running: &Candidate| running.node == candidate.node;
        if candidate.node.is_some() && beside(&on_node) >= self.limits.on_node.max(1) {
            return Some(Full::Node);
        }
        let on_repository = |running: &Candidate| running.repository == candidate.repository;
        (beside(&on_repository) >= self.limits.on_repository.max(1)).then_some(Full::Repository)
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
        let lanes: BTreeSet<Lane> = waiting.iter().map(|candidate| self.lane(candidate)).collect();
        self.kept.retain(|lane, _| lanes.contains(lane));
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
