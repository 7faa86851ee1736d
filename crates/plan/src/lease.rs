//! Leader election: takes the Lease as it is now and how long this process has seen it unchanged, gives the next
//! step. Called by `cluster::lease`. The rule is client-go's: a holder counts as dead once *this process* has seen
//! the record unchanged for long enough. Timestamps are never compared with the local clock, so clock skew cannot
//! lead to two leaders.

use std::time::Duration;

use jiff::Timestamp;

/// The time settings of the election. Leadership moves at the latest `duration + retry` after a leader died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long a record may stay unchanged before another replica may take it.
    pub duration: Duration,
    /// How long a leader tries to renew before it steps down; shorter than `duration`.
    pub renew_deadline: Duration,
    /// Pause between two attempts.
    pub retry: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// The content of a Lease object.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// The holder; empty after a leader stepped down.
    pub holder: String,
    pub acquired: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
    pub transitions: i32,
}

/// The next step of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write this record: the lease is free, expired, or already held by this process.
    Take(LeaseRecord),
    /// Another replica leads; check again after the retry time.
    Wait,
}

/// Decides for the process named `me`. `unchanged_for` is how long this process has seen `current` unchanged.
pub fn step(
    me: &str,
    current: Option<&LeaseRecord>,
    unchanged_for: Duration,
    now: Timestamp,
    times: LeaseTimes,
) -> Step {
    let Some(current) = current else {
        return Step::Take(LeaseRecord {
            holder: me.to_owned(),
            acquired: Some(now),
            renewed: Some(now),
            transitions: 0,
        });
    };
    if current.holder == me {
        return Step::Take(LeaseRecord { renewed: Some(now), ..current.clone() });
    }
    if !current.holder.is_empty() && unchanged_for < times.duration {
        return Step::Wait;
    }
    Step::Take(LeaseRecord {
        holder: me.to_owned(),
        acquired: Some(now),
        renewed: Some(now),
        transitions: current.transitions.saturating_add(1),
    })
}

/// The record of a leader that steps down: other replicas may take it at once.
pub fn released(current: &LeaseRecord) -> LeaseRecord {
    LeaseRecord { holder: String::new(), ..current.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn held_by(holder: &str) -> LeaseRecord {
        LeaseRecord { holder: holder.into(), acquired: None, renewed: None, transitions: 3 }
    }

    #[rstest]
    #[case::nobody_ever_led(None, 0, Some(0))]
    #[case::the_leader_stepped_down(Some(held_by("")), 0, Some(4))]
    #[case::another_leads_and_renews(Some(held_by("other")), 14, None)]
    #[case::another_was_silent_for_the_whole_duration(Some(held_by("other")), 15, Some(4))]
    #[case::it_is_ours_and_is_renewed_without_a_transition(Some(held_by("me")), 0, Some(3))]
    #[case::it_is_ours_though_we_were_asleep(Some(held_by("me")), 60, Some(3))]
    fn takes_the_lease_only_when_it_may(
        #[case] current: Option<LeaseRecord>,
        #[case] unchanged_for: u64,
        #[case] transitions: Option<i32>,
    ) {
        let now = Timestamp::UNIX_EPOCH;
        let step =
            step("me", current.as_ref(), Duration::from_secs(unchanged_for), now, LeaseTimes::default());
        match (step, transitions) {
            (Step::Wait, None) => {}
            (Step::Take(record), Some(transitions)) => {
                assert_eq!((record.holder.as_str(), record.transitions), ("me", transitions));
                assert_eq!(record.renewed, Some(now));
            }
            (step, _) => panic!("unexpected {step:?}"),
        }
    }

    #[test]
    fn a_leader_gives_up_before_others_may_take_over() {
        let times = LeaseTimes::default();
        assert!(times.renew_deadline + times.retry < times.duration);
    }
}
