//! The limit of concurrent requests: it grows by one for each round of answers and is halved when the API server is too
//! busy or does not answer. Shared by all tasks of a restore.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The initial and the maximum limit: with more concurrent requests an API server is not faster, and its other clients
/// wait.
const START: usize = 32;
const MOST: usize = 64;

/// The limit, and the counters that change it.
pub struct Throttle {
    state: Mutex<State>,
    freed: Notify,
}

struct State {
    limit: usize,
    under_way: usize,
    /// Answers since the limit last grew.
    answers: usize,
    /// Incremented when the limit is halved: of many concurrent requests that find the server busy, only one counts.
    round: u64,
    /// The API server asked for no requests until then.
    pause: Option<Instant>,
}

impl Default for Throttle {
    fn default() -> Self {
        let state = State { limit: START, under_way: 0, answers: 0, round: 0, pause: None };
        Self { state: Mutex::new(state), freed: Notify::new() }
    }
}

impl Throttle {
    /// Waits until one more request may be sent.
    pub async fn permit(&self) -> Permit<'_> {
        loop {
            let freed = self.freed.notified();
            match self.try_permit() {
                Ok(permit) => return permit,
                Err(Some(until)) => sleep_until(until).await,
                Err(None) => freed.await,
            }
        }
    }

    /// The current limit of concurrent requests.
    pub fn limit(&self) -> usize {
        self.locked().limit
    }

    fn try_permit(&self) -> Result<Permit<'_>, Option<Instant>> {
        let mut state = self.locked();
        if let Some(until) = state.pause {
            if until > Instant::now() {
                return Err(Some(until));
            }
            state.pause = None;
        }
        if state.under_way >= state.limit {
            return Err(None);
        }
        state.under_way += 1;
        Ok(Permit { throttle: self, round: state.round })
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permission for one request. Dropping it only frees its place.
pub struct Permit<'a> {
    throttle: &'a Throttle,
    round: u64,
}

impl Permit<'_> {
    /// The API server answered, with success or an error.
    pub fn answered(self) {
        let mut state = self.throttle.locked();
        state.answers += 1;
        if state.answers >= state.limit && state.limit < MOST {
            state.answers = 0;
            state.limit += 1;
            self.throttle.freed.notify_one();
        }
    }

    /// The API server is too busy or did not answer; `wait` is the time that it asked for.
    pub fn busy(self, wait: Option<Duration>) {
        let mut state = self.throttle.locked();
        if self.round == state.round {
            state.round += 1;
            state.limit = (state.limit / 2).max(1);
            state.answers = 0;
        }
        if let Some(wait) = wait {
            let until = Instant::now() + wait;
            state.pause = Some(state.pause.map_or(until, |known| known.max(until)));
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.throttle.locked().under_way -= 1;
        self.throttle.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_limit_grows_by_one_for_each_round_of_answers() {
        let throttle = Throttle::default();
        for _ in 0..START {
            throttle.permit().await.answered();
        }
        assert_eq!(throttle.limit(), START + 1);
    }

    #[tokio::test]
    async fn a_burst_of_refusals_halves_the_limit_once() {
        let throttle = Throttle::default();
        let mut permits = Vec::new();
        for _ in 0..10 {
            permits.push(throttle.permit().await);
        }
        for permit in permits {
            permit.busy(None);
        }
        assert_eq!(throttle.limit(), START / 2);
        for _ in 0..20 {
            throttle.permit().await.busy(None);
        }
        assert_eq!(throttle.limit(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_the_api_server_asks_for_is_kept_by_all() {
        let throttle = Throttle::default();
        throttle.permit().await.busy(Some(Duration::from_secs(7)));
        let before = Instant::now();
        drop(throttle.permit().await);
        assert!(before.elapsed() >= Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_continues_when_there_is_room() {
        let throttle = Throttle::default();
        for _ in 0..20 {
            throttle.permit().await.busy(None);
        }
        let only = throttle.permit().await;
        let waits = tokio::time::timeout(Duration::from_secs(1), throttle.permit()).await;
        assert!(waits.is_err());
        let ((), next) = tokio::join!(async { drop(only) }, throttle.permit());
        drop(next);
    }
}
