//! How long a transfer may take: in the queue, and from the start of its mover. Time in the queue does not count against
//! the limit of the transfer itself, because it depends on how many others there are. Called by crate `transfer`, and by
//! backups and restores that wait for their transfers.

use std::time::Duration;

use jiff::Timestamp;

use super::attempts::ATTEMPTS;

/// How much longer than all its limits together a transfer is waited for: the server may have been restarted.
const GRACE: Duration = Duration::from_mins(10);

/// When the limit of a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// With the object: the limit is that of a whole session.
    FromCreation,
    /// With each mover, which may wait this long for its turn in the queue.
    FromStart { queue: Duration },
}

/// The time limits of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// When the object was created.
    pub created: Timestamp,
    pub limit: Duration,
    pub counted: Counted,
}

impl TimeLimits {
    /// The time at which the mover of an attempt must have got its turn; None if only its end has a limit. The mover of
    /// an attempt before may have used its whole time.
    pub fn start_by(&self, attempt: u64) -> Option<Timestamp> {
        let Counted::FromStart { queue } = self.counted else { return None };
        let before = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        Some(after(self.created, queue.saturating_add(self.limit.saturating_mul(before))))
    }

    /// When the mover that starts now has to end.
    pub fn end_of_mover(&self, now: Timestamp) -> Timestamp {
        match self.counted {
            Counted::FromCreation => after(self.created, self.limit),
            Counted::FromStart { .. } => after(now, self.limit),
        }
    }

    /// The time after which nothing is started or waited for in an attempt. `started`: its mover has got its turn, as far
    /// as is known.
    pub fn over(&self, attempt: u64, started: bool) -> Timestamp {
        match self.start_by(attempt) {
            Some(start_by) if started => after(start_by, self.limit),
            Some(start_by) => start_by,
            None => after(self.created, self.limit),
        }
    }
}

/// How long the end of a transfer with these limits is waited for, from its creation: at the end of each limit its own
/// controller ends it, so this is reached only if no controller works.
pub fn longest(limit: Duration, queue: Duration) -> Duration {
    let attempts = u32::try_from(ATTEMPTS).unwrap_or(u32::MAX);
    limit.saturating_mul(attempts).saturating_add(queue).saturating_add(GRACE)
}

fn after(time: Timestamp, more: Duration) -> Timestamp {
    time.checked_add(more).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lifeboat_api::common::TaskId;

    use super::*;
    use crate::transfer::movers::queue::{Candidate, Limits, Queue};

    const HOUR: Duration = Duration::from_hours(1);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    fn of_volume() -> TimeLimits {
        let counted = Counted::FromStart { queue: 24 * HOUR };
        TimeLimits { created: at(0), limit: 4 * HOUR, counted }
    }

    #[test]
    fn the_limit_of_a_volume_counts_from_the_start_of_each_mover() {
        let limits = of_volume();
        assert_eq!((limits.start_by(1), limits.end_of_mover(at(20))), (Some(at(24)), at(24)));
        assert_eq!((limits.over(1, false), limits.over(1, true)), (at(24), at(28)));
        assert_eq!((limits.start_by(2), limits.over(2, true)), (Some(at(28)), at(32)));
        assert!(longest(limits.limit, 24 * HOUR) > 32 * HOUR, "it is waited for until its last moment");
    }

    #[test]
    fn the_limit_of_a_session_counts_from_its_creation() {
        let limits = TimeLimits { counted: Counted::FromCreation, ..of_volume() };
        assert_eq!((limits.start_by(1), limits.end_of_mover(at(3))), (None, at(4)));
        assert_eq!((limits.over(1, false), limits.over(2, true)), (at(4), at(4)));
    }

    /// 500 volumes of five minutes in one namespace: the last mover starts five hours after the objects were created.
    #[test]
    fn volumes_that_wait_longer_than_their_limit_are_not_late() {
        let mut queue = Queue::new(Limits { total: 20, on_node: 100, on_repository: 8 });
        for number in 0..500 {
            queue.arrive(Candidate {
                task: TaskId::new(format!("v{number}-1")),
                group: "nightly".to_owned(),
                node: None,
                repository: "default/shop".to_owned(),
                ..Candidate::default()
            });
        }
        let (limits, mut now, mut ends) = (of_volume(), at(0), BTreeMap::new());
        loop {
            queue.start();
            for task in queue.running_tasks() {
                assert!(now < limits.over(1, false), "{task} is late at {now}");
                let end = now + Duration::from_mins(5);
                assert!(end <= limits.end_of_mover(now));
                ends.entry(task).or_insert(end);
            }
            let Some(next) = queue.running_tasks().iter().map(|task| ends[task]).min() else { break };
            now = next;
            ends.iter().filter(|(_, end)| **end == now).for_each(|(task, _)| queue.leave(task));
        }
        assert_eq!(ends.len(), 500);
        assert!(now > at(4) + 2 * HOUR / 2, "longer than the limit of one volume: {now}");
    }
}
