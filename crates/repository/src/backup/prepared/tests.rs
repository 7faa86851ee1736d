use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::backup::Source;
use crate::id::{BlobKind, PackId};
use crate::index::IndexFile;
use crate::prune::plan::{MaxUnused, Options};
use crate::prune::{PruneOptions, Pruned, prune};
use crate::testing::memory_repository;
use crate::testing::sample::{Files, backup, file, restore};

async fn prepared(repository: &Repository) -> Prepared {
    let host = repository.options().identity.host.clone();
    let owner = LockOwner { host, process: i64::from(std::process::id()) };
    let reader = Box::new(std::io::Cursor::new(file("dump", 5000).1));
    let options = BackupOptions::new(Source::Stream { name: "dump".to_owned(), reader }, "host");
    let lock = LockOptions::default();
    prepare(repository, options, owner, &lock, Arc::default(), CancellationToken::new()).await.unwrap().0
}

async fn locked(repository: &Repository) -> Lock {
    Lock::acquire(repository, LockKind::Shared, &LockOptions::default()).await.unwrap()
}

async fn committed(repository: &Repository, prepared: &Prepared) -> Result<SnapshotId> {
    commit(repository, prepared, &CancellationToken::new()).await
}

async fn pruned(repository: &Repository, grace: Duration) -> Result<Pruned> {
    let plan = Options { grace, max_unused: MaxUnused::Bytes(0), ..Options::default() };
    let options = PruneOptions { plan, ..PruneOptions::default() };
    let lock = LockOptions::default();
    prune(repository, &options, &lock, &Progress::default(), &CancellationToken::new()).await
}

async fn packs(repository: &Repository) -> BTreeSet<PackId> {
    repository.list(FileKind::Pack).await.unwrap().into_iter().map(|file| PackId(file.id)).collect()
}

#[rstest::rstest]
#[case::at_once(&[Duration::ZERO])]
#[case::marked_then_deleted(&[Duration::from_nanos(1), Duration::from_nanos(1)])]
#[tokio::test(flavor = "multi_thread")]
async fn what_was_prepared_and_never_committed_is_taken_away_by_a_prune(#[case] prunes: &[Duration]) {
    let repository = memory_repository().await;
    let files = Files::from([file("a", 3000)]);
    let kept = backup(&repository, 1, &files).await.unwrap();
    let before = packs(&repository).await;
    let lock = locked(&repository).await;
    let prepared = prepared(&repository).await;
    assert!(packs(&repository).await.len() > before.len());
    let refused = pruned(&repository, prunes[0]).await;
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");

    // The caller has ended, and with it its lock.
    lock.release().await;
    for grace in prunes {
        pruned(&repository, *grace).await.unwrap();
    }
    assert_eq!(packs(&repository).await, before);
    assert_eq!(repository.load_index().await.unwrap().packs().len(), before.len());
    assert_eq!(restore(&repository, kept).await.unwrap(), files);

    // A commit that comes too late makes no snapshot of removed data, not even under a new lock.
    let lock = locked(&repository).await;
    assert!(committed(&repository, &prepared).await.is_err());
    assert_eq!(repository.list(FileKind::Snapshot).await.unwrap().len(), 1);
    lock.release().await;
}

#[rstest::rstest]
#[case::data(false)]
#[case::trees(true)]
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_refused_when_a_blob_is_in_no_index_any_more(#[case] trees: bool) {
    let repository = memory_repository().await;
    let lock = locked(&repository).await;
    let prepared = prepared(&repository).await;
    for file in repository.list(FileKind::Index).await.unwrap() {
        let plain = repository.load_file(FileKind::Index, file.id).await.unwrap();
        let mut index = IndexFile::parse(&plain).unwrap();
        index.packs.retain(|pack| pack.blobs().all(|blob| (blob.kind == BlobKind::Tree) != trees));
        repository.remove_file(FileKind::Index, file.id).await.unwrap();
        repository.save_file(FileKind::Index, &index.json().unwrap()).await.unwrap();
    }
    let refused = committed(&repository, &prepared).await.unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
    assert_eq!(repository.list(FileKind::Snapshot).await.unwrap(), []);
    lock.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_refused_when_the_lock_is_gone_or_another_process_has_it() {
    let repository = memory_repository().await;
    let lock = locked(&repository).await;
    let prepared = prepared(&repository).await;
    let mut foreign = prepared.clone();
    foreign.owner.process += 1;
    crate::lock::remove_all_locks(&repository).await.unwrap();
    for refused in [committed(&repository, &prepared).await, committed(&repository, &foreign).await] {
        assert!(matches!(refused, Err(Error::LockLost { .. })), "{refused:?}");
    }
    lock.release().await;
    let lock = locked(&repository).await;
    let refused = committed(&repository, &foreign).await;
    assert!(matches!(refused, Err(Error::LockLost { .. })), "{refused:?}");
    assert_eq!(repository.list(FileKind::Snapshot).await.unwrap(), []);
    lock.release().await;
}
