//! Requests of a session that fail again and again while the API server is well. Since when they fail is in the status of the session
//! (condition `Interrupted`), so that neither an error that lasts nor a server that is restarted again and again keeps a session from
//! ending. An API server that is away is waited for without limit. Used by the engine, by hooks, and by the controllers of sessions.

use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_control::Backoff;
use lifeboat_plan::stash::state::conditions::ConditionType;

use super::record::SessionRecord;
use crate::patience::Patience;

/// How long the requests of a session are tried again.
pub(super) const LIMIT: Duration = Duration::from_mins(10);
/// How often a server tries them at least, although they fail for long according to the record of an earlier server.
const TRIES: u32 = 3;

/// What follows a request that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is sent again after this pause.
    Again(Duration),
    /// It is given up; the message is for people.
    GivenUp(String),
}

/// What the record of a session says about requests that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasted {
    /// The session cannot be read either: the API server is away, and that time does not count.
    Away,
    /// The requests fail for so long.
    For(Duration),
}

/// The record of since when requests fail.
#[async_trait]
pub(super) trait InterruptionRecord: Send + Sync {
    /// Records that requests fail, unless that is on record. `anew`: the time begins again. Fails only if another server writes the record.
    async fn interrupted(&self, failure: &str, anew: bool) -> Result<Lasted, ApiError>;

    /// Records that they succeed again.
    async fn resumed(&self);
}

#[async_trait]
impl InterruptionRecord for SessionRecord {
    async fn interrupted(&self, failure: &str, anew: bool) -> Result<Lasted, ApiError> {
        if self.current().await.is_err_and(|error| error.is_transient()) {
            return Ok(Lasted::Away);
        }
        let (kind, now) = (ConditionType::Interrupted, self.now());
        let noted = self.change(|state| {
            if anew {
                state.observe(&kind.no(""), now);
            }
            state.observe(&kind.yes(failure), now);
        });
        match noted.await {
            Err(error) if error.is_conflict() => return Err(error),
            // Without a record, the time counts that this server knows.
            Err(error) => tracing::debug!(
                session = self.name,
                error = error.chain(),
                "an interruption is not on record"
            ),
            Ok(_) => {}
        }
        let since = self.read(|state| {
            let mut known = state.conditions.iter().filter(|known| known.type_ == kind.name());
            known.find(|known| known.status == "True").map(|known| known.last_transition_time.0)
        });
        let lasted =
            since.await.map(|since| Duration::try_from(now.duration_since(since)).unwrap_or_default());
        Ok(Lasted::For(lasted.unwrap_or_default()))
    }

    async fn resumed(&self) {
        let (kind, now) = (ConditionType::Interrupted, self.now());
        let changed = self.change(|state| {
            if kind.is_true(&state.conditions) {
                state.observe(&kind.no(""), now);
            }
        });
        if let Err(error) = changed.await {
            tracing::debug!(
                session = self.name,
                error = error.chain(),
                "the end of an interruption is not on record"
            );
        }
    }
}

/// Requests of one kind, and how often they failed one after the other.
pub(super) struct Interruption {
    limit: Duration,
    patience: Patience,
    backoff: Backoff,
    failures: u32,
    was_away: bool,
}

impl Interruption {
    pub(super) fn new(limit: Duration) -> Self {
        let (patience, backoff) = (Patience::new(limit), Backoff::default());
        Self { limit, patience, backoff, failures: 0, was_away: false }
    }

    /// One more failure. Fails only if another server writes the record. A single failure is not recorded.
    pub(super) async fn failed(
        &mut self,
        record: &dyn InterruptionRecord,
        failure: &str,
    ) -> Result<Next, ApiError> {
        self.failures = self.failures.saturating_add(1);
        let (pause, is_over) = (self.backoff.failed(), self.patience.is_over());
        if self.failures == 1 {
            return Ok(Next::Again(pause));
        }
        let lasted = match record.interrupted(failure, self.was_away).await? {
            Lasted::Away => {
                self.was_away = true;
                self.patience.succeeded();
                return Ok(Next::Again(pause));
            }
            Lasted::For(lasted) => lasted,
        };
        self.was_away = false;
        if is_over || (self.failures >= TRIES && lasted >= self.limit) {
            let minutes = self.limit.as_secs() / 60;
            return Ok(Next::GivenUp(format!(
                "{failure}; it was tried again for {minutes} minutes and is given up"
            )));
        }
        Ok(Next::Again(pause))
    }

    /// A request succeeded: the next failure is the first again.
    pub(super) async fn passed(&mut self, record: &dyn InterruptionRecord) {
        if self.failures > 1 {
            record.resumed().await;
        }
        *self = Self::new(self.limit);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Mutex;

    use lifeboat_control::locked;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A record that says this, and keeps whether the time was to begin again.
    pub(in crate::sessions) struct Says(pub(in crate::sessions) Mutex<Lasted>, Mutex<Vec<bool>>);

    impl Says {
        pub(in crate::sessions) fn new(lasted: Lasted) -> Self {
            Self(Mutex::new(lasted), Mutex::default())
        }
    }

    #[async_trait]
    impl InterruptionRecord for Says {
        async fn interrupted(&self, _: &str, anew: bool) -> Result<Lasted, ApiError> {
            locked(&self.1).push(anew);
            Ok(*locked(&self.0))
        }

        async fn resumed(&self) {}
    }

    async fn again(interruption: &mut Interruption, record: &Says) {
        match interruption.failed(record, "cannot read").await.unwrap() {
            Next::Again(pause) => sleep(pause).await,
            Next::GivenUp(message) => panic!("{message}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_lasts_is_given_up_after_the_limit() {
        let (mut interruption, record) = (Interruption::new(LIMIT), Says::new(Lasted::For(Duration::ZERO)));
        let began = Instant::now();
        let message = loop {
            match interruption.failed(&record, "cannot read Pod web").await.unwrap() {
                Next::Again(pause) => sleep(pause).await,
                Next::GivenUp(message) => break message,
            }
        };
        assert!(message.contains("cannot read Pod web") && message.contains("10 minutes"), "{message}");
        assert!(began.elapsed() >= LIMIT && began.elapsed() < LIMIT + Duration::from_mins(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_follows_tries_three_times_and_does_not_begin_the_time_anew() {
        let (mut interruption, record) = (Interruption::new(LIMIT), Says::new(Lasted::For(LIMIT)));
        again(&mut interruption, &record).await;
        again(&mut interruption, &record).await;
        let third = interruption.failed(&record, "cannot read").await.unwrap();
        assert!(matches!(third, Next::GivenUp(_)), "{third:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_api_server_that_is_away_does_not_count() {
        let (mut interruption, record) = (Interruption::new(LIMIT), Says::new(Lasted::Away));
        for _ in 0..60 {
            again(&mut interruption, &record).await;
        }
        *locked(&record.0) = Lasted::For(Duration::ZERO);
        again(&mut interruption, &record).await;
        again(&mut interruption, &record).await;
        let begun = locked(&record.1).split_off(59);
        assert_eq!(begun, [true, false], "the time on record begins again once");
    }
}
