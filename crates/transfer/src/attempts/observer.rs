//! Shows in the object how its mover stands. At most one write of progress a second; a write that fails is told in the log,
//! because the next one says the same and more.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lifeboat_mover::report::Line;
use lifeboat_plan::pod_volumes::status;
use lifeboat_transfer::movers::Watcher;
use serde_json::{Value, json};

use super::{Case, Place};
use crate::backup::locked;
use crate::context::Context;

/// How often progress is written.
const PACE: Duration = Duration::from_secs(1);

pub(super) struct Shown {
    place: Place,
    context: Context,
    /// When an earlier attempt began.
    start: Option<String>,
    /// Whether the kind shows the node in its status.
    with_node: bool,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    words: String,
    written: Option<Instant>,
    done: (u64, u64),
}

impl Shown {
    pub(super) fn new(case: &Case) -> Self {
        Self {
            place: case.place.clone(),
            context: case.desk.context.clone(),
            start: case.started.clone(),
            with_node: case.shows_node(),
            last: Mutex::default(),
        }
    }

    async fn write(&self, patch: Value) {
        if let Err(error) = self.place.write(patch).await {
            tracing::debug!(
                object = self.place.name,
                error = error.chain(),
                "cannot show how a mover stands"
            );
        }
    }

    /// Whether these words are new.
    fn is_news(&self, words: &str) -> bool {
        let mut last = locked(&self.last);
        if last.words == words {
            return false;
        }
        words.clone_into(&mut last.words);
        true
    }
}

#[async_trait]
impl Watcher for Shown {
    async fn queued(&self, words: &str) {
        if self.is_news(words) {
            self.write(status::waits(words)).await;
        }
    }

    async fn preparing(&self, words: &str) {
        if self.is_news(words) {
            self.write(status::prepared(words)).await;
        }
    }

    async fn running(&self, node: &str) {
        let mut patch = status::running(self.start.as_deref(), self.context.now());
        if self.with_node {
            patch["status"]["node"] = json!(node);
        }
        locked(&self.last).words.clear();
        self.write(patch).await;
    }

    async fn line(&self, line: &Line) {
        match line {
            Line::Progress(reading) => {
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
                self.write(status::progress(now.0, now.1)).await;
            }
            Line::Waiting { holder, until } => {
                let until =
                    until.as_ref().map(|until| format!(", until {until} at most")).unwrap_or_default();
                let words = format!("waits for the repository, which {holder} has locked{until}");
                if self.is_news(&words) {
                    self.write(status::waits(&words)).await;
                }
            }
            Line::Message { text, .. } => tracing::debug!(object = self.place.name, text, "a mover says"),
        }
    }
}
