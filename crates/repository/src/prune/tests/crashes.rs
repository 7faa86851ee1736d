//! A prune that crashes before or after any of its requests: every snapshot stays complete, and the next prune
//! finishes.

use std::sync::Arc;

use lifeboat_store::{Memory, Store};
use rstest::rstest;

use super::*;
use crate::testing::crashes::{WorkOutcome, crash_everywhere, undisturbed};
use crate::testing::opened;
use crate::testing::unreliable::store;

/// Two prunes, the second of which deletes what the first marked, with the crash somewhere in them.
async fn prune_twice(store: Store, grace: Duration) -> WorkOutcome<()> {
    let both = async {
        let repository = opened(store).await?;
        run(&repository, &options(grace)).await?;
        run(&repository, &options(grace)).await.map(drop)
    };
    ((), both.await)
}

#[rstest]
#[case::in_two_phases(SHORT)]
#[case::at_once(Duration::ZERO)]
#[tokio::test]
async fn a_prune_that_dies_at_any_request_loses_nothing_and_is_finished_by_the_next(#[case] grace: Duration) {
    let base = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&base) as _), Version::V2).await;
    let (snapshot, files) = half_forgotten(&repository).await;

    let work = |store| prune_twice(store, grace);
    let quiet = undisturbed(&base, work).await;
    let clean = packs(&opened(quiet.store).await.unwrap()).await.len();
    assert!(quiet.requests > 50, "{}", quiet.requests);

    crash_everywhere(&base, quiet.requests, work, |crash| {
        let files = files.clone();
        async move {
            let name = crash.name;
            let repository = opened(crash.store).await.unwrap();
            assert_eq!(restore(&repository, snapshot).await.unwrap(), files, "{name}");
            for _ in 0..3 {
                run(&repository, &options(grace)).await.unwrap();
                assert_eq!(restore(&repository, snapshot).await.unwrap(), files, "{name}");
            }
            let left = packs(&repository).await;
            assert_eq!(left, indexed(&repository).await, "{name}");
            assert!(left.len() <= clean + 1, "{name}: {} packs instead of {clean}", left.len());
            assert!(mark_objects(&repository).await.is_empty());
        }
    })
    .await;
}
