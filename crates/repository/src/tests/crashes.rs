//! Backup, forget and prune in a row that crash before or after any of their requests. Afterwards, every snapshot
//! that was acknowledged and not forgotten exists, every existing snapshot is complete, a check that reads all data
//! finds no error, and the same work succeeds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lifeboat_store::{Memory, Store};
use rstest::rstest;
use tokio_util::sync::CancellationToken;

use crate::backup::{BackupOptions, Parent, Source, backup};
use crate::check::{CheckOptions, ReadData, check};
use crate::config::Version;
use crate::error::Result;
use crate::files::{FileKind, OWN_PREFIX};
use crate::forget::policy::Policy;
use crate::forget::{ForgetOptions, forget_locked};
use crate::id::{PackId, SnapshotId};
use crate::lock::{Lock, LockKind, LockOptions};
use crate::progress::Progress;
use crate::prune::plan::{self, MaxUnused};
use crate::prune::{PruneOptions, prune_locked};
use crate::repository::{Options, Repository};
use crate::snapshots::GroupBy;
use crate::testing::crashes::{Crash, WorkOutcome, crash_everywhere, undisturbed};
use crate::testing::sample::{Files, file, restore};
use crate::testing::unreliable::store;
use crate::testing::{new_repository, password};

/// Snapshots with this tag are kept.
const KEPT: &str = "kept";

/// The content of each backup. The first shares data with the others, so that packs are partly used after it is
/// forgotten.
const SOURCES: [(&str, &[(&str, usize)]); 3] = [
    ("first", &[("a", 3000), ("b", 4000), ("shared", 5000), ("later", 2000)]),
    ("second", &[("c", 3000), ("shared", 5000)]),
    ("third", &[("d", 3000), ("e", 4000), ("later", 2000)]),
];

fn files_of(name: &str) -> Files {
    let (_, files) = SOURCES.iter().find(|(source, _)| *source == name).unwrap();
    files.iter().map(|(name, length)| file(name, *length)).collect()
}

fn write_sources(base: &Path) {
    for (source, _) in SOURCES {
        std::fs::create_dir(base.join(source)).unwrap();
        for (name, content) in files_of(source) {
            std::fs::write(base.join(source).join(name), content).unwrap();
        }
    }
}

async fn opened(store: Store) -> Result<Repository> {
    let options = Options { threads: 1, ..Options::default() };
    Repository::open(store, &password(), options).await
}

/// The lock options of a process that knows that the previous one is dead.
fn lock_options(repository: &Repository) -> LockOptions {
    let dead_owners = vec![repository.options().identity.host.clone()];
    LockOptions { dead_owners, ..LockOptions::default() }
}

async fn back_up(repository: &Repository, base: &Path, source: &str, kept: bool) -> Result<SnapshotId> {
    let options = BackupOptions {
        tags: [Some(source), kept.then_some(KEPT)].into_iter().flatten().map(str::to_owned).collect(),
        parent: Parent::Newest(GroupBy::NOTHING),
        ..BackupOptions::new(Source::Paths(vec![base.join(source)]), "host")
    };
    let cancel = CancellationToken::new();
    let outcome = backup(repository, options, &lock_options(repository), Arc::default(), cancel).await?;
    assert!(!outcome.is_incomplete());
    Ok(outcome.snapshot_id.unwrap())
}

fn forget_options() -> ForgetOptions {
    let policy =
        Policy { tags: [KEPT].iter().map(|tag| tag.parse().unwrap()).collect(), ..Policy::default() };
    ForgetOptions { policy, group_by: GroupBy::NOTHING, ..ForgetOptions::default() }
}

fn prune_options(grace: Duration) -> PruneOptions {
    let plan = plan::Options { grace, max_unused: MaxUnused::Bytes(0), ..plan::Options::default() };
    PruneOptions { plan, ..PruneOptions::default() }
}

/// Forgets and prunes, under one lock or each under its own.
async fn clean_up(repository: &Repository, grace: Duration, one_lock: bool) -> Result<()> {
    let (progress, cancel) = (&Progress::default(), &CancellationToken::new());
    let (forgetting, pruning) = (&forget_options(), &prune_options(grace));
    let forget = async |lock: &Lock| match forget_locked(repository, forgetting, lock, cancel).await?.failed {
        failed if failed.is_empty() => Ok(()),
        mut failed => Err(failed.remove(0).1),
    };
    let prune =
        async |lock: &Arc<Lock>| prune_locked(repository, pruning, lock, progress, cancel).await.map(drop);
    let options = lock_options(repository);
    let hold = LockKind::Exclusive;
    Lock::hold(repository, hold, &options, |lock| async move {
        forget(&lock).await?;
        if one_lock { prune(&lock).await } else { Ok(()) }
    })
    .await?;
    // What the first prune marks, the next deletes.
    Lock::hold(repository, hold, &options, |lock| async move { prune(&lock).await }).await?;
    if one_lock {
        return Ok(());
    }
    Lock::hold(repository, hold, &options, |lock| async move { prune(&lock).await }).await
}

