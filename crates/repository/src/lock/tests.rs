mod keeping;
mod taking;

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use lifeboat_store::backend::RequestKind;
use lifeboat_store::layers::Layered;
use lifeboat_store::testing::{Fault, Faults};
use lifeboat_store::{Store, Tuning};
use rstest::rstest;

use super::*;
use crate::config::Version;
use crate::testing::{memory_repository, new_repository, opened};

fn dead(owner: &str) -> LockOptions {
    LockOptions { dead_owners: vec![owner.to_owned()], ..LockOptions::default() }
}

async fn save(repository: &Repository, lock: &LockFile) -> LockId {
    let sealed = lock.seal(repository).unwrap();
    let id = sealed.id;
    sealed.write(repository).await.unwrap();
    id
}

async fn locks(repository: &Repository) -> Vec<LockId> {
    repository.list(FileKind::Lock).await.unwrap().into_iter().map(|file| LockId(file.id)).collect()
}

#[rstest]
#[case(LockKind::Shared, LockKind::Shared, true)]
#[case(LockKind::Shared, LockKind::Exclusive, false)]
#[case(LockKind::Exclusive, LockKind::Shared, false)]
#[case(LockKind::Exclusive, LockKind::Exclusive, false)]
#[tokio::test]
async fn shared_locks_go_together_and_exclusive_ones_with_none(
    #[case] held: LockKind,
    #[case] wanted: LockKind,
    #[case] together: bool,
) {
    let repository = memory_repository().await;
    let first = Lock::acquire(&repository, held, &LockOptions::default()).await.unwrap();
    let second = Lock::acquire(&repository, wanted, &LockOptions::default()).await;
    assert_eq!(second.is_ok(), together);
    match second {
        Ok(second) => second.release().await,
        Err(Error::Locked { holder }) => assert_eq!(holder.exclusive, held == LockKind::Exclusive),
        Err(other) => panic!("{other}"),
    }
    first.release().await;
    assert_eq!(repository.list(FileKind::Lock).await.unwrap(), []);
}

#[tokio::test]
async fn a_lock_that_someone_removed_is_lost() {
    let repository = memory_repository().await;
    let lock = Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await.unwrap();
    lock.verify().await.unwrap();
    assert_eq!(remove_all_locks(&repository).await.unwrap(), 1);
    assert!(matches!(lock.verify().await, Err(Error::LockLost { .. })));
    assert!(lock.lost().is_cancelled());
}

#[tokio::test]
async fn an_old_time_in_a_lock_does_not_make_it_stale_while_the_store_says_it_is_new() {
    let repository = memory_repository().await;
    let identity = &repository.options().identity;
    let old = Timestamp::now() - 2.hours();
    save(&repository, &LockFile::new(LockKind::Exclusive, identity, old)).await;
    let outcome = Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await;
    assert!(matches!(outcome, Err(Error::Locked { .. })));
    let removed = remove_stale_locks(&repository, &[]).await.unwrap();
    assert_eq!(removed.locks, 0);
    let [kept] = removed.kept.as_slice() else { panic!("{removed:?}") };
    assert_eq!((kept.holder.since, kept.holder.exclusive), (old, true));
    assert!(kept.stale_from > Timestamp::now(), "the store has seen it just now: {kept:?}");
}

#[tokio::test]
async fn the_lock_of_an_owner_known_to_be_dead_is_removed_at_once() {
    let repository = memory_repository().await;
    let mut identity = repository.options().identity.clone();
    identity.host = "cluster/pod".to_owned();
    save(&repository, &LockFile::new(LockKind::Exclusive, &identity, Timestamp::now())).await;
    let other = Lock::acquire(&repository, LockKind::Shared, &dead("cluster/other")).await;
    assert!(matches!(other, Err(Error::Locked { .. })));
    let lock = Lock::acquire(&repository, LockKind::Exclusive, &dead("cluster/pod")).await.unwrap();
    lock.release().await;
}

