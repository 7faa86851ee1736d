//! Taking a lock, and cancelling while it is taken.

use super::*;
use crate::config::Version;
use crate::testing::new_repository;
use crate::testing::switchable::SwitchableBackend;

#[tokio::test(start_paused = true)]
async fn who_gives_up_while_he_waits_leaves_nothing() {
    let repository = memory_repository().await;
    let other = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap();
    let options = LockOptions { wait: Duration::from_hours(1), ..LockOptions::default() };
    let giving_up = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        options.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(Lock::acquire(&repository, LockKind::Shared, &options), giving_up);
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    assert_eq!(locks(&repository).await, [other.id()]);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_after_his_lock_was_written_has_removed_it_when_the_call_returns() {
    let repository = memory_repository().await;
    let options = LockOptions::default();
    let giving_up = async {
        while locks(&repository).await.is_empty() {
            tokio::task::yield_now().await;
        }
        options.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(Lock::acquire(&repository, LockKind::Exclusive, &options), giving_up);
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    assert_eq!(locks(&repository).await, []);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_while_the_store_does_not_answer_removes_what_may_have_been_written() {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    backend.faults().puts_hang = true;
    let options = LockOptions::default();
    let giving_up = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        options.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(Lock::acquire(&repository, LockKind::Shared, &options), giving_up);
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    assert_eq!(locks(&repository).await, []);
}
