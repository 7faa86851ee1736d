//! One task for each open object: work on a volume takes hours, and no reconcile waits for it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backup::locked;

/// The tasks that run, by the UID of their object.
#[derive(Default)]
pub(crate) struct Carriers {
    running: Arc<Mutex<BTreeMap<String, CancellationToken>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Carriers {
    /// Starts the work on an object, unless it runs. `work` gets the token that cancels it.
    pub(crate) fn start<F>(&self, uid: &str, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = {
            let mut running = locked(&self.running);
            if running.contains_key(uid) {
                return;
            }
            let token = CancellationToken::new();
            running.insert(uid.to_owned(), token.clone());
            token
        };
        let ended = Ended { running: self.running.clone(), uid: uid.to_owned() };
        let work = work(token);
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let _ended = ended;
            work.await;
        });
    }

    /// Tells the work on an object to end.
    pub(crate) fn cancel(&self, uid: &str) {
        if let Some(token) = locked(&self.running).get(uid) {
            token.cancel();
        }
    }

    /// Tells all to end whose object is not there any more.
    pub(crate) fn cancel_others(&self, there: impl Fn(&str) -> bool) {
        for (uid, token) in locked(&self.running).iter() {
            if !there(uid) {
                token.cancel();
            }
        }
    }

    /// Waits until all work has ended.
    #[cfg(test)]
    pub(crate) async fn ended(&self) {
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        while tasks.join_next().await.is_some() {}
    }

    /// Drops all work where it is: whoever leads next goes on with it.
    pub(crate) async fn leave(&self) {
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        tasks.shutdown().await;
    }
}

struct Ended {
    running: Arc<Mutex<BTreeMap<String, CancellationToken>>>,
    uid: String,
}

impl Drop for Ended {
    fn drop(&mut self) {
        locked(&self.running).remove(&self.uid);
    }
}
