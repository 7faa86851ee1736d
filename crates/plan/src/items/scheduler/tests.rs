use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn entry(barrier: usize, after: &[usize]) -> Entry {
    Entry { barrier, after: after.to_vec(), dormant: false }
}

fn started(scheduler: &mut Scheduler) -> Vec<usize> {
    std::iter::from_fn(|| scheduler.start()).collect()
}

#[test]
fn a_barrier_starts_when_the_one_before_it_has_ended() {
    let mut scheduler = Scheduler::new(vec![entry(0, &[]), entry(0, &[]), entry(2, &[])]);
    assert_eq!(started(&mut scheduler), [0, 1]);
    scheduler.end(0);
    assert_eq!(started(&mut scheduler), Vec::<usize>::new());
    scheduler.end(1);
    assert_eq!(started(&mut scheduler), [2]);
    scheduler.end(2);
    assert!(scheduler.is_finished());
}

#[test]
fn a_waiting_pod_holds_only_its_controllers() {
    // Two pods, a replica set of the first, its deployment, another deployment.
    let (pod, replica_set, deployment, other) = (0, 2, 3, 4);
    let mut scheduler =
        Scheduler::new(vec![entry(0, &[2]), entry(0, &[]), entry(1, &[0]), entry(2, &[0, 2]), entry(2, &[])]);
    started(&mut scheduler);
    scheduler.wait(pod);
    scheduler.end(1);
    assert_eq!(started(&mut scheduler), [other]);
    scheduler.end(other);
    assert_eq!(scheduler.waiting().collect::<Vec<_>>(), [pod]);
    scheduler.end(pod);
    assert_eq!(started(&mut scheduler), [replica_set]);
    scheduler.end(replica_set);
    assert_eq!(started(&mut scheduler), [deployment]);
}

#[test]
fn an_additional_item_starts_ahead_of_its_barrier() {
    let (pod, class) = (0, 1);
    let mut scheduler = Scheduler::new(vec![entry(0, &[]), entry(1, &[])]);
    started(&mut scheduler);
    assert_eq!(scheduler.need(pod, class), Need::Start);
    scheduler.end(class);
    assert_eq!(scheduler.need(pod, class), Need::Done);
    scheduler.end(pod);
    assert!(scheduler.is_finished());
}

#[test]
fn an_item_that_needs_a_waiting_item_waits_with_it() {
    let (volume, claim, later) = (0, 1, 2);
    let mut scheduler = Scheduler::new(vec![entry(0, &[]), entry(0, &[]), entry(1, &[])]);
    started(&mut scheduler);
    assert_eq!(scheduler.need(claim, volume), Need::Wait);
    scheduler.wait(volume);
    assert_eq!(started(&mut scheduler), [later]);
    assert_eq!(scheduler.waiting().collect::<Vec<_>>(), [volume, claim]);
}

#[test]
fn a_dormant_item_starts_only_when_it_is_asked_for() {
    let dormant = Entry { dormant: true, ..entry(0, &[]) };
    let mut scheduler = Scheduler::new(vec![dormant.clone(), entry(1, &[]), dormant]);
    assert_eq!(started(&mut scheduler), [1]);
    assert_eq!(scheduler.need(1, 0), Need::Start);
    scheduler.end(1);
    assert!(!scheduler.is_finished());
    scheduler.end(0);
    assert!(scheduler.is_finished());
}

#[test]
fn two_items_that_need_each_other_go_on() {
    let mut scheduler = Scheduler::new(vec![entry(0, &[]), entry(1, &[])]);
    started(&mut scheduler);
    assert_eq!(scheduler.need(0, 1), Need::Start);
    assert_eq!(scheduler.need(1, 0), Need::Circle);
    assert_eq!(scheduler.need(1, 1), Need::Circle);
}

#[test]
fn an_item_held_by_the_one_that_needs_it_starts_all_the_same() {
    let mut scheduler = Scheduler::new(vec![entry(0, &[]), entry(1, &[0])]);
    started(&mut scheduler);
    scheduler.wait(0);
    assert_eq!(started(&mut scheduler), Vec::<usize>::new());
    assert_eq!(scheduler.need(0, 1), Need::Start);
}

/// An event for the scheduler: an item, and what happens to it.
#[derive(Clone, Debug)]
enum Step {
    Start,
    Wait(usize),
    Need(usize, usize),
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Start),
        1 => any::<usize>().prop_map(Step::Wait),
        1 => any::<(usize, usize)>().prop_map(|(item, other)| Step::Need(item, other)),
        2 => any::<usize>().prop_map(Step::End),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Up to 24 items in up to 5 barriers, with dependencies in all directions, cycles included.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    (1_usize..24).prop_flat_map(|count| {
        let one = (0_usize..5, proptest::collection::vec(0..count, 0..4), proptest::bool::weighted(0.2));
        proptest::collection::vec(one, count).prop_map(|items| {
            let without_itself =
                |(item, (barrier, after, dormant)): (usize, (usize, Vec<usize>, bool))| Entry {
                    barrier,
                    dormant,
                    after: after
                        .into_iter()
                        .filter(|other| *other != item)
                        .collect::<BTreeSet<_>>()
                        .into_iter()
                        .collect(),
                };
            items.into_iter().enumerate().map(without_itself).collect()
        })
    })
}

