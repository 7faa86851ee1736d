//! Prune on repositories in memory.

mod crashes;
mod damage;
mod listings;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt;
use lifeboat_store::Memory;
use rstest::rstest;

use super::plan::MaxUnused;
use super::*;
use crate::files::OWN_PREFIX;
use crate::index::{IndexFile, IndexedPack};
use crate::testing::sample::{Files, backup, file, restore};
use crate::testing::unreliable::{Fault, Unreliable};
use crate::testing::{memory_repository, new_repository};

/// Deletes as soon as the store's clock has advanced.
const SHORT: Duration = Duration::from_nanos(1);

fn options(grace: Duration) -> PruneOptions {
    let plan = plan::Options { grace, max_unused: MaxUnused::Bytes(0), ..plan::Options::default() };
    PruneOptions { plan, ..PruneOptions::default() }
}

async fn run(repository: &Repository, options: &PruneOptions) -> Result<Pruned> {
    let dead_owners = vec![repository.options().identity.host.clone()];
    let lock = LockOptions { dead_owners, ..LockOptions::default() };
    prune(repository, options, &lock, &Progress::default(), &CancellationToken::new()).await
}

async fn packs(repository: &Repository) -> BTreeSet<PackId> {
    repository.list(FileKind::Pack).await.unwrap().into_iter().map(|file| PackId(file.id)).collect()
}

async fn indexed(repository: &Repository) -> BTreeSet<PackId> {
    repository.load_index().await.unwrap().packs().iter().copied().collect()
}

async fn mark_objects(repository: &Repository) -> Vec<String> {
    let listed: Vec<_> = repository.store().list(&format!("{OWN_PREFIX}/")).try_collect().await.unwrap();
    listed.into_iter().map(|info| info.key).collect()
}

/// Two snapshots that share a file; with one of them forgotten, some packs are unused and one is partly used.
async fn half_forgotten(repository: &Repository) -> (SnapshotId, Files) {
    let first = Files::from([file("a", 3000), file("b", 4000), file("shared", 5000)]);
    let second = Files::from([file("c", 3000), file("shared", 5000)]);
    let forgotten = backup(repository, 1, &first).await.unwrap();
    let stays = backup(repository, 2, &second).await.unwrap();
    repository.remove_file(FileKind::Snapshot, forgotten.0).await.unwrap();
    (stays, second)
}

#[rstest]
#[case(Version::V1)]
#[case(Version::V2)]
#[tokio::test]
async fn packs_leave_the_index_first_and_the_store_in_a_later_run(#[case] version: Version) {
    let repository = new_repository(lifeboat_store::Store::memory(), version).await;
    let (snapshot, files) = half_forgotten(&repository).await;
    let before = indexed(&repository).await;

    let first = run(&repository, &options(SHORT)).await.unwrap();
    assert!(first.plan.delete.is_empty() && first.done.packs_deleted == 0);
    assert!(!first.plan.repack.is_empty() && !first.plan.take_out.is_empty());
    let leaving: BTreeSet<_> = first.plan.leaves_index().into_iter().collect();
    assert!(before.is_subset(&packs(&repository).await), "everything is still in the store");
    assert!(indexed(&repository).await.is_disjoint(&leaving));
    assert_eq!(mark_objects(&repository).await.len(), 1);
    assert_eq!(restore(&repository, snapshot).await.unwrap(), files);

    let second = run(&repository, &options(SHORT)).await.unwrap();
    assert_eq!(second.plan.delete.iter().copied().collect::<BTreeSet<_>>(), leaving);
    assert_eq!(packs(&repository).await, indexed(&repository).await);
    assert!(mark_objects(&repository).await.is_empty());
    assert_eq!(restore(&repository, snapshot).await.unwrap(), files);

    let third = run(&repository, &options(SHORT)).await.unwrap();
    assert_eq!(third.done, Done::default());
    assert!(repository.list(FileKind::Lock).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_grace_of_zero_does_both_in_one_run() {
    let repository = memory_repository().await;
    let (snapshot, files) = half_forgotten(&repository).await;
    let pruned = run(&repository, &options(Duration::ZERO)).await.unwrap();
    assert_eq!(pruned.done.packs_deleted, pruned.plan.delete.len() as u64);
    assert_eq!(packs(&repository).await, indexed(&repository).await);
    assert!(mark_objects(&repository).await.is_empty());
    assert_eq!(restore(&repository, snapshot).await.unwrap(), files);
    assert_eq!(repository.list(FileKind::Index).await.unwrap().len(), 2);
    assert_eq!(run(&repository, &options(Duration::ZERO)).await.unwrap().done, Done::default());
}

#[tokio::test]
async fn within_the_grace_time_nothing_is_deleted() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    let day = options(plan::DEFAULT_GRACE);
    run(&repository, &day).await.unwrap();
    let marked = mark_objects(&repository).await;
    let before = packs(&repository).await;
    let second = run(&repository, &day).await.unwrap();
    assert!(second.plan.delete.is_empty() && !second.plan.waiting.is_empty() && second.plan.mark.is_empty());
    assert_eq!((packs(&repository).await, mark_objects(&repository).await), (before, marked));
    assert!(second.plan.next_due.is_some());
}

#[tokio::test]
async fn a_lost_mark_starts_the_grace_time_again() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    run(&repository, &options(SHORT)).await.unwrap();
    for key in mark_objects(&repository).await {
        repository.store().delete(&key).await.unwrap();
    }
    let before = packs(&repository).await;
    let again = run(&repository, &options(SHORT)).await.unwrap();
    assert!(again.plan.delete.is_empty() && !again.plan.mark.is_empty());
    assert_eq!(packs(&repository).await, before);
    assert!(run(&repository, &options(SHORT)).await.unwrap().done.packs_deleted > 0);
}

