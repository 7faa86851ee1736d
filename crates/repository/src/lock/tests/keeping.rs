//! A lock while it is held. Time is tokio's, which is paused until a test advances it.

use super::*;
use crate::config::Version;
use crate::testing::new_repository;
use crate::testing::switchable::SwitchableBackend;

async fn held(kind: LockKind) -> (Arc<SwitchableBackend>, Repository, Lock) {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    let lock = Lock::acquire(&repository, kind, &LockOptions::default()).await.unwrap();
    (backend, repository, lock)
}

async fn minutes(count: u64) {
    // In steps, as on a machine that is awake.
    for _ in 0..count * 12 {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

/// A suspended machine: its clock jumps.
async fn jump(minutes: u64) {
    tokio::time::advance(Duration::from_mins(minutes)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_written_anew_every_five_minutes_and_the_old_file_goes() {
    let (_, repository, lock) = held(LockKind::Exclusive).await;
    let first = lock.id();
    minutes(4).await;
    assert_eq!((lock.id(), locks(&repository).await), (first, vec![first]));
    minutes(2).await;
    let second = lock.id();
    assert_ne!(first, second);
    assert_eq!(locks(&repository).await, [second]);
    assert!(LockFile::load(&repository, second).await.unwrap().unwrap().exclusive);
    minutes(60).await;
    lock.verify().await.unwrap();
    lock.release().await;
    assert_eq!(locks(&repository).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_renewed_in_time_is_lost_before_others_may_remove_it() {
    let (backend, repository, lock) = held(LockKind::Shared).await;
    backend.faults().puts_fail = true;
    minutes(22).await;
    assert!(!lock.lost().is_cancelled());
    lock.verify().await.unwrap();
    minutes(2).await;
    assert!(lock.lost().is_cancelled());
    assert!(matches!(lock.verify().await, Err(Error::LockLost { .. })));
    assert_eq!(remove_stale_locks(&repository, &[]).await.unwrap().locks, 0, "it is not stale yet");
    lock.release().await;
    assert_eq!(locks(&repository).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_does_not_keep_a_lock_from_being_lost() {
    let (backend, repository, lock) = held(LockKind::Shared).await;
    backend.faults().puts_hang = true;
    minutes(25).await;
    assert!(lock.lost().is_cancelled());
    assert!(locks(&repository).await.len() > 1, "a write without a response may have taken effect");
    backend.faults().puts_hang = false;
    lock.release().await;
    assert_eq!(locks(&repository).await, [], "and is removed at the end");
}

#[tokio::test(start_paused = true)]
async fn looking_after_a_lock_ends_although_its_renewal_hangs() {
    let (_, _, lock) = held(LockKind::Shared).await;
    let _renewing = lock.state.renewing.lock().await;
    assert!(matches!(lock.verify().await, Err(Error::LockLost { .. })));
    assert!(lock.lost().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn looking_after_a_lock_waits_ten_minutes_for_a_store_that_does_not_respond() {
    let (_, repository, lock) = held(LockKind::Shared).await;
    let renewing = lock.state.renewing.lock().await;
    let respond = async {
        minutes(10).await;
        drop(renewing);
    };
    let (verified, ()) = tokio::join!(lock.verify(), respond);
    verified.unwrap();
    lock.release().await;
    assert_eq!(locks(&repository).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_removed_is_no_reason_to_write_more_and_goes_later() {
    let (backend, repository, lock) = held(LockKind::Shared).await;
    backend.faults().deletes_fail = true;
    minutes(12).await;
    assert_eq!(locks(&repository).await.len(), 3, "one for each five minutes");
    lock.verify().await.unwrap();
    backend.faults().deletes_fail = false;
    minutes(5).await;
    assert_eq!(locks(&repository).await, [lock.id()]);
    backend.faults().deletes_fail = true;
    minutes(6).await;
    backend.faults().deletes_fail = false;
    lock.release().await;
    assert_eq!(locks(&repository).await, []);
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_a_lock_that_still_exists_is_renewed() {
    let (_, repository, lock) = held(LockKind::Exclusive).await;
    let before = lock.id();
    jump(120).await;
    assert!(!lock.lost().is_cancelled());
    assert_ne!(lock.id(), before);
    assert_eq!(locks(&repository).await, [lock.id()]);
    lock.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_a_lock_that_was_removed_is_lost() {
    let (_, repository, lock) = held(LockKind::Exclusive).await;
    remove_all_locks(&repository).await.unwrap();
    jump(120).await;
    assert!(lock.lost().is_cancelled());
    assert_eq!(locks(&repository).await, []);
}

#[rstest]
#[case(LockKind::Shared)]
#[case(LockKind::Exclusive)]
#[tokio::test(start_paused = true)]
async fn a_lock_that_someone_removed_does_not_come_back_with_its_renewal(#[case] kind: LockKind) {
    let (_, repository, lock) = held(kind).await;
    remove_all_locks(&repository).await.unwrap();
    tokio::time::sleep(REFRESH + Duration::from_mins(1)).await;
    assert!(lock.lost().is_cancelled());
    assert!(lock.verify().await.is_err());
    assert_eq!(locks(&repository).await, []);
}

#[tokio::test(start_paused = true)]
async fn work_whose_lock_is_lost_is_dropped() {
    let (backend, repository, lock) = held(LockKind::Shared).await;
    lock.release().await;
    let options = LockOptions::default();
    let outcome: Result<()> = Lock::hold(&repository, LockKind::Shared, &options, async |_| {
        backend.faults().puts_fail = true;
        std::future::pending().await
    })
    .await;
    assert!(matches!(outcome, Err(Error::LockLost { .. })));
    assert_eq!(locks(&repository).await, []);
}

#[rstest]
#[case::shown_by_the_store(false, 29, false)]
#[case::shown_by_the_store(false, 31, true)]
#[case::by_its_own_time(true, 31, false)]
#[case::by_its_own_time(true, 59, false)]
#[case::by_its_own_time(true, 61, true)]
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_renewed_becomes_stale(#[case] rest: bool, #[case] age: u64, #[case] stale: bool) {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    backend.faults().is_rest = rest;
    let file = LockFile::new(LockKind::Exclusive, &repository.options().identity, clock::now());
    save(&repository, &file).await;
    minutes(age).await;
    let taken = Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await;
    assert_eq!(taken.is_ok(), stale, "{taken:?}");
    if let Ok(lock) = taken {
        lock.release().await;
    }
    assert_eq!(locks(&repository).await.is_empty(), stale);
    let removed = remove_stale_locks(&repository, &[]).await.unwrap();
    assert_eq!((removed.locks, removed.unreadable.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn two_that_ask_for_the_clock_at_once_do_not_disturb_each_other_and_leave_nothing() {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    let asking = (0..20).map(|_| store_clock(&repository));
    for answer in futures::future::join_all(asking).await {
        answer.unwrap();
    }
    assert_eq!(locks(&repository).await, []);
}

#[tokio::test(start_paused = true)]
async fn an_old_empty_file_is_swept_away() {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    let empty = FileKind::Lock.key(crate::id::Id([1; 32]));
    repository.store().put(&empty, bytes::Bytes::new()).await.unwrap();
    for (age, left) in [(30, 1), (31, 0)] {
        minutes(age).await;
        Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await.unwrap().release().await;
        assert_eq!(locks(&repository).await.len(), left);
    }
}
