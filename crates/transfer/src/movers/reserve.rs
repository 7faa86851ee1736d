//! Reserves a place for movers of pods before hooks quiesce these pods, so that no pod is quiesced while its volumes wait
//! in the queue. Called by the passes of backups; the movers themselves are started by the controllers of the volumes,
//! and find the place by the UID of their pod.

use std::collections::BTreeSet;

use lifeboat_api::common::TaskId;
use lifeboat_control::locked;
use lifeboat_plan::transfer::movers::queue::Candidate;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::turn::{Ends, Turn, Waited};
use super::{MoverObserver, Movers};

/// A place that is needed.
#[derive(Clone, Debug)]
pub struct PlaceRequest {
    /// Unique: what it is reserved for.
    pub name: String,
    /// The backup, as its movers name it.
    pub group: String,
    pub node: Option<String>,
    /// The repository, as its movers name it.
    pub repository: String,
    /// The UIDs of the pods.
    pub pods: BTreeSet<String>,
}

/// A place that is reserved until this is dropped.
pub struct Reserved {
    _turn: Turn,
}

impl Movers {
    /// Waits for a place, at most for the time that a mover may wait for its turn. None: there was none in time, or the
    /// wait was cancelled.
    pub async fn reserve(
        &self,
        wanted: PlaceRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Option<Reserved> {
        let until = Instant::now() + self.settings.queue_timeout;
        // The limits hold from then on.
        while let Err(error) = self.count_running().await {
            tracing::warn!(error = error.chain(), "cannot count the running movers; trying again");
            tokio::select! {
                () = sleep(self.look) => {}
                () = cancel.cancelled() => return None,
            }
        }
        let candidate = Candidate {
            task: task(&wanted.name),
            group: wanted.group,
            node: wanted.node,
            repository: wanted.repository,
            pods: wanted.pods,
            reserves: true,
        };
        let shutdown = locked(&self.shutdown).clone();
        let ends = Ends { cancel, shutdown: &shutdown, until: Some(until) };
        match self.queue.wait(&self.metrics, candidate, observer, ends).await {
            Waited::Turn(turn) => Some(Reserved { _turn: turn }),
            // The pass is stopped too, and nothing may begin until then.
            Waited::Left => {
                cancel.cancelled().await;
                None
            }
            Waited::Cancelled | Waited::Late => None,
        }
    }

    /// Whether the place with this name is waited for; for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn awaits_place(&self, name: &str) -> bool {
        self.queue.has_waiting(&task(name))
    }
}

/// The name of a reservation in the queue: no task of a mover has a slash.
fn task(name: &str) -> TaskId {
    TaskId::new(format!("place/{name}"))
}