/// The state around the scheduler: the items that were started, wait, were requested and have ended.
struct World {
    scheduler: Scheduler,
    entries: Vec<Entry>,
    started: BTreeSet<usize>,
    /// Items that wait, or depend on an item that waits.
    behind: BTreeSet<usize>,
    asked: Vec<(usize, usize)>,
    ended: BTreeSet<usize>,
}

impl World {
    fn new(entries: Vec<Entry>) -> Self {
        Self {
            scheduler: Scheduler::new(entries.clone()),
            entries,
            started: BTreeSet::new(),
            behind: BTreeSet::new(),
            asked: Vec::new(),
            ended: BTreeSet::new(),
        }
    }

    /// Items that depend on a waiting item, or requested one, may wait from now on, until they end.
    fn note_who_is_behind(&mut self) {
        loop {
            let before = self.behind.len();
            let open: BTreeSet<usize> = self.behind.difference(&self.ended).copied().collect();
            let after = |item: usize| self.entries[item].after.iter().any(|other| open.contains(other));
            let asked = self.asked.iter().filter(|(_, other)| open.contains(other)).map(|(item, _)| *item);
            self.behind
                .extend((0..self.entries.len()).filter(|item| after(*item)).chain(asked).collect::<Vec<_>>());
            if self.behind.len() == before {
                return;
            }
        }
    }

    fn start(&mut self) {
        let Some(item) = self.scheduler.start() else { return };
        assert!(self.started.insert(item), "item {item} started twice");
        for (other, entry) in self.entries.iter().enumerate() {
            let (mine, ended) = (self.entries[item].barrier, self.ended.contains(&other));
            let asleep = entry.dormant && !self.started.contains(&other);
            if entry.barrier >= mine || ended || asleep {
                continue;
            }
            assert!(
                entry.dormant || !self.entries[item].after.contains(&other),
                "{item} started before {other}, which it depends on"
            );
            assert!(
                self.behind.contains(&other) || entry.dormant,
                "{item} of barrier {mine} started while {other} of barrier {} was not done",
                entry.barrier
            );
        }
    }

    /// The `number`th running item that awaits nothing.
    fn free(&self, number: usize) -> Option<usize> {
        let awaits = |item: usize| {
            self.asked.iter().any(|(asking, other)| *asking == item && !self.ended.contains(other))
        };
        let free: Vec<usize> =
            self.started.difference(&self.ended).copied().filter(|item| !awaits(*item)).collect();
        (!free.is_empty()).then(|| free[number % free.len()])
    }

    fn step(&mut self, step: &Step) {
        self.note_who_is_behind();
        assert_eq!(self.scheduler.waiting_count(), self.scheduler.waiting().count());
        match step {
            Step::Start => self.start(),
            Step::Wait(number) => {
                if let Some(item) = self.free(*number) {
                    self.behind.insert(item);
                    self.scheduler.wait(item);
                }
            }
            Step::Need(number, other) => {
                if let Some(item) = self.free(*number) {
                    self.need(item, other % self.entries.len());
                }
            }
            Step::End(number) => {
                if let Some(item) = self.free(*number) {
                    self.ended.insert(item);
                    self.scheduler.end(item);
                }
            }
        }
        self.note_who_is_behind();
    }

    fn need(&mut self, item: usize, other: usize) {
        match self.scheduler.need(item, other) {
            Need::Done => assert!(self.ended.contains(&other)),
            Need::Start => {
                assert!(self.started.insert(other), "item {other} started twice");
                self.asked.push((item, other));
            }
            Need::Wait => self.asked.push((item, other)),
            Need::Circle => assert!(self.started.contains(&other)),
        }
    }

    /// Ends all items, without further requests.
    fn finish(&mut self) {
        for _ in 0..self.entries.len() * 3 {
            while self.started.len() < self.entries.len() {
                let before = self.started.len();
                self.start();
                if self.started.len() == before {
                    break;
                }
            }
            self.step(&Step::End(0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_item_starts_once_in_turn_and_nothing_locks_up(entries in entries(), steps in steps()) {
        let mut world = World::new(entries);
        for step in &steps {
            world.step(step);
        }
        world.finish();
        prop_assert!(world.scheduler.is_finished(), "stuck after {:?}", world.ended);
        let wanted = |item: &usize| !world.entries[*item].dormant;
        prop_assert!((0..world.entries.len()).filter(wanted).all(|item| world.ended.contains(&item)));
    }
}
