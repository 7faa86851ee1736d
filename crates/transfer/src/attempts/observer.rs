//! Writes a mover's state and progress into the record of its transfer, progress at most once a second. A write that
//! fails is only logged, because the next write replaces it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_mover::report::LogLine;

use super::{AttemptRecord, Transfer};
use crate::movers::MoverObserver;

/// How often progress is written.
const PACE: Duration = Duration::from_secs(1);

pub(super) struct RecordingObserver {
    record: Arc<dyn AttemptRecord>,
    name: String,
    last: Mutex<Last>,
}

/// The message and the progress that were written last.
#[derive(Default)]
struct Last {
    message: String,
    written: Option<Instant>,
    done: (u64, u64),
}

impl RecordingObserver {
    pub(super) fn new(transfer: &Transfer) -> Self {
        Self { record: transfer.record.clone(), name: transfer.record.owner().name, last: Mutex::default() }
    }

    fn note(&self, written: Result<bool, ApiError>) {
        if let Err(error) = written {
            tracing::debug!(object = self.name, error = error.chain(), "cannot record the state of a mover");
        }
    }

    /// Whether this message differs from the one that was written last; remembers it.
    fn is_new_message(&self, message: &str) -> bool {
        let mut last = locked(&self.last);
        if last.message == message {
            return false;
        }
        message.clone_into(&mut last.message);
        true
    }
}

#[async_trait]
impl MoverObserver for RecordingObserver {
    async fn queued(&self, message: &str) {
        if self.is_new_message(message) {
            self.note(self.record.waiting(message).await);
        }
    }

    async fn preparing(&self, message: &str) {
        if self.is_new_message(message) {
            self.note(self.record.preparing(message).await);
        }
    }

    async fn running(&self, node: &str) {
        locked(&self.last).message.clear();
        self.note(self.record.running(node).await);
    }

    async fn line(&self, line: &LogLine) {
        match line {
            LogLine::Progress(reading) => {
                let now = (reading.bytes_done, reading.bytes_total);
                {
                    let mut last = locked(&self.last);
                    let early = last.written.is_some_and(|written| written.elapsed() < PACE);
                    if early || last.done == now {
                        return;
                    }
                    last.written = Some(Instant::now());
                    last.done = now;
                }
                self.note(self.record.progress(now.0, now.1).await);
            }
            LogLine::Waiting { holder, until } => {
                let until =
                    until.as_ref().map(|until| format!(", until {until} at most")).unwrap_or_default();
                let message = format!("waits for the repository, which {holder} has locked{until}");
                if self.is_new_message(&message) {
                    self.note(self.record.waiting(&message).await);
                }
            }
            LogLine::Message { text, .. } => {
                tracing::debug!(object = self.name, text, "a mover printed a message");
            }
            // For callers that asked for a look at the repository.
            LogLine::Snapshots { .. } => {}
        }
    }
}