#[tokio::test]
async fn a_pack_that_an_index_names_again_is_not_deleted_by_its_old_mark() {
    let repository = memory_repository().await;
    let (snapshot, files) = half_forgotten(&repository).await;
    let index = repository.load_index().await.unwrap();
    let first = run(&repository, &options(SHORT)).await.unwrap();
    // As `restic repair index` does.
    let mut file = IndexFile::default();
    for pack in &first.plan.take_out {
        let mut blobs = Vec::new();
        index
            .for_each(&mut |entry| {
                if entry.location.pack == *pack {
                    blobs.push(crate::pack::PackedBlob {
                        kind: entry.kind,
                        id: entry.id,
                        offset: entry.location.offset,
                        length: entry.location.length,
                        uncompressed_length: entry.location.uncompressed_length,
                    });
                }
                Ok(())
            })
            .unwrap();
        file.packs.push(IndexedPack::new(*pack, &blobs));
    }
    repository.save_file(FileKind::Index, &file.json().unwrap()).await.unwrap();
    let second = run(&repository, &options(SHORT)).await.unwrap();
    assert_eq!(second.plan.void_marks, first.plan.take_out);
    assert_eq!(second.plan.take_out, first.plan.take_out);
    assert!(second.plan.delete.iter().all(|pack| !first.plan.take_out.contains(pack)));
    assert!(packs(&repository).await.is_superset(&first.plan.take_out.iter().copied().collect()));
    run(&repository, &options(SHORT)).await.unwrap();
    assert_eq!(packs(&repository).await, indexed(&repository).await);
    assert_eq!(restore(&repository, snapshot).await.unwrap(), files);
}

#[tokio::test]
async fn where_no_marks_can_be_kept_packs_leave_the_store_with_a_grace_of_zero_only() {
    let store = Unreliable::new(&Arc::new(Memory::new()), Fault::OnlyRestic).store();
    let repository = new_repository(store, Version::V2).await;
    let (snapshot, files) = half_forgotten(&repository).await;
    let before = packs(&repository).await;
    for _ in 0..3 {
        let pruned = run(&repository, &options(SHORT)).await.unwrap();
        assert!(!pruned.marks_kept && pruned.done.packs_deleted == 0);
    }
    assert!(packs(&repository).await.is_superset(&before));
    assert!(!indexed(&repository).await.is_superset(&before));
    assert!(run(&repository, &options(Duration::ZERO)).await.unwrap().done.packs_deleted > 0);
    assert_eq!(packs(&repository).await, indexed(&repository).await);
    assert_eq!(restore(&repository, snapshot).await.unwrap(), files);
}

