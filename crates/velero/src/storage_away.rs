//! Shows that a backup or restore waits for storage that is away: as one of the waits in the annotation of its object.
//! Called by the tasks that write the progress of a pass and of a run.

use std::sync::Mutex;
use std::time::Duration;

use lifeboat_control::{Clock, locked};
use lifeboat_plan::items::waits::Wait;
use lifeboat_store::Outage;
use tokio::time::Instant;

/// A shorter absence is not shown: the restart of a gateway is nothing to look at.
const SHOWN_AFTER: Duration = Duration::from_secs(10);

/// The storage of one backup or restore.
pub(crate) struct StorageAway {
    /// `the backup` or `the restore`.
    what: &'static str,
    /// The storage, for people.
    storage: String,
    outage: Outage,
    clock: Clock,
    /// The outage that was shown last, by its start: its texts stay as they were first shown.
    shown: Mutex<Option<(Instant, Wait)>>,
}

impl StorageAway {
    pub(crate) fn new(what: &'static str, storage: String, outage: &Outage, clock: &Clock) -> Self {
        let (outage, clock) = (outage.clone(), clock.clone());
        Self { what, storage, outage, clock, shown: Mutex::default() }
    }

    /// The wait to show now; None if storage answers.
    pub(crate) fn now(&self) -> Option<Wait> {
        let away = self.outage.now().filter(|away| away.since.elapsed() >= SHOWN_AFTER)?;
        let mut shown = locked(&self.shown);
        if let Some((since, wait)) = shown.as_ref()
            && *since == away.since
        {
            return Some(wait.clone());
        }
        let now = self.clock.now();
        let since = now.checked_sub(away.since.elapsed()).unwrap_or(now);
        let wait = Wait::for_storage(self.what, &self.storage, &away.problem, since);
        *shown = Some((away.since, wait.clone()));
        Some(wait)
    }
}
