//! Counts what a backup will read, for its progress display: the same walk with the same filter.

use super::stat::Stat;
use super::walk::{Event, Walk};

/// The counts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanTotals {
    pub files: u64,
    pub directories: u64,
    /// Links, devices, pipes.
    pub others: u64,
    /// The size of all files.
    pub bytes: u64,
}

/// Counts, and calls `progress` from time to time. Stops early when `is_cancelled`. Problems are ignored here: the
/// backup itself reports them.
pub fn scan(
    walk: Walk<'_>,
    is_cancelled: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(ScanTotals),
) -> ScanTotals {
    let mut totals = ScanTotals::default();
    for event in walk {
        match event {
            Event::Enter(entered) if entered.is_above_targets => {}
            Event::Enter(_) => {
                if is_cancelled() {
                    break;
                }
                progress(totals);
                totals.directories += 1;
            }
            Event::Item(item) => totals.count(&item.stat),
            Event::Leave | Event::Problem(_) | Event::Warning(_) => {}
        }
    }
    progress(totals);
    totals
}

impl ScanTotals {
    fn count(&mut self, stat: &Stat) {
        if stat.is_file() {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(stat.size);
        } else {
            self.others += 1;
        }
    }
}
