//! How far a restore has come and what it waits for, read by the controller while it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lifeboat_plan::items::waits::{Wait, Waits};

use lifeboat_control::locked;

/// The progress of one restore.
#[derive(Debug, Default)]
pub struct Progress {
    pub total: AtomicUsize,
    pub restored: AtomicUsize,
    /// How many items wait for something.
    pub waiting: AtomicUsize,
    /// What the waiting items wait for, by their work.
    waits: Mutex<BTreeMap<usize, Wait>>,
    /// The waits when an earlier server was interrupted.
    earlier: Waits,
}

/// A waiting item, until this is dropped.
pub struct Waiting {
    progress: Arc<Progress>,
    work: usize,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        locked(&self.progress.waits).remove(&self.work);
    }
}

impl Progress {
    /// The progress of a restore that an earlier server interrupted; `annotation` has its waits.
    pub fn going_on(annotation: Option<&str>) -> Self {
        Self { earlier: Waits::read(annotation), ..Self::default() }
    }

    /// A summary of the waits.
    pub fn waits(&self) -> Waits {
        Waits::new(locked(&self.waits).values().cloned().collect())
    }

    /// Records that an item waits. If an earlier server saw it waiting, it has waited since then.
    pub fn wait(self: &Arc<Self>, work: usize, mut wait: Wait) -> Waiting {
        let same = |one: &&Wait| one.item == wait.item && one.action == wait.action;
        if let Some(earlier) = self.earlier.waits.iter().find(same) {
            wait.since = wait.since.min(earlier.since);
        }
        locked(&self.waits).insert(work, wait);
        Waiting { progress: Arc::clone(self), work }
    }

    /// The total number of items, and the number of restored ones.
    pub fn now(&self) -> (usize, usize) {
        (self.total.load(Ordering::Relaxed), self.restored.load(Ordering::Relaxed))
    }
}