/// As behind a gateway, where a mover removes its own locks only.
#[tokio::test]
async fn the_lock_of_a_dead_owner_counts_for_nothing_also_where_it_may_not_be_removed() {
    let bucket = Arc::new(lifeboat_store::Memory::new());
    let store = Store::new(bucket.clone(), "", Tuning::default()).unwrap();
    let repository = new_repository(store, Version::V2).await;
    let mut identity = repository.options().identity.clone();
    identity.host = "cluster/pod".to_owned();
    let left = save(&repository, &LockFile::new(LockKind::Exclusive, &identity, Timestamp::now())).await;
    let faults = Faults::always(RequestKind::Delete, Fault::Deny);
    let limited = Store::new(Arc::new(Layered::new(faults, bucket)), "", Tuning::default()).unwrap();
    let limited = opened(limited).await.unwrap();
    let other = Lock::acquire(&limited, LockKind::Shared, &dead("cluster/other")).await;
    assert!(matches!(other, Err(Error::Locked { .. })));
    let lock = Lock::acquire(&limited, LockKind::Shared, &dead("cluster/pod")).await.unwrap();
    lock.verify().await.unwrap();
    assert!(locks(&repository).await.contains(&left), "its removal is left to the server");
}

#[tokio::test]
async fn a_lock_from_others_is_read_and_a_small_file_that_would_become_a_large_one_is_not() {
    let repository = memory_repository().await;
    let identity = &repository.options().identity;
    let lock = LockFile::new(LockKind::Exclusive, identity, Timestamp::now());
    let sealed = repository.seal_file(&serde_json::to_vec(&lock).unwrap()).unwrap();
    assert_eq!(LockFile::read(&repository, &sealed).unwrap(), lock);
    let other = memory_repository().await;
    assert!(LockFile::read(&other, &sealed).is_err(), "it is sealed with another key");
    let bomb = repository.seal_file(format!("{{{}}}", " ".repeat(100_000)).as_bytes()).unwrap();
    assert!(bomb.len() < 1000 && LockFile::read(&repository, &bomb).is_err());
}

#[tokio::test]
async fn a_lock_that_cannot_be_read_is_in_the_way_but_an_empty_file_is_not() {
    let repository = memory_repository().await;
    let place = |byte: u8| FileKind::Lock.key(crate::id::Id([byte; 32]));
    repository.store().put(&place(1), bytes::Bytes::new()).await.unwrap();
    Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap().release().await;
    repository.store().put(&place(2), bytes::Bytes::from_static(b"nonsense")).await.unwrap();
    let outcome = Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await;
    let Err(error @ Error::Refused { .. }) = outcome else { panic!("{outcome:?}") };
    assert!(error.hint().unwrap().contains("unlock --remove-all"));
    let removed = remove_stale_locks(&repository, &[]).await.unwrap();
    assert_eq!((removed.locks, removed.unreadable.len()), (0, 1));
    assert_eq!(remove_all_locks(&repository).await.unwrap(), 2);
}

#[tokio::test]
async fn a_damaged_lock_is_in_the_way_until_all_locks_are_removed() {
    let repository = memory_repository().await;
    let held = Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await.unwrap();
    let key = FileKind::Lock.key(held.id().0);
    let whole = repository.store().get(&key).await.unwrap().to_vec();
    let mut flipped = whole.clone();
    flipped[20] ^= 1;
    let config = repository.store().get("config").await.unwrap().to_vec();
    for damaged in [flipped, whole[..whole.len() / 2].to_vec(), config] {
        repository.store().put(&key, damaged).await.unwrap();
        let outcome = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await;
        assert!(matches!(outcome, Err(Error::Refused { .. })));
        let removed = remove_stale_locks(&repository, &[]).await.unwrap();
        assert_eq!((removed.locks, removed.unreadable.len()), (0, 1));
    }
    assert_eq!(remove_all_locks(&repository).await.unwrap(), 1);
    assert!(matches!(held.verify().await, Err(Error::LockLost { .. })));
    Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap().release().await;
}

#[tokio::test]
async fn waiting_ends_when_the_holder_lets_go() {
    let repository = memory_repository().await;
    let first = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap();
    let waiting = LockOptions { wait: Duration::from_mins(1), ..LockOptions::default() };
    let second = tokio::spawn({
        let repository = repository.clone();
        async move { Lock::acquire(&repository, LockKind::Shared, &waiting).await }
    });
    tokio::task::yield_now().await;
    first.release().await;
    second.await.unwrap().unwrap().release().await;
}
