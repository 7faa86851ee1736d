//! Work that dies before and after each of its requests, one death at a time. What the store then holds is what the
//! next process finds.

use std::sync::Arc;

use futures::StreamExt;
use lifeboat_store::{Memory, Store};

use super::unreliable::{Trouble, Unreliable, copy, store};
use crate::error::Result;

/// What a process told before it ended, and how it ended.
pub(crate) type Ended<T> = (T, Result<()>);

/// One death, and what it left.
pub(crate) struct Death<T> {
    /// What the process had told by then.
    pub(crate) told: T,
    /// The same objects, reached by a process that lives.
    pub(crate) store: Store,
    /// For messages.
    pub(crate) name: String,
}

/// How work ends that nothing disturbs.
pub(crate) struct Undisturbed<T> {
    pub(crate) told: T,
    pub(crate) store: Store,
    pub(crate) requests: u64,
}

pub(crate) async fn undisturbed<T, W>(base: &Arc<Memory>, work: impl Fn(Store) -> W) -> Undisturbed<T>
where
    W: Future<Output = Ended<T>>,
{
    let memory = copy(base).await;
    let quiet = Unreliable::new(&memory, Trouble::None);
    let (told, outcome) = work(quiet.store()).await;
    outcome.unwrap();
    Undisturbed { told, store: store(memory), requests: quiet.requests() }
}

/// Does the work on a copy of `base` for every request of `requests` and for death before and after it; then lets
/// `inspect` look at what is left.
pub(crate) async fn die_everywhere<T, W, I>(
    base: &Arc<Memory>,
    requests: u64,
    work: impl Fn(Store) -> W,
    inspect: impl Fn(Death<T>) -> I,
) where
    W: Future<Output = Ended<T>>,
    I: Future<Output = ()>,
{
    let deaths = (1..=requests).flat_map(|request| [(request, false), (request, true)]);
    let trying = futures::stream::iter(deaths).map(|(request, after)| {
        let (work, inspect) = (&work, &inspect);
        async move {
            let name = format!("death {} request {request}", if after { "after" } else { "before" });
            let memory = copy(base).await;
            let unreliable = Unreliable::new(&memory, Trouble::Death { request, after });
            let (told, outcome) = work(unreliable.store()).await;
            // Only giving back the last lock may fail without being noticed.
            assert!(outcome.is_err() || request + 1 >= requests, "{name} went unnoticed");
            inspect(Death { told, store: store(memory), name }).await;
        }
    });
    // Many at a time, because each waits for stores to settle.
    trying.buffer_unordered(64).collect::<()>().await;
}
