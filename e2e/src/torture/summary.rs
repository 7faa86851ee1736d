//! The summary that is printed at the end of a run.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub seed: u64,
    pub cycles: u64,
    /// By operation: how many were started, succeeded, failed, were killed.
    pub operations: BTreeMap<String, [u64; 4]>,
    pub killed_at_a_request: u64,
    pub killed_by_the_clock: u64,
    pub faults: BTreeMap<String, u64>,
    pub acknowledged: u64,
    /// Snapshots written by a process that died before it could acknowledge them; they must be complete, too.
    pub found: u64,
    pub forgotten: u64,
    pub restored: u64,
    pub restic_checks: u64,
    pub took: Duration,
}

impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.faults.values().sum();
        let faults: Vec<String> = self.faults.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        writeln!(f, "seed {}: {} cycles in {} s", self.seed, self.cycles, self.took.as_secs())?;
        let kills = self.killed_at_a_request + self.killed_by_the_clock;
        writeln!(
            f,
            "{kills} killed: {} at a request, {} by the clock",
            self.killed_at_a_request, self.killed_by_the_clock
        )?;
        writeln!(f, "{all} faults: {}", faults.join(", "))?;
        writeln!(f, "{:<22}{:>6}{:>6}{:>8}{:>8}", "operation", "begun", "well", "error", "killed")?;
        for (name, [begun, well, error, killed]) in &self.operations {
            writeln!(f, "{name:<22}{begun:>6}{well:>6}{error:>8}{killed:>8}")?;
        }
        writeln!(
            f,
            "snapshots: {} acknowledged, {} written and not acknowledged, {} forgotten",
            self.acknowledged, self.found, self.forgotten
        )?;
        writeln!(
            f,
            "restored and compared: {}; read in full by genuine restic: {} times",
            self.restored, self.restic_checks
        )?;
        write!(f, "lost: 0")
    }
}
