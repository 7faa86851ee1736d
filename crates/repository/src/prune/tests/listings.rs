//! Listings that fail or lie, one at a time: nothing that a snapshot needs is ever deleted or forgotten by the index.

use std::sync::Arc;

use futures::StreamExt;
use lifeboat_store::Memory;
use rstest::rstest;

use super::*;
use crate::testing::password;
use crate::testing::unreliable::{Lie, Trouble, Unreliable, copy, store};

async fn pruned(unreliable: &Arc<Unreliable>) -> Result<Pruned> {
    let options = crate::repository::Options::default();
    let repository = Repository::open(unreliable.store(), &password(), options).await?;
    run(&repository, &super::options(Duration::ZERO)).await
}

#[rstest]
#[case(Lie::Fails)]
#[case(Lie::IsNotFound)]
#[case(Lie::IsEmpty)]
#[case(Lie::LacksTheFirst)]
#[case(Lie::LacksTheLast)]
#[case(Lie::Repeats)]
#[tokio::test]
async fn no_listing_that_lies_makes_a_prune_lose_data(#[case] lie: Lie) {
    let base = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&base) as _), Version::V2).await;
    let (snapshot, files) = half_forgotten(&repository).await;
    let other = Files::from([file("x", 9000), file("y", 100)]);
    let second = backup(&repository, 3, &other).await.unwrap();
    let quiet = Unreliable::new(&copy(&base).await, Trouble::None);
    pruned(&quiet).await.unwrap();

    let trying = futures::stream::iter(1..=quiet.listings()).map(|number| {
        let (base, files, other) = (Arc::clone(&base), files.clone(), other.clone());
        async move {
            let memory = copy(&base).await;
            let unreliable = Unreliable::new(&memory, Trouble::Listing { number, lie });
            let outcome = pruned(&unreliable).await;
            assert!(unreliable.happened());
            if matches!(lie, Lie::Fails | Lie::IsNotFound) {
                assert!(outcome.is_err(), "listing {number} failed and nobody noticed");
            }
            let repository =
                Repository::open(store(memory), &password(), crate::repository::Options::default())
                    .await
                    .unwrap();
            assert_eq!(restore(&repository, snapshot).await.unwrap(), files, "listing {number}");
            assert_eq!(restore(&repository, second).await.unwrap(), other, "listing {number}");
            let named = indexed(&repository).await;
            assert!(named.is_subset(&packs(&repository).await), "listing {number}: a named pack is gone");
        }
    });
    trying.buffer_unordered(64).collect::<()>().await;
}
