//! Limits how many inspections of tenants' storage run at a time: opening a repository takes a second of CPU time and
//! 64 MB, and a tenant's storage may answer slowly, or never. A slow inspection releases its permit and continues
//! under the limit for slow namespaces, and the next inspections of that namespace start there. So tenants wait for
//! their own slow storage, never for that of others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_control::locked;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How many inspections run at a time, in namespaces whose storage answers in time and in slow namespaces.
const AT_ONCE: usize = 2;
const SLOW_AT_ONCE: usize = 1;
/// How many inspections one namespace may have, including waiting ones.
const OF_ONE_NAMESPACE: usize = 4;
/// After this time an inspection is slow.
const SLOW: Duration = Duration::from_secs(5);
/// How long a slow inspection continues until it is given up.
const GIVE_UP: Duration = Duration::from_mins(1);
/// How long a namespace counts as slow after its last slow inspection.
const REMEMBERED: Duration = Duration::from_mins(10);

/// The storage of a repository did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the storage did not answer within {} seconds", (SLOW + GIVE_UP).as_secs())]
pub(crate) struct NoAnswer;

/// The inspections of one server. Clones share them.
#[derive(Clone)]
pub(crate) struct Openings {
    usual: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    namespaces: Arc<Mutex<BTreeMap<String, Arc<Namespace>>>>,
}

struct Namespace {
    places: Semaphore,
    slow_since: Mutex<Option<Instant>>,
}

impl Default for Openings {
    fn default() -> Self {
        Self {
            usual: Arc::new(Semaphore::new(AT_ONCE)),
            slow: Arc::new(Semaphore::new(SLOW_AT_ONCE)),
            namespaces: Arc::default(),
        }
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self { places: Semaphore::new(OF_ONE_NAMESPACE), slow_since: Mutex::default() }
    }
}

impl Namespace {
    fn is_slow(&self) -> bool {
        locked(&self.slow_since).is_some_and(|since| since.elapsed() < REMEMBERED)
    }
}

impl Openings {
    /// Runs an inspection of storage of a namespace when it has a permit, and gives it up if it takes too long.
    pub(crate) async fn run<T>(&self, namespace: &str, look: impl Future<Output = T>) -> Result<T, NoAnswer> {
        let namespace = self.namespace(namespace);
        // The semaphores are never closed.
        let _place = namespace.places.acquire().await;
        let mut look = Box::pin(look);
        if !namespace.is_slow() {
            let _lane = self.usual.acquire().await;
            // Another inspection of the namespace may have become slow in the meantime.
            if !namespace.is_slow() {
                if let Ok(looked) = timeout(SLOW, &mut look).await {
                    return Ok(looked);
                }
                *locked(&namespace.slow_since) = Some(Instant::now());
            }
        }
        let _lane = self.slow.acquire().await;
        let begun = Instant::now();
        let looked = timeout(GIVE_UP, look).await;
        let was_slow = begun.elapsed() >= SLOW || looked.is_err();
        *locked(&namespace.slow_since) = was_slow.then(Instant::now);
        looked.map_err(|_elapsed| NoAnswer)
    }

    fn namespace(&self, name: &str) -> Arc<Namespace> {
        let mut namespaces = locked(&self.namespaces);
        // Namespaces without inspections that are not slow are removed.
        namespaces.retain(|_, namespace| Arc::strong_count(namespace) > 1 || namespace.is_slow());
        namespaces.entry(name.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    /// The clock of these tests stands still, except where everything waits.
    #[tokio::test(start_paused = true)]
    async fn storage_that_never_answers_is_given_up_and_stalls_no_other_namespace() {
        let openings = Openings::default();
        let of_slow = (0..10).map(|number| {
            let openings = openings.clone();
            let name = format!("slow-{}", number % 2);
            async move { openings.run(&name, pending::<()>()).await }
        });
        let mut slow = Box::pin(join_all(of_slow).fuse());
        assert!(futures::poll!(&mut slow).is_pending());
        assert_eq!(openings.usual.available_permits(), 0, "both places are taken");
        let others = join_all((0..50).map(|number| {
            let openings = openings.clone();
            async move { openings.run(&format!("quick-{number}"), ready(number)).await }
        }));
        let begun = Instant::now();
        let looked = tokio::select! {
            looked = others => looked,
            _ = &mut slow => panic!("what never answers was looked at"),
        };
        assert_eq!(looked.len(), 50);
        assert!(looked.iter().all(Result::is_ok));
        assert!(begun.elapsed() < SLOW * 2, "others wait for the first slow look at most");
        assert!(slow.await.iter().all(|ended| *ended == Err(NoAnswer)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_was_slow_takes_no_place_of_others_until_its_storage_answers() {
        let openings = Openings::default();
        assert_eq!(openings.run("shop", pending::<()>()).await, Err(NoAnswer));
        let mut looks = Box::pin(join_all((0..4).map(|_| openings.run("shop", pending::<()>()))));
        assert!(futures::poll!(&mut looks).is_pending());
        assert_eq!(openings.usual.available_permits(), AT_ONCE);
        drop(looks);
        assert_eq!(openings.run("shop", ready(7)).await, Ok(7));
        assert!(!openings.namespace("shop").is_slow(), "it answered at once");
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_has_a_few_looks_at_once_and_namespaces_are_forgotten() {
        let openings = Openings::default();
        *locked(&openings.namespace("shop").slow_since) = Some(Instant::now());
        let begun = Arc::new(Mutex::new(0));
        let looks = (0..20).map(|_| {
            let begun = begun.clone();
            openings.run("shop", async move {
                *locked(&begun) += 1;
                pending::<()>().await;
            })
        });
        let mut looks = Box::pin(join_all(looks));
        assert!(futures::poll!(&mut looks).is_pending());
        assert_eq!(openings.namespace("shop").places.available_permits(), 0);
        assert_eq!(*locked(&begun), SLOW_AT_ONCE);
        drop(looks);
        tokio::time::advance(REMEMBERED).await;
        openings.namespace("other");
        assert_eq!(locked(&openings.namespaces).len(), 1, "only the last one is known");
    }
}
