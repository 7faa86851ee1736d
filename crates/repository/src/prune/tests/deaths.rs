//! A prune that dies before or after any of its requests: every snapshot stays whole, and the next prune finishes.

use std::sync::Arc;

use futures::StreamExt;
use lifeboat_store::Memory;
use rstest::rstest;

use super::*;
use crate::testing::opened;
use crate::testing::unreliable::{Trouble, Unreliable, copy, store};

/// Two prunes, the second of which deletes what the first marked, with the trouble somewhere in them.
async fn prune_twice(unreliable: &Arc<Unreliable>, grace: Duration) -> Result<()> {
    let repository = opened(unreliable.store()).await?;
    run(&repository, &options(grace)).await?;
    run(&repository, &options(grace)).await.map(drop)
}

#[rstest]
#[case::in_two_phases(SHORT)]
#[case::at_once(Duration::ZERO)]
#[tokio::test]
async fn a_prune_that_dies_at_any_request_loses_nothing_and_is_finished_by_the_next(#[case] grace: Duration) {
    let base = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&base) as _), Version::V2).await;
    let (snapshot, files) = half_forgotten(&repository).await;

    let quiet = Unreliable::new(&copy(&base).await, Trouble::None);
    prune_twice(&quiet, grace).await.unwrap();
    let requests = quiet.requests();
    let clean = packs(&opened(quiet.store()).await.unwrap()).await.len();
    assert!(requests > 50, "{requests}");

    let deaths = (1..=requests).flat_map(|request| [(request, false), (request, true)]);
    let trying = futures::stream::iter(deaths).map(|(request, after)| {
        let (base, files) = (Arc::clone(&base), files.clone());
        async move {
            let memory = copy(&base).await;
            let unreliable = Unreliable::new(&memory, Trouble::Death { request, after });
            let outcome = prune_twice(&unreliable, grace).await;
            // Only giving back the last lock may fail without being noticed.
            assert!(outcome.is_err() || request + 1 >= requests, "death at {request} went unnoticed");
            let repository = opened(store(memory)).await.unwrap();
            assert_eq!(restore(&repository, snapshot).await.unwrap(), files, "death at {request}");
            for _ in 0..3 {
                run(&repository, &options(grace)).await.unwrap();
                assert_eq!(restore(&repository, snapshot).await.unwrap(), files, "death at {request}");
            }
            let left = packs(&repository).await;
            assert_eq!(left, indexed(&repository).await, "death at {request}");
            assert!(left.len() <= clean + 1, "death at {request}: {} packs instead of {clean}", left.len());
            assert!(mark_objects(&repository).await.is_empty());
        }
    });
    // Many at a time, because each waits for stores to settle.
    trying.buffer_unordered(64).collect::<()>().await;
}
