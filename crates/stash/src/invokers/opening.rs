//! Opens repositories for reconciles of invokers. Storage of a tenant may be slow, or a mover has to open it: a reconcile waits for a
//! moment, and what was opened since is taken by the next one. Invokers of one repository share its opening.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_control::{LongWork, locked};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::context::Context;
use crate::repository::{Ready, RepositoryKey, RepositoryProblem, ready};

/// How long a reconcile waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long what was opened is kept for a reconcile that did not wait for it.
const KEPT: Duration = Duration::from_mins(1);

type Opened = Arc<Result<Ready, RepositoryProblem>>;
type Opening = watch::Receiver<Option<(Instant, Opened)>>;

/// Repositories that are being opened.
pub(super) struct RepositoryOpenings {
    work: LongWork,
    running: Mutex<BTreeMap<RepositoryKey, Opening>>,
}

impl RepositoryOpenings {
    pub(super) fn new() -> Self {
        Self { work: LongWork::new("opening of a repository"), running: Mutex::default() }
    }

    /// Opens a repository; None if that takes longer than a reconcile waits.
    pub(super) async fn open(&self, context: &Context, key: &RepositoryKey) -> Option<Opened> {
        let mut opening = self.begin(context, key);
        let opened = match timeout(PATIENCE, opening.wait_for(Option::is_some)).await {
            Ok(Ok(opened)) => opened.clone(),
            // Still at work, or ended by a defect: the next reconcile begins again.
            Ok(Err(_)) | Err(_) => None,
        };
        let (_, opened) = opened?;
        locked(&self.running).retain(|other, running| other != key || !running.same_channel(&opening));
        Some(opened)
    }

    /// The opening that runs, or whose result was not taken; else a new one.
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
            sender.send_replace(Some((Instant::now(), Arc::new(opened))));
        });
        receiver
    }

    /// Waits until nothing is being opened.
    #[cfg(test)]
    pub(super) async fn ended(&self) {
        self.work.ended().await;
    }

    /// Drops what is being opened: the next leader opens it.
    pub(super) async fn leave(&self) {
        self.work.leave().await;
    }
}

/// Whether an opening still runs, or ended a moment ago.
fn is_of_use(opening: &Opening) -> bool {
    match &*opening.borrow() {
        Some((at, _)) => at.elapsed() < KEPT,
        None => opening.has_changed().is_ok(),
    }
}
