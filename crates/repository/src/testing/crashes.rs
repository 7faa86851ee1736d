//! Runs work that crashes before and after each of its requests, one crash at a time. The store's content after the
//! crash is what the next process finds.

use std::sync::Arc;

use futures::StreamExt;
use lifeboat_store::{Memory, Store};

use super::unreliable::{Fault, Unreliable, copy, store};
use crate::error::Result;

/// What the work reported before it ended, and its result.
pub(crate) type WorkOutcome<T> = (T, Result<()>);

/// One crash, and its result.
pub(crate) struct Crash<T> {
    /// What the work had reported by then.
    pub(crate) reported: T,
    /// The store's objects after the crash, through a working store.
    pub(crate) store: Store,
    /// The name in messages.
    pub(crate) name: String,
}

/// The result of work without a crash.
pub(crate) struct Undisturbed<T> {
    pub(crate) reported: T,
    pub(crate) store: Store,
    pub(crate) requests: u64,
}

pub(crate) async fn undisturbed<T, W>(base: &Arc<Memory>, work: impl Fn(Store) -> W) -> Undisturbed<T>
where
    W: Future<Output = WorkOutcome<T>>,
{
    let memory = copy(base).await;
    let quiet = Unreliable::new(&memory, Fault::None);
    let (reported, outcome) = work(quiet.store()).await;
    outcome.unwrap();
    Undisturbed { reported, store: store(memory), requests: quiet.requests() }
}

/// Runs the work on a copy of `base` for every request of `requests` with a crash before and after it; then calls
/// `inspect` with the result.
pub(crate) async fn crash_everywhere<T, W, I>(
    base: &Arc<Memory>,
    requests: u64,
    work: impl Fn(Store) -> W,
    inspect: impl Fn(Crash<T>) -> I,
) where
    W: Future<Output = WorkOutcome<T>>,
    I: Future<Output = ()>,
{
    let crashes = (1..=requests).flat_map(|request| [(request, false), (request, true)]);
    let trying = futures::stream::iter(crashes).map(|(request, after)| {
        let (work, inspect) = (&work, &inspect);
        async move {
            let name = format!("crash {} request {request}", if after { "after" } else { "before" });
            let memory = copy(base).await;
            let unreliable = Unreliable::new(&memory, Fault::Crash { request, after });
            let (reported, outcome) = work(unreliable.store()).await;
            // Only a failure to release the last lock may go unnoticed.
            assert!(outcome.is_err() || request + 1 >= requests, "{name} went unnoticed");
            inspect(Crash { reported, store: store(memory), name }).await;
        }
    });
    // Many concurrently, because each waits for stores to settle.
    trying.buffer_unordered(64).collect::<()>().await;
}
