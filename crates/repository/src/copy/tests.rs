use lifeboat_store::Store;

use super::*;
use crate::check::{CheckOptions, ReadData, check};
use crate::config::Version;
use crate::files::FileKind;
use crate::testing::{memory_repository, new_repository, save_snapshot};

async fn all(source: &Repository, target: &Repository) -> Result<CopyOutcome> {
    let ids: Vec<_> = source.load_snapshots().await.unwrap().into_iter().map(|(id, _)| id).collect();
    let lock = LockOptions::default();
    copy(source, target, &ids, Some(&lock), &lock, Arc::default(), CancellationToken::new()).await
}

async fn is_whole(repository: &Repository) -> bool {
    let options = CheckOptions { read: ReadData::All, snapshots: None };
    check(repository, &options, None, Arc::default(), CancellationToken::new()).await.unwrap().is_ok()
}

#[rstest::rstest]
#[case(Version::V1, Version::V2)]
#[case(Version::V2, Version::V1)]
#[case(Version::V2, Version::V2)]
#[tokio::test]
async fn snapshots_are_copied_once(#[case] from: Version, #[case] to: Version) {
    let source = new_repository(Store::memory(), from).await;
    let target = new_repository(Store::memory(), to).await;
    let (one, first) = save_snapshot(&source, 1, &[("a/b", &[1; 2500]), ("c", b"x")]).await;
    let outcome = all(&source, &target).await.unwrap();
    assert_eq!((outcome.copied.len(), outcome.skipped.len(), outcome.blobs), (1, 0, 5));
    assert!(is_whole(&target).await);
    save_snapshot(&source, 2, &[("a/b", &[1; 2500]), ("d", b"y")]).await;
    let outcome = all(&source, &target).await.unwrap();
    assert_eq!((outcome.copied.len(), outcome.skipped[0].source, outcome.blobs), (1, one, 2));
    assert!(is_whole(&target).await);
    let copies = target.load_snapshots().await.unwrap();
    assert_eq!((copies.len(), copies[0].1.original, copies[0].1.tree), (2, Some(one), first.tree));
    // And back: copies record where they came from.
    assert_eq!(all(&target, &source).await.unwrap().copied, []);
    assert_eq!(source.list(FileKind::Lock).await.unwrap(), []);
    assert_eq!(target.list(FileKind::Lock).await.unwrap(), []);
}

#[tokio::test]
async fn a_damaged_source_writes_no_snapshot() {
    let (source, target) = (memory_repository().await, memory_repository().await);
    save_snapshot(&source, 1, &[("a", b"first")]).await;
    let index = source.load_index().await.unwrap();
    let blob = BlobId(crate::id::Id::of(b"first"));
    let pack = index.find(BlobKind::Data, &blob).unwrap().unwrap().pack;
    source.remove_file(FileKind::Pack, pack.0).await.unwrap();
    assert!(all(&source, &target).await.is_err());
    assert_eq!(target.list(FileKind::Snapshot).await.unwrap(), []);
}

#[tokio::test]
async fn a_snapshot_that_was_changed_since_is_copied_again() {
    let (source, target) = (memory_repository().await, memory_repository().await);
    let (id, _) = save_snapshot(&source, 1, &[("a", b"first")]).await;
    all(&source, &target).await.unwrap();
    let change = crate::tag::TagChange::Set(vec!["new".to_owned()]);
    crate::tag::tag(&source, &[id], &change, &LockOptions::default()).await.unwrap();
    assert_eq!(all(&source, &target).await.unwrap().copied.len(), 1);
}