#[tokio::test]
async fn packs_of_a_backup_that_died_are_reclaimed() {
    let repository = memory_repository().await;
    let (snapshot, files) = half_forgotten(&repository).await;
    let lost = FileKind::Pack.key(Id::of(b"lost"));
    repository.store().put(&lost, "half a pack").await.unwrap();
    run(&repository, &options(SHORT)).await.unwrap();
    assert!(repository.store().exists(&lost).await.unwrap());
    run(&repository, &options(SHORT)).await.unwrap();
    assert!(!repository.store().exists(&lost).await.unwrap());
    assert_eq!(restore(&repository, snapshot).await.unwrap(), files);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    let objects = || async {
        let listed: Vec<_> = repository.store().list("").try_collect().await.unwrap();
        listed.into_iter().map(|info| (info.key, info.etag)).collect::<BTreeMap<_, _>>()
    };
    let before = objects().await;
    let dry = PruneOptions { dry_run: true, ..options(Duration::ZERO) };
    let pruned = run(&repository, &dry).await.unwrap();
    assert!(!pruned.plan.delete.is_empty() && pruned.done == Done::default());
    let plan = dry_run(&repository, &options(Duration::ZERO), &Progress::default()).await.unwrap();
    assert_eq!(plan.delete, pruned.plan.delete);
    assert_eq!(objects().await, before);
}

#[tokio::test]
async fn snapshots_that_will_be_forgotten_do_not_count_in_a_dry_run() {
    let repository = memory_repository().await;
    let (snapshot, _) = half_forgotten(&repository).await;
    backup(&repository, 3, &Files::from([file("z", 100)])).await.unwrap();
    let all = dry_run(&repository, &options(SHORT), &Progress::default()).await.unwrap();
    let without = PruneOptions { without: HashSet::from([snapshot]), ..options(SHORT) };
    let fewer = dry_run(&repository, &without, &Progress::default()).await.unwrap();
    assert!(fewer.totals.used.blobs < all.totals.used.blobs);
    assert!(matches!(run(&repository, &without).await, Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn a_shared_lock_is_not_enough() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    let lock = Arc::new(Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await.unwrap());
    let (progress, cancel) = (Progress::default(), CancellationToken::new());
    let outcome = prune_locked(&repository, &options(SHORT), &lock, &progress, &cancel).await;
    assert!(matches!(outcome, Err(Error::Invalid { .. })));
    lock.release().await;
}

#[tokio::test]
async fn a_repository_without_snapshots_is_pruned_only_when_that_is_meant() {
    let repository = memory_repository().await;
    let (snapshot, _) = half_forgotten(&repository).await;
    repository.remove_file(FileKind::Snapshot, snapshot.0).await.unwrap();
    let refused = run(&repository, &options(Duration::ZERO)).await;
    assert!(matches!(refused, Err(Error::Refused { .. })));
    assert!(!packs(&repository).await.is_empty());
    let mut meant = options(Duration::ZERO);
    meant.plan.allow_no_snapshots = true;
    run(&repository, &meant).await.unwrap();
    assert!(packs(&repository).await.is_empty() && indexed(&repository).await.is_empty());
}

#[tokio::test]
async fn a_cancelled_prune_says_so() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome =
        prune(&repository, &options(SHORT), &LockOptions::default(), &Progress::default(), &cancel).await;
    assert!(matches!(outcome, Err(Error::Cancelled)));
    assert!(repository.list(FileKind::Lock).await.unwrap().is_empty());
}

#[rstest]
#[case::with_grace(SHORT, [false, true, true])]
#[case::at_once(Duration::ZERO, [false, false, true])]
#[tokio::test]
async fn what_dead_writers_left_behind_goes_with_a_prune(#[case] grace: Duration, #[case] stay: [bool; 3]) {
    let directory = tempfile::tempdir().unwrap();
    let repository =
        new_repository(lifeboat_store::Store::local(directory.path()).unwrap(), Version::V2).await;
    half_forgotten(&repository).await;
    let files = [25, 2, 0].map(|hours| {
        let path = directory.path().join(format!("data/.lifeboat-tmp-{hours}"));
        let file = std::fs::File::create(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_hours(hours)).unwrap();
        path
    });
    let pruned = run(&repository, &options(grace)).await.unwrap();
    assert_eq!(files.map(|path| path.exists()), stay);
    assert_eq!(pruned.done.unfinished_removed, stay.iter().filter(|stay| !**stay).count() as u64);
}

#[tokio::test]
async fn a_check_says_once_that_packs_wait_and_suggests_no_prune() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    run(&repository, &options(Duration::from_hours(24))).await.unwrap();
    let (progress, cancel) = (Arc::default(), CancellationToken::new());
    let options = crate::check::CheckOptions::default();
    let checked = crate::check::check(&repository, &options, None, progress, cancel).await.unwrap();
    let kinds: Vec<_> = checked.hints.iter().map(|hint| hint.kind).collect();
    assert_eq!(kinds, [crate::check::HintKind::WaitingPacks], "{checked:?}");
    assert!(checked.is_ok() && !checked.summary().suggest_prune);
}
