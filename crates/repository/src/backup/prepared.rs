//! Prepared snapshots: everything is stored and indexed, and the finished snapshot is in the caller's hands. For
//! whoever runs the right side of a pipe and learns only later whether the left side failed: `commit` makes it a
//! snapshot, `discard` (or nothing at all) leaves blobs that a later prune takes away. Whoever asked holds a lock
//! from before the start until then, because what no snapshot names is what a prune removes.

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
    /// The repository it was made for.
    pub repository: String,
    /// Who holds the lock.
    pub owner: LockOwner,
    pub snapshot: Snapshot,
}

/// Names the holder of a lock; the lock's file has another name after every renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    pub host: String,
    pub process: i64,
}

impl LockOwner {
    /// The lock that this owner holds now.
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
        // A lock that is renewed at this moment may have neither its old file any more nor its new one yet in a
        // listing, so one that is not found is looked for again.
        for _ in 0..2 {
            if let Some(lock) = self.lock(repository).await? {
                return Ok(lock);
            }
        }
        let detail = format!("process {} on '{}' holds none", self.process, self.host);
        Err(Error::LockLost { detail })
    }

    /// The backup takes a lock beside the owner's, which an exclusive one does not allow.
    async fn require_shared(&self, repository: &Repository) -> Result<()> {
        if !self.require(repository).await?.exclusive {
            return Ok(());
        }
        let reason = format!(
            "process {} on '{}' holds an exclusive lock, beside which no backup runs",
            self.process, self.host
        );
        Err(Error::Refused { reason, hint: "run backup and commit under `lock` without `--exclusive`" })
    }
}

/// Stores everything, and gives the snapshot instead of writing it. `owner` must hold a lock already.
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

/// Makes a prepared snapshot a real one. Refuses unless the lock of its owner is still held and every blob that
/// it needs is still in the index.
pub async fn commit(
    repository: &Repository,
    prepared: &Prepared,
    cancel: &CancellationToken,
) -> Result<SnapshotId> {
    require_same(repository, prepared)?;
    prepared.owner.require(repository).await?;
    let index = Arc::new(repository.load_index().await?);
    let reader = BlobReader::new(repository, index);
    // Fails with the first blob that no index has.
    used_blobs(&reader, [prepared.snapshot.tree], &Progress::default(), cancel).await?;
    prepared.owner.require(repository).await?;
    repository.save_snapshot(&prepared.snapshot).await
}

/// Gives a prepared snapshot up. What was stored for it stays until a prune.
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
