//! Opens repositories for reconciles of invokers. A tenant's storage may be slow, or a mover has to open it: a
//! reconcile waits only for a short time; if the repository is opened later, the next reconcile uses the result.
//! Invokers of the same repository share one opening.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_control::{LongWork, WorkEnd, locked};
use lifeboat_web::Metrics;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::context::Context;
use crate::repository::{Ready, RepositoryKey, RepositoryProblem, ready};

/// How long a reconcile waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an opened repository is kept for a reconcile that did not wait for it.
const KEPT: Duration = Duration::from_mins(1);

type Opened = Arc<Result<Ready, RepositoryProblem>>;
type Opening = watch::Receiver<Option<(Instant, Opened)>>;

/// Repositories that are being opened.
pub(super) struct RepositoryOpenings {
    work: LongWork,
    running: Mutex<BTreeMap<RepositoryKey, Opening>>,
}

impl RepositoryOpenings {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self { work: LongWork::new(metrics, "repository-opening"), running: Mutex::default() }
    }

    /// Opens a repository; None if that takes longer than a reconcile waits.
    pub(super) async fn open(&self, context: &Context, key: &RepositoryKey) -> Option<Opened> {
        let mut opening = self.begin(context, key);
        let opened = match timeout(PATIENCE, opening.wait_for(Option::is_some)).await {
            Ok(Ok(opened)) => opened.clone(),
            // The opening still runs, or it panicked; the next reconcile tries again.
            Ok(Err(_)) | Err(_) => None,
        };
        let (_, opened) = opened?;
        locked(&self.running).retain(|other, running| other != key || !running.same_channel(&opening));
        Some(opened)
    }

    /// The opening that is running, or whose result was not used yet; otherwise a new one.
    fn begin(&self, context: &Context, key: &RepositoryKey) -> Opening {
        let mut running = locked(&self.running);
        if let Some(known) = running.get(key).filter(|known| is_of_use(known)) {
            return known.clone();
        }
        let (sender, receiver) = watch::channel(None);
        running.insert(key.clone(), receiver.clone());
        let (context, key) = (context.clone(), key.clone());
        self.work.start(&key.to_string(), |_| async move {
            let opened = Box::pin(ready(&context, &key)).await;
            let end = WorkEnd::of(&opened, RepositoryProblem::category);
            sender.send_replace(Some((Instant::now(), Arc::new(opened))));
            end
        });
        receiver
    }

    /// Waits until nothing is being opened.
    #[cfg(test)]
    pub(super) async fn ended(&self) {
        self.work.ended().await;
    }

    /// Cancels all openings: the next leader opens the repositories.
    pub(super) async fn leave(&self) {
        self.work.leave().await;
    }
}

/// Whether an opening is still running, or ended recently.
fn is_of_use(opening: &Opening) -> bool {
    match &*opening.borrow() {
        Some((at, _)) => at.elapsed() < KEPT,
        None => opening.has_changed().is_ok(),
    }
}
