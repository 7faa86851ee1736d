//! The task that renews a lock: it writes a new file every five minutes and then removes the old one. It gives up the
//! lock when another process removed it, and when it could not be renewed in time, even while a request to the store
//! is pending.

use std::sync::Arc;
use std::time::Duration;

use super::{Held, REFRESH, STORE_TIMEOUT, State, clock};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::LockId;
use crate::repository::Repository;

/// How often the clock is checked: a machine that was suspended must notice soon.
const TICK: Duration = Duration::from_secs(5);

pub(super) async fn keep(repository: Repository, state: Arc<State>) {
    let mut next = clock::now() + REFRESH;
    loop {
        tokio::select! {
            () = state.stop.cancelled() => return,
            () = tokio::time::sleep(TICK) => {}
        }
        let late = state.is_overdue();
        if !late && clock::now() < next {
            continue;
        }
        match renewal(&repository, &state, late).await {
            Renewal::Done => {}
            // The next tick tries again, until it is too late.
            Renewal::NotYet if !late => continue,
            Renewal::NotYet => {
                tracing::error!("the lock on the repository was lost: it could not be renewed in time");
                state.lost.cancel();
                return;
            }
            Renewal::Removed => {
                tracing::error!("the lock on the repository was lost: another process removed it");
                state.lost.cancel();
                return;
            }
        }
        next = clock::now() + REFRESH;
        // A file that cannot be removed now is tried again next time; the lock is renewed nevertheless.
        let _ = tokio::time::timeout(STORE_TIMEOUT, tidy(&repository, &state)).await;
    }
}

/// The result of an attempt to renew the lock.
enum Renewal {
    Done,
    NotYet,
    Removed,
}

/// `late`: the lock is already overdue (the machine was suspended), and this is the last attempt.
async fn renewal(repository: &Repository, state: &State, late: bool) -> Renewal {
    let renewed = tokio::select! {
        outcome = tokio::time::timeout(STORE_TIMEOUT, renew(repository, state)) => outcome,
        () = overdue(state), if !late => return Renewal::NotYet,
    };
    match renewed {
        Ok(Ok(true)) => return Renewal::Done,
        Ok(Ok(false)) => return Renewal::Removed,
        Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lock on the repository"),
        Err(_) => tracing::warn!("cannot renew the lock on the repository: the store does not respond"),
    }
    Renewal::NotYet
}

/// Completes when the lock was not renewed for too long.
async fn overdue(state: &State) {
    while !state.is_overdue() {
        tokio::time::sleep(TICK).await;
    }
}

/// Writes a new file, unless the old one was removed before or meanwhile: the process that removed it may have taken
/// the repository since, and a new file would hide that from every later check.
async fn renew(repository: &Repository, state: &State) -> Result<bool> {
    let _quiet = state.renewing.lock().await;
    let old = state.held().id;
    if !is_there(repository, old).await? {
        return Ok(false);
    }
    let new = write_new(repository, state).await?;
    tokio::time::sleep(super::SETTLE).await;
    if !is_there(repository, old).await? {
        tidy(repository, state).await;
        return Ok(false);
    }
    replace(state, new);
    Ok(true)
}

async fn is_there(repository: &Repository, id: LockId) -> Result<bool> {
    let looked = repository.store().exists(&FileKind::Lock.key(id.0)).await;
    looked.map_err(Error::store("look for the lock"))
}

/// Writes the lock's new file; until it becomes the current one, it is in the list of files to remove, because an
/// interrupted request may have taken effect.
async fn write_new(repository: &Repository, state: &State) -> Result<Held> {
    let now = clock::now();
    let file = state.held().file.renewed(now);
    let sealed = file.seal(repository)?;
    let id = sealed.id;
    state.leftover().push(id);
    sealed.write(repository).await?;
    Ok(Held { file, id, renewed: now })
}

fn replace(state: &State, new: Held) {
    let id = new.id;
    let old = std::mem::replace(&mut *state.held(), new).id;
    let mut leftover = state.leftover();
    leftover.retain(|left| *left != id);
    leftover.push(old);
}

/// Removes the files that are not current. Those that cannot be removed are remembered.
pub(super) async fn tidy(repository: &Repository, state: &State) {
    let leftover = state.leftover().clone();
    for id in leftover {
        match repository.remove_file(FileKind::Lock, id.0).await {
            Ok(()) => state.leftover().retain(|left| *left != id),
            Err(error) => {
                tracing::warn!(%id, %error, "cannot remove a lock of this process; it expires on its own");
            }
        }
    }
}
