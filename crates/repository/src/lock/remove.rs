//! Locks of other holders: which of them conflict, and which may be removed.

use std::time::Duration;

use jiff::Timestamp;

use super::{LockFile, LockKind, LockOptions, STALE, clock};
use crate::error::{Error, Holder, Result};
use crate::files::FileKind;
use crate::id::{Id, LockId};
use crate::repository::{ListedFile, Repository};

/// If the store reports no times (restic's REST server), there are only the clocks of the holder and of this machine.
/// They may differ by half an hour without an active lock looking stale: its holder gives up after 22 minutes.
const STALE_BY_ITS_OWN_TIME: Duration = Duration::from_hours(1);

/// Fails with `Locked` if a lock other than `own` conflicts with one of `kind`. Removes locks that are stale or whose
/// owner is known to be dead. A lock that cannot be read conflicts: any process may hold it.
pub(super) async fn conflict(
    repository: &Repository,
    kind: LockKind,
    own: Option<LockId>,
    options: &LockOptions,
) -> Result<()> {
    let listed = repository.list(FileKind::Lock).await?;
    if let Some(own) = own
        && !listed.iter().any(|file| file.id == own.0)
    {
        // A listing that lacks a file that was just written may lack the locks of others, too.
        return Err(Error::LockLost { detail: format!("the store does not list our lock {}", own.short()) });
    }
    for file in listed.iter().filter(|file| Some(LockId(file.id)) != own) {
        if file.size == 0 {
            sweep_empty(repository, file).await;
            continue;
        }
        let id = LockId(file.id);
        let loaded = LockFile::load(repository, id).await;
        let Some(lock) = loaded.map_err(|error| unreadable(id, error))? else { continue };
        if options.dead_owners.contains(&lock.hostname) || is_stale(repository, file, &lock).await? {
            tracing::info!(%id, host = %lock.hostname, "removing a lock whose owner is dead");
            match repository.remove_file(FileKind::Lock, id.0).await {
                // A gateway lets a mover remove its own locks only. This one counts for nothing nevertheless: its holder
                // is dead, or gave it up long ago.
                Err(Error::Store { source: lifeboat_store::Error::Denied { .. }, .. }) => {}
                other => other?,
            }
            continue;
        }
        if kind == LockKind::Exclusive || lock.exclusive {
            return Err(Error::Locked { holder: Box::new(lock.holder(id)) });
        }
    }
    Ok(())
}

fn unreadable(id: LockId, error: Error) -> Error {
    match error {
        Error::Damaged { detail, .. } => Error::Refused {
            reason: format!("lock {} cannot be read, so any process may hold it: {detail}", id.short()),
            hint: "when you know that nothing uses the repository, remove it with `unlock --remove-all`",
        },
        other => other,
    }
}

/// Some stores leave an empty file when an upload is interrupted, and so does a process that crashes while it
/// determines the store's clock. It was never a lock; an old one is removed.
async fn sweep_empty(repository: &Repository, file: &ListedFile) {
    if is_older(file.modified, clock::now(), STALE_BY_ITS_OWN_TIME) {
        let _ = repository.remove_file(FileKind::Lock, file.id).await;
    }
}

/// Whether the lock was not renewed for too long: by its holder's clock and by the store's, so that one wrong clock
/// does not make an active lock stale.
async fn is_stale(repository: &Repository, file: &ListedFile, lock: &LockFile) -> Result<bool> {
    let now = clock::now();
    if !is_older(lock.time(), now, STALE) {
        return Ok(false);
    }
    let key = FileKind::Lock.key(file.id);
    match repository.store().head(&key).await {
        Ok(info) if !info.is_dated => Ok(is_older(lock.time(), now, STALE_BY_ITS_OWN_TIME)),
        // Our own clock first: usually the lock is not stale by it, and the store's clock is not needed.
        Ok(info) if !is_older(info.modified, now, STALE) => Ok(false),
        Ok(info) => Ok(is_older(info.modified, store_clock(repository).await?, STALE)),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(Error::store("look up a lock")(error)),
    }
}

fn is_older(time: Timestamp, now: Timestamp, limit: Duration) -> bool {
    let age = now.duration_since(time);
    !age.is_negative() && age.unsigned_abs() > limit
}

/// The store's current time: the modification time of an object that is written for this purpose. Not for stores that
/// report no times.
pub(crate) async fn store_clock(repository: &Repository) -> Result<Timestamp> {
    // A lock file is the only object that every writer may write and remove; this one is empty, which neither restic
    // nor Lifeboat counts as a lock. Each call uses its own file, so that concurrent calls do not remove each
    // other's.
    let probe = FileKind::Lock.key(Id(rand::random()));
    let store = repository.store();
    store.put(&probe, bytes::Bytes::new()).await.map_err(Error::store("read the store's clock"))?;
    let info = store.head(&probe).await;
    store.delete(&probe).await.map_err(Error::store("remove an empty lock"))?;
    Ok(info.map_err(Error::store("read the store's clock"))?.modified)
}

/// A lock that was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub holder: Holder,
    /// When it expires, unless it is renewed.
    pub stale_from: Timestamp,
}

/// The result of `remove_stale_locks`.
#[derive(Debug, Default)]
pub struct Removed {
    pub locks: usize,
    /// Locks whose holders may be alive.
    pub kept: Vec<Kept>,
    /// Locks that cannot be read: they remain, and conflict with every other lock.
    pub unreadable: Vec<(LockId, Error)>,
}

/// Removes locks that were not renewed for too long, and those of owners known to be dead.
pub async fn remove_stale_locks(repository: &Repository, dead_owners: &[String]) -> Result<Removed> {
    let mut removed = Removed::default();
    for file in repository.list(FileKind::Lock).await? {
        if file.size == 0 {
            sweep_empty(repository, &file).await;
            continue;
        }
        let id = LockId(file.id);
        let lock = match LockFile::load(repository, id).await {
            Ok(Some(lock)) => lock,
            Ok(None) => continue,
            Err(error @ Error::Damaged { .. }) => {
                removed.unreadable.push((id, error));
                continue;
            }
            Err(error) => return Err(error),
        };
        if dead_owners.contains(&lock.hostname) || is_stale(repository, &file, &lock).await? {
            repository.remove_file(FileKind::Lock, file.id).await?;
            removed.locks += 1;
        } else {
            removed.kept.push(kept(repository, &file, &lock).await);
        }
    }
    Ok(removed)
}

async fn kept(repository: &Repository, file: &ListedFile, lock: &LockFile) -> Kept {
    let info = repository.store().head(&FileKind::Lock.key(file.id)).await;
    let (last, limit) = match info {
        Ok(info) if !info.is_dated => (lock.time(), STALE_BY_ITS_OWN_TIME),
        Ok(info) => (lock.time().max(info.modified), STALE),
        Err(_) => (lock.time(), STALE),
    };
    let stale_from = last.saturating_add(limit).unwrap_or(last);
    Kept { holder: lock.holder(LockId(file.id)), stale_from }
}

/// Removes every lock: for users who know that no process uses the repository.
pub async fn remove_all_locks(repository: &Repository) -> Result<usize> {
    let files = repository.list(FileKind::Lock).await?;
    for file in &files {
        repository.remove_file(FileKind::Lock, file.id).await?;
    }
    Ok(files.len())
}
