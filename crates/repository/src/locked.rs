//! Work under a lock, or without one when the caller said `--no-lock`.

use std::sync::Arc;

use crate::error::Result;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::repository::Repository;

/// Does `work` under a lock of `kind`; without options it goes without.
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
