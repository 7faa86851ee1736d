//! Removes snapshots under a shared lock, for a server that cannot open the repository itself.

use lifeboat_repository::files::FileKind;
use lifeboat_repository::forget::forget_named;
use lifeboat_repository::id::SnapshotId;

use super::failure::{self, Failed};
use super::open::Opened;
use crate::report::{Cause, Failure, Forgotten};
use crate::task::ForgetWork;

pub(super) async fn carry_out(work: &ForgetWork, opened: &Opened) -> Result<Forgotten, Failed> {
    let ids = work.snapshots.iter().map(|id| parsed(id)).collect::<Result<Vec<_>, _>>()?;
    let (repository, engine) = (&opened.repository, failure::of(Cause::Other));
    // Waiting for the lock ends when the work is cancelled; a removal that has begun ends by itself, with its lock.
    let removed = forget_named(repository, &ids, &opened.lock).await.map_err(&engine)?;
    let left = repository.list(FileKind::Snapshot).await.map_err(&engine)?;
    Ok(Forgotten { removed: removed.len() as u64, emptied: !removed.is_empty() && left.is_empty() })
}

/// Only full IDs: a prefix may become that of another snapshot.
fn parsed(id: &str) -> Result<SnapshotId, Failure> {
    id.parse().map_err(|_| Failure {
        cause: Cause::Task,
        message: format!("snapshots: '{id}' is not the full ID of a snapshot"),
    })
}
