//! Prepared snapshots: all data is stored and indexed, and the finished snapshot is returned to the caller. For a
//! caller that runs the right side of a pipe and only learns later whether the left side failed: `commit` writes the
//! snapshot, `discard` (or doing nothing) leaves blobs that a later prune removes. The caller holds a lock from
//! before the start until then, because a prune removes data that no snapshot names.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{BackupOptions, BackupOutcome, run};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{LockId, SnapshotId};
use crate::lock::{Lock, LockFile, LockKind, LockOptions};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::used::used_blobs;

/// A finished snapshot that is not in the repository yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// The ID of the repository that it was made for.
    pub repository: String,
    /// The holder of the lock.
    pub owner: LockOwner,
    pub snapshot: Snapshot,
}

/// Identifies the holder of a lock; the lock's file gets another ID at every renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    pub host: String,
    pub process: i64,
}

impl LockOwner {
    /// The lock that this owner currently holds.
    async fn lock(&self, repository: &Repository) -> Result<Option<LockFile>> {
        for file in repository.list(FileKind::Lock).await?.iter().filter(|file| file.size > 0) {
            let id = LockId(file.id);
            let Some(lock) = LockFile::load(repository, id).await? else { continue };
            let age = jiff::Timestamp::now().duration_since(lock.time());
            if lock.hostname == self.host
                && lock.pid == self.process
                && age.unsigned_abs() < crate::lock::STALE
            {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    async fn require(&self, repository: &Repository) -> Result<LockFile> {
        // While a lock is being renewed, a listing may show neither its old nor its new file, so the search is
        // repeated once.
        for _ in 0..2 {
            if let Some(lock) = self.lock(repository).await? {
                return Ok(lock);
            }
        }
        let detail = format!("process {} on '{}' holds no lock", self.process, self.host);
        Err(Error::LockLost { detail })
    }

    /// The backup takes a lock in addition to the owner's, which is impossible if that is exclusive.
    async fn require_shared(&self, repository: &Repository) -> Result<()> {
        if !self.require(repository).await?.exclusive {
            return Ok(());
        }
        let reason = format!(
            "process {} on '{}' holds an exclusive lock, which prevents a backup",
            self.process, self.host
        );
        Err(Error::Refused { reason, hint: "run backup and commit under `lock` without `--exclusive`" })
    }
}

/// Stores all data, and returns the snapshot instead of writing it. `owner` must already hold a lock.
pub async fn prepare(
    repository: &Repository,
    options: BackupOptions,
    owner: LockOwner,
    lock: &LockOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<(Prepared, BackupOutcome)> {
    owner.require_shared(repository).await?;
    Lock::hold(repository, LockKind::Shared, lock, |lock| async move {
        let outcome = run::run(repository, options, Some(lock), progress, cancel).await?;
        owner.require(repository).await?;
        let repository = repository.config().id.clone();
        Ok((Prepared { repository, owner, snapshot: outcome.snapshot.clone() }, outcome))
    })
    .await
}

/// Writes a prepared snapshot to the repository. Refuses unless its owner still holds the lock and every blob that it
/// needs is still in the index.
pub async fn commit(
    repository: &Repository,
    prepared: &Prepared,
    cancel: &CancellationToken,
) -> Result<SnapshotId> {
    require_same(repository, prepared)?;
    prepared.owner.require(repository).await?;
    let index = Arc::new(repository.load_index().await?);
    let reader = BlobReader::new(repository, index);
    // Fails with the first blob that is in no index.
    used_blobs(&reader, [prepared.snapshot.tree], &Progress::default(), cancel).await?;
    prepared.owner.require(repository).await?;
    repository.save_snapshot(&prepared.snapshot).await
}

/// Discards a prepared snapshot. Its data remains until a prune.
pub fn discard(repository: &Repository, prepared: &Prepared) -> Result<()> {
    require_same(repository, prepared)
}

fn require_same(repository: &Repository, prepared: &Prepared) -> Result<()> {
    if prepared.repository == repository.config().id {
        return Ok(());
    }
    let problem =
        format!("it was made for repository {}, this is {}", prepared.repository, repository.config().id);
    Err(Error::invalid("prepared snapshot", problem))
}

#[cfg(test)]
mod tests;
