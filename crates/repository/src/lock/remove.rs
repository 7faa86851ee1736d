//! Other people's locks: which are in the way, and which may be removed.

use std::time::Duration;

use jiff::Timestamp;

use super::{LockFile, LockKind, LockOptions, STALE, clock};
use crate::error::{Error, Holder, Result};
use crate::files::FileKind;
use crate::id::{Id, LockId};
use crate::repository::{ListedFile, Repository};

/// Where the store tells no times (restic's REST server), only the clocks of the holder and of this machine are left. They
/// may differ by half an hour and a living lock still does not look stale: its holder gives up after 22 minutes.
const STALE_BY_ITS_OWN_TIME: Duration = Duration::from_hours(1);

/// Fails with `Locked` if a lock other than `own` excludes one of `kind`. Removes what is stale or whose owner is
/// known to be dead. A lock that cannot be read is in the way: it may be anyone's.
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
        // A listing that lacks what was just written may lack the locks of others, too.
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
            tracing::info!(%id, host = %lock.hostname, "removing a lock whose owner is gone");
            repository.remove_file(FileKind::Lock, id.0).await?;
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
            reason: format!("lock {} cannot be read, so it may be anyone's: {detail}", id.short()),
            hint: "when you know that nothing uses the repository, remove it with `unlock --remove-all`",
        },
        other => other,
    }
}

/// Some stores leave an empty file behind when an upload was cut, and so does who dies while he asks for the store's
/// clock. It was never a lock; an old one goes.
async fn sweep_empty(repository: &Repository, file: &ListedFile) {
    if is_older(file.modified, clock::now(), STALE_BY_ITS_OWN_TIME) {
        let _ = repository.remove_file(FileKind::Lock, file.id).await;
    }
}

/// Whether nobody renewed it for too long: by its holder's clock and by the store's, so that a clock that is wrong
/// does not make a living lock stale.
async fn is_stale(repository: &Repository, file: &ListedFile, lock: &LockFile) -> Result<bool> {
    let now = clock::now();
    if !is_older(lock.time(), now, STALE) {
        return Ok(false);
    }
    let key = FileKind::Lock.key(file.id);
    match repository.store().head(&key).await {
        Ok(info) if !info.is_dated => Ok(is_older(lock.time(), now, STALE_BY_ITS_OWN_TIME)),
        // Our own clock first: mostly it says no, and the store need not be asked for its clock.
        Ok(info) if !is_older(info.modified, now, STALE) => Ok(false),
        Ok(info) => Ok(is_older(info.modified, store_clock(repository).await?, STALE)),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(Error::store("look at a lock")(error)),
    }
}

fn is_older(time: Timestamp, now: Timestamp, limit: Duration) -> bool {
    let age = now.duration_since(time);
    !age.is_negative() && age.unsigned_abs() > limit
}

/// What time the store thinks it is: that of an object which is written for the question. Not for stores that tell no
/// times.
pub(crate) async fn store_clock(repository: &Repository) -> Result<Timestamp> {
    // A lock file is the one thing that every writer may write and remove; this one is empty, which no one counts, as
    // restic does not. Each question has its own: of two at once none removes the other's.
    let probe = FileKind::Lock.key(Id(rand::random()));
    let store = repository.store();
    store.put(&probe, bytes::Bytes::new()).await.map_err(Error::store("ask the store for its clock"))?;
    let info = store.head(&probe).await;
    store.delete(&probe).await.map_err(Error::store("remove an empty lock"))?;
    Ok(info.map_err(Error::store("ask the store for its clock"))?.modified)
}

/// A lock that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub holder: Holder,
    /// From when on it counts for nothing, unless it is renewed.
    pub stale_from: Timestamp,
}

/// What `remove_stale_locks` did.
#[derive(Debug, Default)]
pub struct Removed {
    pub locks: usize,
    /// Those of holders that may be alive.
    pub kept: Vec<Kept>,
    /// They stay, and are in everyone's way: who holds them cannot be read.
    pub unreadable: Vec<(LockId, Error)>,
}

/// Removes locks that nobody renewed for too long, and those of owners known to be dead.
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

/// Removes every lock: for people who know that nothing uses the repository.
pub async fn remove_all_locks(repository: &Repository) -> Result<usize> {
    let files = repository.list(FileKind::Lock).await?;
    for file in &files {
        repository.remove_file(FileKind::Lock, file.id).await?;
    }
    Ok(files.len())
}
