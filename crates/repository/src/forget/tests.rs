//! Forget on a repository in memory.

use std::sync::Arc;

use lifeboat_store::Memory;
use rstest::rstest;

use super::policy::Count;
use super::*;
use crate::config::Version;
use crate::snapshots::samples::snapshot;
use crate::testing::unreliable::{Fault, ListingFault, Unreliable, copy, store};
use crate::testing::{memory_repository, new_repository, opened};

async fn with_snapshots(repository: &Repository, count: u8) -> Vec<SnapshotId> {
    let mut ids = Vec::new();
    for day in 1..=count {
        let host = if day % 2 == 0 { "web" } else { "db" };
        let (_, snapshot) = snapshot("x", &format!("2026-01-{day:02}T00:00:00Z"), host, &["/data"], &[]);
        ids.push(repository.save_snapshot(&snapshot).await.unwrap());
    }
    ids
}

fn keep_last(number: u64) -> ForgetOptions {
    let policy = Policy { last: Count::Limited(number), ..Policy::default() };
    ForgetOptions { policy, ..ForgetOptions::default() }
}

async fn run(repository: &Repository, options: &ForgetOptions) -> Result<Forgotten> {
    forget(repository, options, &LockOptions::default(), &CancellationToken::new()).await
}

async fn left(repository: &Repository) -> BTreeSet<SnapshotId> {
    repository.load_snapshots().await.unwrap().into_iter().map(|(id, _)| id).collect()
}

#[tokio::test]
async fn the_policy_is_applied_to_each_group_and_the_rest_is_gone() {
    let repository = memory_repository().await;
    let ids = with_snapshots(&repository, 6).await;
    let dry = run(&repository, &ForgetOptions { dry_run: true, ..keep_last(1) }).await.unwrap();
    assert_eq!((dry.remove.len(), left(&repository).await.len()), (4, 6));
    let forgotten = run(&repository, &keep_last(1)).await.unwrap();
    assert_eq!(forgotten.remove, dry.remove);
    assert_eq!(left(&repository).await, BTreeSet::from([ids[4], ids[5]]));
    let json = serde_json::to_value(&forgotten.groups).unwrap();
    assert_eq!(json[0]["host"], "db");
    assert_eq!(json[0]["tags"], serde_json::Value::Null);
    assert_eq!(json[0]["reasons"][0]["matches"][0], "last snapshot");
    assert_eq!(json[0]["keep"][0]["short_id"], ids[4].short());
    assert_eq!(json[0]["keep"][0]["time"], "2026-01-05T00:00:00Z");
    assert!(repository.list(FileKind::Lock).await.unwrap().is_empty());
}

#[tokio::test]
async fn named_snapshots_go_and_an_unknown_name_stops_all() {
    let repository = memory_repository().await;
    let ids = with_snapshots(&repository, 3).await;
    let named = |names: &[String]| ForgetOptions {
        selectors: names.iter().map(|name| name.parse().unwrap()).collect(),
        ..ForgetOptions::default()
    };
    let unknown = run(&repository, &named(&[ids[0].short(), "ffffffffff".to_owned()])).await;
    assert!(matches!(unknown, Err(Error::NothingFound { .. })));
    assert_eq!(left(&repository).await.len(), 3);
    run(&repository, &named(&[ids[0].short(), "latest".to_owned()])).await.unwrap();
    assert_eq!(left(&repository).await, BTreeSet::from([ids[1]]));
}

#[rstest]
#[case::no_policy(ForgetOptions::default())]
#[case::remove_all_without_filter(ForgetOptions { allow_remove_all: true, ..ForgetOptions::default() })]
#[case::a_policy_that_keeps_nothing(ForgetOptions {
    policy: Policy { tags: ["none"].iter().map(|tag| tag.parse().unwrap()).collect(), ..Policy::default() },
    allow_remove_all: true,
    ..ForgetOptions::default()
})]
#[tokio::test]
async fn what_would_remove_every_snapshot_of_a_group_is_refused(#[case] options: ForgetOptions) {
    let repository = memory_repository().await;
    with_snapshots(&repository, 3).await;
    assert!(run(&repository, &options).await.is_err());
    assert_eq!(left(&repository).await.len(), 3);
}

