//! Forgets snapshots: loads all of them, selects by policy or takes those that were named, and deletes them. Takes a
//! repository, options and a lock; returns which snapshots are kept and why, and which were removed. The data remains
//! until a prune.
//!
//! Nothing is deleted unless all snapshots could be read, two listings were equal, the lock is still held, and every
//! group keeps a snapshot (unless the policy is empty and the user asked for that). A damaged snapshot is kept,
//! whatever the policy says, and is only removed by its ID.

pub mod policy;
mod report;

pub use report::{ForgetGroup, JsonSnapshot, KeepReason};

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::SnapshotId;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::repository::Repository;
use crate::snapshots::{self, Filter, FoundSnapshot, GroupBy, Loaded, Selector};
use policy::Policy;

/// The number of snapshots that are deleted concurrently.
const CONCURRENT: usize = 8;

/// What to forget.
#[derive(Debug, Clone, Default)]
pub struct ForgetOptions {
    /// Forget these snapshots, whatever the policy says.
    pub selectors: Vec<Selector>,
    /// The policy, and `latest` of the selectors, only apply to the snapshots that match.
    pub filter: Filter,
    pub group_by: GroupBy,
    pub policy: Policy,
    /// With an empty policy and a filter: forget all snapshots that match the filter. Like restic's
    /// `--unsafe-allow-remove-all`; it never makes a policy acceptable that keeps nothing.
    pub allow_remove_all: bool,
    /// Only decide.
    pub dry_run: bool,
}

/// The decision and the result.
#[derive(Debug, Default)]
pub struct Forgotten {
    /// By policy: each group with the snapshots that are kept and removed. Empty if snapshots were named.
    pub groups: Vec<ForgetGroup>,
    /// The snapshots to remove (which are removed, unless this is a dry run or it failed), newest first.
    pub remove: Vec<SnapshotId>,
    /// The snapshots that could not be deleted, and the errors. The others were deleted.
    pub failed: Vec<(SnapshotId, Error)>,
}

/// Forgets snapshots under the exclusive lock.
pub async fn forget(
    repository: &Repository,
    options: &ForgetOptions,
    lock: &LockOptions,
    cancel: &CancellationToken,
) -> Result<Forgotten> {
    Lock::hold(repository, LockKind::Exclusive, lock, |lock| async move {
        forget_locked(repository, options, &lock, cancel).await
    })
    .await
}

/// Forgets snapshots for a caller that already holds the exclusive lock and goes on to prune under it.
pub async fn forget_locked(
    repository: &Repository,
    options: &ForgetOptions,
    lock: &Lock,
    cancel: &CancellationToken,
) -> Result<Forgotten> {
    lock.must_be_exclusive()?;
    let mut forgotten = decide(repository, options, Timestamp::now()).await?;
    if options.dry_run || forgotten.remove.is_empty() {
        return Ok(forgotten);
    }
    lock.verify().await?;
    let removing = stream::iter(forgotten.remove.clone()).map(|id| async move {
        if cancel.is_cancelled() {
            return Err((id, Error::Cancelled));
        }
        repository.remove_file(FileKind::Snapshot, id.0).await.map_err(|error| (id, error))
    });
    let outcomes: Vec<_> = removing.buffered(CONCURRENT).collect().await;
    forgotten.failed = outcomes.into_iter().filter_map(Result::err).collect();
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(forgotten) }
}

/// Removes exactly these snapshots, concurrently with running backups: a snapshot is only a reference to data, which
/// a prune removes under the exclusive lock. A snapshot that no longer exists is not an error. Returns those that
/// existed.
pub async fn forget_named(
    repository: &Repository,
    ids: &[SnapshotId],
    lock: &LockOptions,
) -> Result<Vec<SnapshotId>> {
    Lock::hold(repository, LockKind::Shared, lock, |lock| async move {
        let listed = repository.list(FileKind::Snapshot).await?;
        let there: BTreeSet<_> = listed.iter().map(|file| file.id).collect();
        let found: Vec<_> = ids.iter().copied().filter(|id| there.contains(&id.0)).collect();
        for id in &found {
            lock.verify().await?;
            repository.remove_file(FileKind::Snapshot, id.0).await?;
        }
        Ok(found)
    })
    .await
}

/// Decides what would be forgotten. Only reads, so a dry run needs no lock.
pub async fn decide(repository: &Repository, options: &ForgetOptions, now: Timestamp) -> Result<Forgotten> {
    check(options)?;
    let loaded = repository.load_readable_snapshots().await?;
    same_listing(repository, &loaded).await?;
    if !options.selectors.is_empty() {
        let mut remove = loaded.named(&options.selectors, &options.filter)?;
        let mut named: Vec<FoundSnapshot> =
            loaded.found.iter().filter(|(id, _)| remove.contains(id)).cloned().collect();
        snapshots::newest_first(&mut named);
        remove.retain(|id| loaded.damaged.iter().any(|damaged| damaged.id == *id));
        remove.splice(0..0, named.into_iter().map(|(id, _)| id));
        return Ok(Forgotten { remove, ..Forgotten::default() });
    }
    // Damaged snapshots match no filter and no policy: they are kept until they are named.
    let matching =
        loaded.found.into_iter().filter(|(_, snapshot)| options.filter.matches(snapshot)).collect();
    let mut forgotten = Forgotten::default();
    for group in snapshots::group(matching, options.group_by) {
        let decision = options.policy.apply(group.snapshots, now);
        if decision.keep.is_empty() && !options.policy.is_empty() {
            return Err(Error::Refused {
                reason: format!("the policy would remove every snapshot of the group '{}'", group.key),
                hint: "use a policy that keeps at least one snapshot of each group, or name the snapshots to remove",
            });
        }
        forgotten.remove.extend(decision.remove.iter().map(|(id, _)| *id));
        forgotten.groups.push(ForgetGroup::new(group.key, decision));
    }
    Ok(forgotten)
}

/// Two listings in a row, under a lock, must be equal: a store that returns outdated or incomplete listings must not
/// be used to decide what to delete (restic#4612).
pub(crate) async fn same_listing(repository: &Repository, loaded: &Loaded) -> Result<()> {
    let loaded: BTreeSet<_> = loaded.ids().map(|id| id.0).collect();
    let listed: BTreeSet<_> =
        repository.list(FileKind::Snapshot).await?.into_iter().map(|file| file.id).collect();
    if loaded == listed {
        return Ok(());
    }
    Err(Error::Refused {
        reason: format!(
            "the snapshots changed while they were read: first {}, then {}",
            loaded.len(),
            listed.len()
        ),
        hint: "nothing was changed; if no other process uses the repository, the store's listings are unreliable: try again later",
    })
}

/// restic's rules for policies that would remove everything.
fn check(options: &ForgetOptions) -> Result<()> {
    if !options.selectors.is_empty() || !options.policy.is_empty() {
        return Ok(());
    }
    if !options.allow_remove_all {
        let problem = "it is empty, so no snapshots will be removed; use --keep-… or snapshot IDs";
        return Err(Error::invalid("the policy", problem));
    }
    if options.filter.is_empty() {
        let problem = "not allowed without --host, --tag or --path";
        return Err(Error::invalid("--unsafe-allow-remove-all", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
