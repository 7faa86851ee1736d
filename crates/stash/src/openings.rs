//! Limits how many inspections of tenants' storage run at a time: opening a repository takes a second of CPU time and
//! 64 MB, and a tenant's storage may answer slowly, or never. A slow inspection releases its permit and continues
//! under the limit for slow namespaces, and the next inspections of that namespace start there. So tenants wait for
//! their own slow storage, never for that of others.
//!
//! Listings of snapshots and packs have limits of their own, because they take longer and use up to 64 MiB each. A slow
//! listing is dropped and starts again when it has a permit for slow namespaces, so that none holds memory while it waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_control::locked;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// What bounds looks of one sort.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// How many run at once, of namespaces whose storage answers in time and of the others.
    at_once: usize,
    slow_at_once: usize,
    /// How many one namespace may have, counting those that wait.
    of_one_namespace: usize,
    /// After this time one is slow.
    slow: Duration,
    /// How long a slow one goes on until it is given up.
    give_up: Duration,
}

const OPENINGS: Terms = Terms {
    at_once: 2,
    slow_at_once: 1,
    of_one_namespace: 4,
    slow: Duration::from_secs(5),
    give_up: Duration::from_mins(1),
};

const LISTINGS: Terms = Terms {
    at_once: 3,
    slow_at_once: 1,
    of_one_namespace: 2,
    slow: Duration::from_secs(30),
    give_up: Duration::from_mins(10),
};

/// How long a namespace counts as slow after its last slow inspection.
const REMEMBERED: Duration = Duration::from_mins(10);

/// The storage of a repository did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the storage did not answer within {} seconds", .after.as_secs())]
pub(crate) struct NoAnswer {
    after: Duration,
}

/// The inspections of one kind in one server. Clones share them.
#[derive(Clone)]
pub(crate) struct Lanes {
    terms: Terms,
    usual: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    namespaces: Arc<Mutex<BTreeMap<String, Arc<Namespace>>>>,
}

struct Namespace {
    places: Semaphore,
    slow_since: Mutex<Option<Instant>>,
}

impl Namespace {
    fn new(terms: Terms) -> Self {
        Self { places: Semaphore::new(terms.of_one_namespace), slow_since: Mutex::default() }
    }

    fn is_slow(&self) -> bool {
        locked(&self.slow_since).is_some_and(|since| since.elapsed() < REMEMBERED)
    }
}

impl Lanes {
    fn new(terms: Terms) -> Self {
        Self {
            terms,
            usual: Arc::new(Semaphore::new(terms.at_once)),
            slow: Arc::new(Semaphore::new(terms.slow_at_once)),
            namespaces: Arc::default(),
        }
    }

    pub(crate) fn of_openings() -> Self {
        Self::new(OPENINGS)
    }

    pub(crate) fn of_listings() -> Self {
        Self::new(LISTINGS)
    }

    /// Runs an inspection of storage of a namespace when it has a permit, and gives it up if it takes too long.
    pub(crate) async fn run<T>(&self, namespace: &str, look: impl Future<Output = T>) -> Result<T, NoAnswer> {
        let namespace = self.namespace(namespace);
        // The semaphores are never closed.
        let _place = namespace.places.acquire().await;
        let mut look = Box::pin(look);
        match self.in_usual(&namespace, &mut look).await {
            Some(looked) => Ok(looked),
            None => self.in_slow(&namespace, look).await,
        }
    }

    /// Runs an inspection that holds much memory: a slow one is dropped, and starts again when it has a place among the slow ones.
    pub(crate) async fn run_anew<T, F: Future<Output = T>>(
        &self,
        namespace: &str,
        look: impl Fn() -> F,
    ) -> Result<T, NoAnswer> {
        let namespace = self.namespace(namespace);
        let _place = namespace.places.acquire().await;
        match self.in_usual(&namespace, look()).await {
            Some(looked) => Ok(looked),
            None => self.in_slow(&namespace, look()).await,
        }
    }

    /// None if the storage is slow.
    async fn in_usual<T>(&self, namespace: &Namespace, look: impl Future<Output = T>) -> Option<T> {
        if namespace.is_slow() {
            return None;
        }
        let _lane = self.usual.acquire().await;
        // Another look of the namespace may have been slow meanwhile.
        if namespace.is_slow() {
            return None;
        }
        let looked = timeout(self.terms.slow, look).await.ok();
        if looked.is_none() {
            *locked(&namespace.slow_since) = Some(Instant::now());
        }
        looked
    }