#[tokio::test]
async fn all_of_a_host_can_be_removed_when_it_is_said_twice() {
    let repository = memory_repository().await;
    let ids = with_snapshots(&repository, 3).await;
    let filter = Filter { hosts: vec!["db".into()], ..Filter::default() };
    run(&repository, &ForgetOptions { allow_remove_all: true, filter, ..ForgetOptions::default() })
        .await
        .unwrap();
    assert_eq!(left(&repository).await, BTreeSet::from([ids[1]]));
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
async fn no_listing_that_lies_makes_a_forget_delete_anything(#[case] fault: ListingFault) {
    let base = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&base) as _), Version::V2).await;
    with_snapshots(&repository, 6).await;
    let quiet = Unreliable::with_pages(&copy(&base).await, Fault::None, 2);
    run(&opened(quiet.store()).await.unwrap(), &keep_last(1)).await.unwrap();

    let trying = futures::stream::iter(1..=quiet.listings()).map(|number| {
        let base = Arc::clone(&base);
        async move {
            let memory = copy(&base).await;
            let unreliable = Unreliable::with_pages(&memory, Fault::Listing { number, fault }, 2);
            let outcome = match opened(unreliable.store()).await {
                Ok(repository) => run(&repository, &keep_last(1)).await,
                Err(error) => Err(error),
            };
            let left = left(&opened(store(memory)).await.unwrap()).await.len();
            if outcome.is_err() {
                assert_eq!(left, 6, "listing {number}");
            } else {
                assert!(matches!(unreliable.listed(number).as_str(), "keys/" | "locks/"), "listing {number}");
                assert_eq!(left, 2);
            }
        }
    });
    trying.buffer_unordered(64).collect::<()>().await;
}

#[tokio::test]
async fn snapshots_that_cannot_be_removed_are_reported_and_the_others_are_removed() {
    let base = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&base) as _), Version::V2).await;
    with_snapshots(&repository, 6).await;
    let quiet = Unreliable::new(&copy(&base).await, Fault::None);
    let whole = opened(quiet.store()).await.unwrap();
    run(&whole, &keep_last(1)).await.unwrap();
    // The last two requests remove a snapshot and our own lock.
    let crash = Fault::Crash { request: quiet.requests() - 1, after: false };
    let crashing = Unreliable::new(&base, crash);
    let repository = opened(crashing.store()).await.unwrap();
    let forgotten = run(&repository, &keep_last(1)).await.unwrap();
    assert_eq!((forgotten.remove.len(), forgotten.failed.len()), (4, 1));
}

#[tokio::test]
async fn a_damaged_snapshot_stays_whatever_the_policy_says_and_goes_when_it_is_named() {
    let repository = memory_repository().await;
    let ids = with_snapshots(&repository, 6).await;
    repository.store().put(&FileKind::Snapshot.key(ids[0].0), "damaged").await.unwrap();
    let listed = async || -> BTreeSet<SnapshotId> {
        let files = repository.list(FileKind::Snapshot).await.unwrap();
        files.into_iter().map(|file| SnapshotId(file.id)).collect()
    };
    run(&repository, &keep_last(1)).await.unwrap();
    assert_eq!(listed().await, BTreeSet::from([ids[0], ids[4], ids[5]]));
    let named =
        |name: &str| ForgetOptions { selectors: vec![name.parse().unwrap()], ..ForgetOptions::default() };
    // It is unknown which one is the latest.
    assert!(matches!(run(&repository, &named("latest")).await, Err(Error::Refused { .. })));
    assert_eq!(run(&repository, &named(&ids[0].short())).await.unwrap().remove, [ids[0]]);
    assert_eq!(listed().await, BTreeSet::from([ids[4], ids[5]]));
}
