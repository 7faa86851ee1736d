//! The task that renews a lock: a new file every five minutes, then the old one goes.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::{REFRESH, State};
use crate::error::Result;
use crate::files::FileKind;
use crate::repository::Repository;

/// How often the clock is looked at: a machine that slept must notice soon.
const TICK: Duration = Duration::from_secs(5);

pub(super) async fn keep(repository: Repository, state: Arc<State>) {
    let mut next = Timestamp::now() + REFRESH;
    loop {
        tokio::select! {
            () = state.stop.cancelled() => return,
            () = tokio::time::sleep(TICK) => {}
        }
        if state.is_overdue() {
            if revive(&repository, &state).await {
                continue;
            }
            tracing::error!("the lock on the repository was lost: it could not be renewed in time");
            state.lost.cancel();
            return;
        }
        if Timestamp::now() < next {
            continue;
        }
        match renew(&repository, &state).await {
            Ok(()) => next = Timestamp::now() + REFRESH,
            // The next tick tries again, until it is too late.
            Err(error) => tracing::warn!(%error, "could not renew the lock on the repository"),
        }
    }
}

async fn renew(repository: &Repository, state: &State) -> Result<()> {
    let _quiet = state.renewing.lock().await;
    let now = Timestamp::now();
    let file = state.file.lock().unwrap_or_else(PoisonError::into_inner).renewed(now);
    let id = file.save(repository).await?;
    let old = std::mem::replace(&mut *state.id(), id);
    *state.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    *state.renewed.lock().unwrap_or_else(PoisonError::into_inner) = now;
    repository.remove_file(FileKind::Lock, old.0).await
}

/// After a sleep: the lock may go on only if nobody removed it meanwhile, before and after we wrote a new one.
async fn revive(repository: &Repository, state: &State) -> bool {
    let old = *state.id();
    let exists = || async {
        repository.list(FileKind::Lock).await.is_ok_and(|locks| locks.iter().any(|file| file.id == old.0))
    };
    if !exists().await {
        return false;
    }
    let now = Timestamp::now();
    let file = state.file.lock().unwrap_or_else(PoisonError::into_inner).renewed(now);
    let Ok(id) = file.save(repository).await else { return false };
    tokio::time::sleep(super::SETTLE).await;
    if !exists().await {
        let _ = repository.remove_file(FileKind::Lock, id.0).await;
        return false;
    }
    *state.id() = id;
    *state.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    *state.renewed.lock().unwrap_or_else(PoisonError::into_inner) = now;
    let _ = repository.remove_file(FileKind::Lock, old.0).await;
    true
}
