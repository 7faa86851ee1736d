//! Plans a cycle: takes the seed, the number of the cycle and the ledger, and returns the operation and its faults.
//! Does not access the disk.

use std::path::Path;
use std::time::Duration;

use super::ledger::Ledger;
use super::task::{DIRECTORIES, Death, End, HOST, Operation, Trouble, WhichRepository};
use crate::tree::Random;

/// If there are more snapshots than this, some are forgotten first, because verifying takes time.
const MOST: usize = 12;

/// After taking the exclusive lock a process pauses for this long, which is no interesting moment for a kill.
const EXCLUSIVE_PAUSE: Duration = Duration::from_millis(200);

/// The plan of a cycle.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) operation: Operation,
    pub(super) trouble: Trouble,
    /// The process is killed after this time.
    pub(super) kill_after: Option<Duration>,
    /// Whether locks of dead workers are left for the next worker, which gets their owners' names.
    pub(super) leave_locks: bool,
    /// A concurrent backup of another source by another process.
    pub(super) beside: Option<Box<Plan>>,
}

/// The random numbers of one cycle, independent of how many an earlier cycle used.
pub(super) fn random_of(seed: u64, cycle: u64) -> Random {
    let mut random = Random::new(seed ^ cycle.wrapping_mul(0xd134_2543_de82_ef95));
    random.next();
    random
}

/// `sources`: of backups, and of concurrent backups.
pub(super) fn plan(
    random: &mut Random,
    cycle: u64,
    ledger: &Ledger,
    sources: [&Path; 2],
    target: &Path,
) -> Plan {
    let operation = operation(random, cycle, ledger, sources[0], target);
    let mut plan = fate(random, operation);
    // A policy would also apply to the snapshots of a concurrent process, and the expected result would be unknown.
    if random.below(4) == 0 && !matches!(plan.operation, Operation::ForgetByPolicy { .. }) {
        let other = Operation::Backup { source: sources[1].to_owned() };
        plan.beside = Some(Box::new(fate(random, other)));
    }
    plan
}

/// The faults of an operation.
fn fate(random: &mut Random, operation: Operation) -> Plan {
    let is_ours = !matches!(operation, Operation::Restic { .. });
    let mut trouble = Trouble {
        seed: random.next(),
        faults: [0, 0, 0, 5, 30, 120][random.below(6)],
        stale: [0, 0, 0, 50, 300][random.below(5)],
        attempts: [1, 4, 4][random.below(3)],
        death: None,
    };
    let (dice, scale, after) = (random.below(20), random.below(7), random.below(2) == 0);
    let request = 1 + u64::try_from(random.below(4 << scale)).unwrap();
    let only = random.below(DIRECTORIES.len());
    trouble.death = match dice {
        0..4 => Some(Death { request, after, only: None }),
        4..8 => Some(Death { request: 1 + request % 3, after, only: Some(only) }),
        _ => None,
    };
    let longest = if is_ours { 16 << scale } else { 100 << scale.min(4) };
    let delay = Duration::from_millis(u64::try_from(random.below(longest)).unwrap());
    let waits = if is_exclusive(&operation) { EXCLUSIVE_PAUSE } else { Duration::ZERO };
    let kill_after = ((8..13).contains(&dice)).then_some(waits + delay);
    let trouble = if is_ours { trouble } else { Trouble::default() };
    Plan { operation, trouble, kill_after, leave_locks: random.below(2) == 0, beside: None }
}

fn is_exclusive(operation: &Operation) -> bool {
    use Operation::{ChangePassword, Forget, ForgetByPolicy, Prune};
    matches!(operation, Forget { .. } | ForgetByPolicy { .. } | Prune { .. } | ChangePassword { .. })
}

fn operation(random: &mut Random, cycle: u64, ledger: &Ledger, source: &Path, target: &Path) -> Operation {
    let source = source.to_owned();
    let (main, second) = (ledger.at(WhichRepository::Main), ledger.at(WhichRepository::Second));
    let seed = random.next();
    let dice = random.below(100);
    let place = if second.len() > 2 && random.below(4) == 0 {
        WhichRepository::Second
    } else {
        WhichRepository::Main
    };
    for (place, kept) in [(WhichRepository::Main, &main), (WhichRepository::Second, &second)] {
        if kept.len() > MOST {
            let snapshots = kept.iter().take(MOST / 2).map(|kept| kept.id.clone()).collect();
            return Operation::Forget { place, snapshots };
        }
    }
    if main.len() < 3 {
        return Operation::Backup { source };
    }
    let mut some = |count: usize| {
        let ids = (0..count).filter_map(|_| random.pick(&main).map(|kept| kept.id.clone()));
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids.dedup();
        ids
    };
    let end = [End::Commit, End::Commit, End::Discard, End::Nothing][usize::try_from(seed % 4).unwrap()];
    match dice {
        0..28 => Operation::Backup { source },
        28..35 => Operation::Stream { seed, length: usize::try_from(seed % 3_000_000).unwrap() + 1 },
        35..45 => Operation::Prepared { source, end },
        45..52 if place == WhichRepository::Main => Operation::Forget { place, snapshots: some(2) },
        45..52 => Operation::Forget { place, snapshots: vec![second[0].id.clone()] },
        52..56 => Operation::ForgetByPolicy { place, keep_last: 2 + seed % 6 },
        56..74 => {
            let grace_ms = if seed.is_multiple_of(2) { 0 } else { seed % 10_000 };
            Operation::Prune { place, grace_ms, thorough: !seed.is_multiple_of(3) }
        }
        74..82 => Operation::Restore { snapshot: some(1).remove(0), target: target.to_owned() },
        82..86 => Operation::ChangePassword { password: format!("password of cycle {cycle}") },
        86..92 => Operation::Copy { snapshots: some(3) },
        92..96 => restic(&["backup", "--json", "--host", HOST, source.to_str().unwrap()]),
        96..98 => restic(&["forget", &some(1)[0]]),
        _ => restic(&["prune", "--max-unused", "0"]),
    }
}

fn restic(arguments: &[&str]) -> Operation {
    Operation::Restic { arguments: arguments.iter().map(|&argument| argument.to_owned()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_plans_the_same_cycle_again() {
        let planned = |seed| {
            let plans = (1..50).map(|cycle| {
                let mut random = random_of(seed, cycle);
                let sources = [Path::new("/s"), Path::new("/o")];
                plan(&mut random, cycle, &Ledger::default(), sources, Path::new("/t"))
            });
            plans.map(|plan| format!("{plan:?}")).collect::<Vec<_>>()
        };
        assert_eq!(planned(1), planned(1));
        assert_ne!(planned(1), planned(2));
    }
}
