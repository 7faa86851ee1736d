//! The queue of movers: who runs, who waits, who starts next, and why somebody waits. At most so many run at once in all,
//! on one node and on one repository: 500 schedules at midnight are not 500 pods. Groups (backups, restores) take turns,
//! so that a small one does not wait for all volumes of a large one; within a group the first comes first.
//!
//! Where the first of a group cannot start because its node or repository is full, another of the group may. It then keeps
//! the turn that it had, so that nobody who comes later gets the place that it waits for. The server drives it.

use std::collections::BTreeMap;

use super::MoverJob;

/// How many run at once. None of them is taken as less than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub total: usize,
    pub on_node: usize,
    pub on_repository: usize,
}

/// What the queue needs to know of a mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub uid: String,
    pub group: String,
    /// None where the scheduler finds one.
    pub node: Option<String>,
    pub repository: String,
}

impl Candidate {
    pub fn of(job: &MoverJob) -> Self {
        Self {
            uid: job.uid.clone(),
            group: job.group.clone(),
            node: job.place.node().map(str::to_owned),
            repository: job.repository.clone(),
        }
    }

    /// Those of one lane wait for the same.
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

/// Who waits and who runs.
#[derive(Clone, Debug)]
pub struct Queue {
    limits: Limits,
    /// In the order of their arrival.
    waiting: Vec<Candidate>,
    running: BTreeMap<String, Candidate>,
    /// When each group that waits had its last turn, or came.
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
            turns: BTreeMap::new(),
            kept: BTreeMap::new(),
            clock: 0,
        }
    }

    /// The scheduler found a node for one that runs: it counts there.
    pub fn settle(&mut self, uid: &str, node: &str) {
        if let Some(candidate) = self.running.get_mut(uid) {
            candidate.node.get_or_insert_with(|| node.to_owned());
        }
    }

    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Waits from now on, behind the others of its group, unless it runs or waits already.
    pub fn arrive(&mut self, candidate: Candidate) {
        if self.is_running(&candidate.uid) || self.waiting.iter().any(|other| other.uid == candidate.uid) {
            return;
        }
        if !self.turns.contains_key(&candidate.group) {
            let turn = self.next_turn();
            self.turns.insert(candidate.group.clone(), turn);
        }
        self.waiting.push(candidate);
    }

    /// Runs already, as its Job shows: it counts, whatever the limits are.
    pub fn adopt(&mut self, candidate: Candidate) {
        self.waiting.retain(|other| other.uid != candidate.uid);
        self.running.insert(candidate.uid.clone(), candidate);
        self.forget();
    }

    /// Neither waits nor runs any more.
    pub fn leave(&mut self, uid: &str) {
        self.waiting.retain(|candidate| candidate.uid != uid);
        self.running.remove(uid);
        self.forget();
    }

    /// Starts everyone who may: they count as running from now on.
    pub fn start(&mut self) {
        while let Some(place) = self.next() {
            let candidate = self.waiting.remove(place);
            self.kept.remove(&candidate.lane());
            let turn = self.next_turn();
            self.turns.insert(candidate.group.clone(), turn);
            self.running.insert(candidate.uid.clone(), candidate);
        }
        self.forget();
    }

    pub fn is_running(&self, uid: &str) -> bool {
        self.running.contains_key(uid)
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Why this one waits and how many are before it; None where it does not wait.
    pub fn words(&self, uid: &str) -> Option<String> {
        let candidate = self.waiting.iter().find(|candidate| candidate.uid == uid)?;
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
            _ => ("in all".to_owned(), self.running.len(), self.limits.total, "--movers-at-once"),
        };
        let movers = if count == 1 { "1 mover runs".to_owned() } else { format!("{count} movers run") };
        let reason = format!("{movers} {place} (limit {}, {flag})", limit.max(1));
        Some(match before {
            0 => format!("waits for a turn: {reason}; it is the next"),
            1 => format!("waits for a turn: {reason}; 1 is before it"),
            _ => format!("waits for a turn: {reason}; {before} are before it"),
        })
    }

    /// The place among those who wait of the one who starts next.
    fn next(&mut self) -> Option<usize> {
        // The first of each lane, by turn, then by arrival: places are in that order.
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
        if self.running.len() >= self.limits.total.max(1) {
            return Some(Full::Total);
        }
        if candidate.node.as_ref().is_some_and(|node| self.on_node(node) >= self.limits.on_node.max(1)) {
            return Some(Full::Node);
        }
        (self.on_repository(&candidate.repository) >= self.limits.on_repository.max(1))
            .then_some(Full::Repository)
    }

    fn on_node(&self, node: &str) -> usize {
        self.running.values().filter(|running| running.node.as_deref() == Some(node)).count()
    }

    fn on_repository(&self, repository: &str) -> usize {
        self.running.values().filter(|running| running.repository == repository).count()
    }

    /// How many of the rivals start before it when groups take turns.
    fn before(&self, candidate: &Candidate, rivals: &[&Candidate]) -> usize {
        let own = rivals.iter().filter(|rival| rival.group == candidate.group);
        let place = own.take_while(|rival| rival.uid != candidate.uid).count();
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

    /// What is kept of groups and lanes that nobody waits in.
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