    async fn in_slow<T>(&self, namespace: &Namespace, look: impl Future<Output = T>) -> Result<T, NoAnswer> {
        let _lane = self.slow.acquire().await;
        let begun = Instant::now();
        let looked = timeout(self.terms.give_up, look).await;
        let was_slow = begun.elapsed() >= self.terms.slow || looked.is_err();
        *locked(&namespace.slow_since) = was_slow.then(Instant::now);
        looked.map_err(|_elapsed| NoAnswer { after: self.terms.slow + self.terms.give_up })
    }

    fn namespace(&self, name: &str) -> Arc<Namespace> {
        let mut namespaces = locked(&self.namespaces);
        // Namespaces without inspections that are not slow are removed.
        namespaces.retain(|_, namespace| Arc::strong_count(namespace) > 1 || namespace.is_slow());
        let new = || Arc::new(Namespace::new(self.terms));
        namespaces.entry(name.to_owned()).or_insert_with(new).clone()
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
        let openings = Lanes::of_openings();
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
        assert!(begun.elapsed() < OPENINGS.slow * 2, "others wait for the first slow look at most");
        assert!(slow.await.iter().all(Result::is_err));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_was_slow_takes_no_place_of_others_until_its_storage_answers() {
        let openings = Lanes::of_openings();
        assert!(openings.run("shop", pending::<()>()).await.is_err());
        let mut looks = Box::pin(join_all((0..4).map(|_| openings.run("shop", pending::<()>()))));
        assert!(futures::poll!(&mut looks).is_pending());
        assert_eq!(openings.usual.available_permits(), OPENINGS.at_once);
        drop(looks);
        assert_eq!(openings.run("shop", ready(7)).await, Ok(7));
        assert!(!openings.namespace("shop").is_slow(), "it answered at once");
    }

    /// What a look holds while it exists.
    struct Held(Arc<Mutex<(usize, usize)>>);

    impl Held {
        fn new(counts: &Arc<Mutex<(usize, usize)>>) -> Self {
            let mut now = locked(counts);
            now.0 += 1;
            now.1 = now.1.max(now.0);
            Self(counts.clone())
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            locked(&self.0).0 -= 1;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn listings_hold_no_memory_while_they_wait_and_those_that_are_quick_go_on() {
        let (listings, counts) = (Lanes::of_listings(), Arc::<Mutex<(usize, usize)>>::default());
        let listed = |namespace: String, takes: Duration| {
            let (listings, counts) = (listings.clone(), counts.clone());
            async move {
                let listing = || async {
                    let _held = Held::new(&counts);
                    tokio::time::sleep(takes).await;
                };
                listings.run_anew(&namespace, listing).await
            }
        };
        let never = LISTINGS.give_up * 2;
        let mut slow =
            Box::pin(join_all((0..20).map(|number| listed(format!("slow-{number}"), never))).fuse());
        assert!(futures::poll!(&mut slow).is_pending());
        let begun = Instant::now();
        let quick = join_all((0..20).map(|number| listed(format!("quick-{number}"), Duration::from_secs(1))));
        let quick = tokio::select! {
            quick = quick => quick,
            _ = &mut slow => panic!("what never ends was listed"),
        };
        assert!(quick.iter().all(Result::is_ok));
        assert!(begun.elapsed() < LISTINGS.give_up, "the slow ones leave the way after a moment");
        assert!(slow.await.iter().all(Result::is_err));
        assert_eq!(*locked(&counts), (0, LISTINGS.at_once + LISTINGS.slow_at_once));
        // One that is only large is listed in the end.
        assert_eq!(listed("large".to_owned(), LISTINGS.slow * 2).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_has_a_few_looks_at_once_and_namespaces_are_forgotten() {
        let openings = Lanes::of_openings();
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
        assert_eq!(*locked(&begun), OPENINGS.slow_at_once);
        drop(looks);
        tokio::time::advance(REMEMBERED).await;
        openings.namespace("other");
        assert_eq!(locked(&openings.namespaces).len(), 1, "only the last one is known");
    }
}
