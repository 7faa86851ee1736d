//! Listings that fail or are wrong, one at a time: the prune detects it, and deletes nothing.

use std::sync::Arc;

use futures::StreamExt;
use lifeboat_store::Memory;
use rstest::rstest;

use super::*;
use crate::testing::opened;
use crate::testing::unreliable::{Fault, ListingFault, Unreliable, copy, store};

/// Small, so that listings have several pages.
const PAGE: usize = 2;

async fn pruned(unreliable: &Arc<Unreliable>) -> Result<Pruned> {
    run(&opened(unreliable.store()).await?, &options(Duration::ZERO)).await
}

#[rstest]
#[case(ListingFault::Fails)]
#[case(ListingFault::IsNotFound)]
#[case(ListingFault::IsEmpty)]
#[case(ListingFault::LacksTheFirst)]
#[case(ListingFault::LacksTheLast)]
#[case(ListingFault::Repeats)]
#[case(ListingFault::EndsEarly)]
#[tokio::test]
async fn no_listing_that_lies_makes_a_prune_delete_anything(#[case] fault: ListingFault) {
    let base = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&base) as _), Version::V2).await;
    let (snapshot, files) = half_forgotten(&repository).await;
    let other = Files::from([file("x", 9000), file("y", 100)]);
    let second = backup(&repository, 3, &other).await.unwrap();
    let before = packs(&repository).await;
    let quiet = Unreliable::with_pages(&copy(&base).await, Fault::None, PAGE);
    pruned(&quiet).await.unwrap();

    let trying = futures::stream::iter(1..=quiet.listings()).map(|number| {
        let (base, before, files, other) = (Arc::clone(&base), before.clone(), files.clone(), other.clone());
        async move {
            let memory = copy(&base).await;
            let unreliable = Unreliable::with_pages(&memory, Fault::Listing { number, fault }, PAGE);
            let outcome = pruned(&unreliable).await;
            assert!(unreliable.happened());
            let repository = opened(store(memory)).await.unwrap();
            if outcome.is_err() {
                assert!(packs(&repository).await.is_superset(&before), "listing {number}");
            } else {
                // The first listing of locks and that of marks may be empty, and a mark that is not found only makes
                // its pack wait longer; the keys are in the first listing.
                let listed = unreliable.listed(number);
                let harmless = matches!(listed.as_str(), "keys/" | "locks/" | "lifeboat/prune/");
                assert!(harmless, "listing {number}, of {listed}, was wrong and not detected");
                assert!(
                    !matches!(fault, ListingFault::Fails | ListingFault::IsNotFound),
                    "listing {number} failed and was not detected"
                );
            }
            assert_eq!(restore(&repository, snapshot).await.unwrap(), files, "listing {number}");
            assert_eq!(restore(&repository, second).await.unwrap(), other, "listing {number}");
            let named = indexed(&repository).await;
            assert!(named.is_subset(&packs(&repository).await), "listing {number}: a named pack is gone");
        }
    });
    // Many concurrently, because each waits for the store to settle.
    trying.buffer_unordered(64).collect::<()>().await;
}
