//! Other people's locks: which are in the way, and which may be removed.

use jiff::Timestamp;

use super::{LockFile, LockKind, LockOptions, STALE};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::LockId;
use crate::repository::{ListedFile, Repository};

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
        // Some stores leave an empty file behind when an upload was cut; it was never a lock.
        if file.size == 0 {
            continue;
        }
        let id = LockId(file.id);
        let Some(lock) = LockFile::load(repository, id).await? else { continue };
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

/// Whether nobody renewed it for too long: by its holder's clock and by the store's, so that a clock that is wrong
/// does not make a living lock stale.
async fn is_stale(repository: &Repository, file: &ListedFile, lock: &LockFile) -> Result<bool> {
    if !is_older(lock.time(), Timestamp::now()) {
        return Ok(false);
    }
    let key = FileKind::Lock.key(file.id);
    match repository.store().head(&key).await {
        // Our own clock first: a store that tells no times (a REST server says "now") is not asked for its clock.
        Ok(info) if !is_older(info.modified, Timestamp::now()) => Ok(false),
        Ok(info) => Ok(is_older(info.modified, store_clock(repository).await?)),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(Error::store("look at a lock")(error)),
    }
}

fn is_older(time: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(time);
    !age.is_negative() && age.unsigned_abs() > STALE
}

/// What time the store thinks it is: that of an object which is written for the question.
pub(crate) async fn store_clock(repository: &Repository) -> Result<Timestamp> {
    // A lock file is the one thing that every writer may write and remove; this one is empty, which no one counts.
    // Its name is the hash of nothing, because restic's REST server takes no other, and takes it only once.
    let probe = FileKind::Lock.key(crate::id::Id::of(&[]));
    let store = repository.store();
    store.delete(&probe).await.map_err(Error::store("remove an empty lock"))?;
    store.put(&probe, bytes::Bytes::new()).await.map_err(Error::store("ask the store for its clock"))?;
    let info = store.head(&probe).await;
    store.delete(&probe).await.map_err(Error::store("remove an empty lock"))?;
    Ok(info.map_err(Error::store("ask the store for its clock"))?.modified)
}

/// Removes locks that nobody renewed for thirty minutes, and those of owners known to be dead. Gives their number.
pub async fn remove_stale_locks(repository: &Repository, dead_owners: &[String]) -> Result<usize> {
    let mut removed = 0;
    for file in repository.list(FileKind::Lock).await? {
        let Ok(Some(lock)) = LockFile::load(repository, LockId(file.id)).await else { continue };
        if dead_owners.contains(&lock.hostname) || is_stale(repository, &file, &lock).await? {
            repository.remove_file(FileKind::Lock, file.id).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes every lock: for people who know that nothing uses the repository.
pub async fn remove_all_locks(repository: &Repository) -> Result<usize> {
    let files = repository.list(FileKind::Lock).await?;
    for file in &files {
        repository.remove_file(FileKind::Lock, file.id).await?;
    }
    Ok(files.len())
}