/// A backup, a forget and two prunes in a row; reports the snapshots that were acknowledged.
async fn everything(
    store: Store,
    base: &Path,
    grace: Duration,
    one_lock: bool,
) -> WorkOutcome<Vec<SnapshotId>> {
    let mut acknowledged = Vec::new();
    let work = async {
        let repository = opened(store).await?;
        acknowledged.push(back_up(&repository, base, "third", true).await?);
        clean_up(&repository, grace, one_lock).await
    };
    let outcome = work.await;
    (acknowledged, outcome)
}

/// Restores every existing snapshot; returns their IDs.
async fn whole_snapshots(repository: &Repository, when: &str) -> BTreeSet<SnapshotId> {
    let mut ids = BTreeSet::new();
    for (id, snapshot) in repository.load_snapshots().await.unwrap() {
        let restored = restore(repository, id).await;
        let restored =
            restored.unwrap_or_else(|error| panic!("{when}: {} cannot be read: {error}", snapshot.tags[0]));
        assert!(restored == files_of(&snapshot.tags[0]), "{when}: {} is not what it was", snapshot.tags[0]);
        ids.insert(id);
    }
    ids
}

async fn assert_no_errors(repository: &Repository, lock: Option<&LockOptions>, when: &str) {
    let options = CheckOptions { read: ReadData::All, snapshots: None };
    let outcome = check(repository, &options, lock, Arc::default(), CancellationToken::new()).await.unwrap();
    assert!(outcome.is_ok(), "{when}: {:?}", outcome.errors);
}

/// Nothing is left that no snapshot needs.
async fn assert_tidy(repository: &Repository, when: &str) {
    use futures::TryStreamExt;
    let packs = repository.list(FileKind::Pack).await.unwrap();
    let packs: BTreeSet<_> = packs.into_iter().map(|file| PackId(file.id)).collect();
    let named: BTreeSet<_> = repository.load_index().await.unwrap().packs().iter().copied().collect();
    assert_eq!(packs, named, "{when}");
    // A process that crashed while it determined the store's clock leaves an empty file, which is removed when it is
    // old.
    let locks = repository.list(FileKind::Lock).await.unwrap();
    assert!(locks.iter().all(|lock| lock.size == 0), "{when}: {locks:?}");
    let marks: Vec<_> = repository.store().list(&format!("{OWN_PREFIX}/")).try_collect().await.unwrap();
    assert!(marks.is_empty(), "{when}: {marks:?}");
}

#[rstest]
#[case::in_two_phases(Duration::from_nanos(1), false)]
#[case::under_one_lock(Duration::from_nanos(1), true)]
#[case::at_once(Duration::ZERO, true)]
#[tokio::test(flavor = "multi_thread")]
async fn backup_forget_and_prune_that_die_at_any_request_lose_nothing_and_can_be_repeated(
    #[case] grace: Duration,
    #[case] one_lock: bool,
) {
    let sources = tempfile::tempdir().unwrap();
    write_sources(sources.path());
    let base = Arc::new(Memory::new());
    new_repository(store(Arc::clone(&base) as _), Version::V2).await;
    let repository = opened(store(Arc::clone(&base) as _)).await.unwrap();
    let forgotten = back_up(&repository, sources.path(), "first", false).await.unwrap();
    let kept = back_up(&repository, sources.path(), "second", true).await.unwrap();

    let work = |store| everything(store, sources.path(), grace, one_lock);
    let quiet = undisturbed(&base, work).await;
    assert!(quiet.requests > 60, "{}", quiet.requests);
    let repository = opened(quiet.store).await.unwrap();
    let left = whole_snapshots(&repository, "without a crash").await;
    assert_eq!(left, BTreeSet::from([kept, quiet.reported[0]]));
    assert_tidy(&repository, "without a crash").await;

    crash_everywhere(&base, quiet.requests, work, |Crash { reported, store, name }| async move {
        let repository = opened(store.clone()).await.unwrap();
        let there = whole_snapshots(&repository, &name).await;
        let expected: BTreeSet<_> = reported.iter().copied().chain([kept]).collect();
        assert!(there.is_superset(&expected), "{name}: a snapshot that was acknowledged is gone");
        // Forgetting starts after the backup was acknowledged.
        assert!(
            there.contains(&forgotten) || !reported.is_empty(),
            "{name}: the first snapshot was not forgotten"
        );
        assert_no_errors(&repository, None, &name).await;

        let (again, outcome) = work(store.clone()).await;
        outcome.unwrap_or_else(|error| panic!("{name}: the work cannot be repeated: {error}"));
        let repository = opened(store).await.unwrap();
        let left = whole_snapshots(&repository, &name).await;
        assert!(
            left.is_superset(&expected) && left.contains(&again[0]) && !left.contains(&forgotten),
            "{name}"
        );
        assert_no_errors(&repository, Some(&lock_options(&repository)), &name).await;
        assert_tidy(&repository, &name).await;
    })
    .await;
}
