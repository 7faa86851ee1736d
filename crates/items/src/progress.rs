//! How far a restore has come and what it waits for, read by the controller while it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
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
    /// The waits when an earlier server was interrupted, of items that this server has not come to yet.
    earlier: Mutex<Vec<Wait>>,
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
    /// The progress of a restore that an earlier server interrupted; `annotation` has its waits. `started`: when the
    /// restore started, before which nothing waited, whatever the annotation says.
    pub fn going_on(annotation: Option<&str>, started: Option<Timestamp>) -> Self {
        let mut earlier = Waits::read(annotation).waits;
        // Whether storage is away now, this server sees by itself.
        earlier.retain(Wait::is_of_item);
        for wait in &mut earlier {
            wait.since = started.map_or(wait.since, |started| wait.since.max(started));
        }
        Self { earlier: Mutex::new(earlier), ..Self::default() }
    }

    /// A summary of the waits. Items that an earlier server saw waiting are in it until this server comes to them, so
    /// that another restart does not lose them.
    pub fn waits(&self) -> Waits {
        let mut all: Vec<Wait> = locked(&self.waits).values().cloned().collect();
        all.extend(locked(&self.earlier).iter().cloned());
        Waits::new(all)
    }

    /// Since when an item waits that an earlier server saw waiting.
    pub fn waits_since(&self, wait: &Wait) -> Option<Timestamp> {
        let earlier = locked(&self.earlier);
        earlier.iter().find(|one| one.is_of_same(wait)).map(|one| one.since)
    }

    /// Records that an item waits. If an earlier server saw it waiting, it has waited since then.
    pub fn wait(self: &Arc<Self>, work: usize, mut wait: Wait) -> Waiting {
        if let Some(since) = self.waits_since(&wait) {
            wait.since = wait.since.min(since);
            locked(&self.earlier).retain(|one| !one.is_of_same(&wait));
        }
        locked(&self.waits).insert(work, wait);
        Waiting { progress: Arc::clone(self), work }
    }

    /// An item has ended: what an earlier server saw it wait for is over.
    pub fn ended(&self, item: &str) {
        let mut earlier = locked(&self.earlier);
        if !earlier.is_empty() {
            earlier.retain(|one| !one.is_item(item));
        }
    }

    /// The total number of items, and the number of restored ones.
    pub fn now(&self) -> (usize, usize) {
        (self.total.load(Ordering::Relaxed), self.restored.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn wait(item: &str, since: i64) -> Wait {
        Wait::new(item, &[], "example.io/x", at(since))
    }

    fn shown(progress: &Progress) -> Vec<(String, i64)> {
        progress.waits().waits.into_iter().map(|wait| (wait.item, wait.since.as_second())).collect()
    }

    #[test]
    fn a_wait_survives_two_restarts_before_its_item_is_reached() {
        let annotation = Waits::new(vec![wait("pods/shop/a", 100), wait("pods/shop/b", 200)]).annotation();
        let second = Progress::going_on(annotation.as_deref(), Some(at(50)));
        let third = Arc::new(Progress::going_on(second.waits().annotation().as_deref(), Some(at(50))));
        assert_eq!(third.waits_since(&wait("pods/shop/a", 900)), Some(at(100)));
        let waiting = third.wait(7, wait("pods/shop/a", 900));
        assert_eq!(shown(&third), [("pods/shop/a".to_owned(), 100), ("pods/shop/b".to_owned(), 200)]);
        drop(waiting);
        third.ended("pods/shop/b");
        assert_eq!(shown(&third), []);
    }

    #[test]
    fn nothing_waited_before_the_restore_started() {
        let annotation = Waits::new(vec![wait("pods/shop/a", 100)]).annotation();
        let progress = Progress::going_on(annotation.as_deref(), Some(at(5000)));
        assert_eq!(progress.waits_since(&wait("pods/shop/a", 9000)), Some(at(5000)));
    }
}
