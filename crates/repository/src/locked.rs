//! Runs work under a lock, or without one if the caller set `--no-lock`.

use std::sync::Arc;

use crate::error::Result;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::repository::Repository;

/// Runs `work` under a lock of `kind`; without options, no lock is taken.
pub(crate) async fn locked<T, F>(
    repository: &Repository,
    kind: LockKind,
    options: Option<&LockOptions>,
    work: impl FnOnce(Option<Arc<Lock>>) -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    match options {
        Some(options) => Lock::hold(repository, kind, options, |lock| work(Some(lock))).await,
        None => work(None).await,
    }
}
