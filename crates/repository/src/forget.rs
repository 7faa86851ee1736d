//! Forgetting snapshots: loads all of them, decides by policy or takes those that were named, deletes. Takes a
//! repository, options and a lock; gives what stays and why, and what went. The data stays until a prune.
//!
//! Nothing is deleted unless everything could be read, the listing was the same twice, the lock is still ours, and
//! every group keeps a snapshot (unless the policy is empty and that is what was asked for). A snapshot whose object
//! is damaged stays, whatever the policy says, and goes when its id is given.

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
use crate::snapshots::{self, Filter, Found, GroupBy, Loaded, Selector};
use policy::Policy;

/// Snapshots that are deleted at once.
const CONCURRENT: usize = 8;

/// What to forget.
#[derive(Debug, Clone, Default)]
pub struct ForgetOptions {
    /// These snapshots, whatever the policy says.
    pub selectors: Vec<Selector>,
    /// The policy looks at these only; `latest` of the selectors too.
    pub filter: Filter,
    pub group_by: GroupBy,
    pub policy: Policy,
    /// With an empty policy and a filter: all that the filter lets through go. As restic's
    /// `--unsafe-allow-remove-all`; it never makes a policy that keeps nothing acceptable.
    pub allow_remove_all: bool,
    /// Decide only.
    pub dry_run: bool,
}

/// What was decided and done.
#[derive(Debug, Default)]
pub struct Forgotten {
    /// By policy: each group with what stays and goes. Empty when snapshots were named.
    pub groups: Vec<ForgetGroup>,
    /// What goes (and is gone, unless it was a dry run or it failed), newest first.
    pub remove: Vec<SnapshotId>,
    /// What could not be deleted, and why. The rest was.
    pub failed: Vec<(SnapshotId, Error)>,
}

/// Forgets, under the exclusive lock.
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

/// Forgets, for a caller that has the exclusive lock already and goes on to prune under it.
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

/// Removes these snapshots and no others, beside running backups: a snapshot alone is only a name for data, which a prune
/// removes under the exclusive lock. One that is gone already is no error. Gives those that were there.
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

/// What would be forgotten. Reads only, so a dry run needs no lock.
pub async fn decide(repository: &Repository, options: &ForgetOptions, now: Timestamp) -> Result<Forgotten> {
    check(options)?;
    let loaded = repository.load_readable_snapshots().await?;
    same_listing(repository, &loaded).await?;
    if !options.selectors.is_empty() {
        let mut remove = loaded.named(&options.selectors, &options.filter)?;
        let mut named: Vec<Found> =
            loaded.found.iter().filter(|(id, _)| remove.contains(id)).cloned().collect();
        snapshots::newest_first(&mut named);
        remove.retain(|id| loaded.damaged.iter().any(|damaged| damaged.id == *id));
        remove.splice(0..0, named.into_iter().map(|(id, _)| id));
        return Ok(Forgotten { remove, ..Forgotten::default() });
    }
    // Damaged ones match no filter and no policy: they stay until they are named.
    let matching =
        loaded.found.into_iter().filter(|(_, snapshot)| options.filter.matches(snapshot)).collect();
    let mut forgotten = Forgotten::default();
    for group in snapshots::group(matching, options.group_by) {
        let decision = options.policy.apply(group.snapshots, now);
        if decision.keep.is_empty() && !options.policy.is_empty() {
            return Err(Error::Refused {
                reason: format!("the policy would remove every snapshot of the group '{}'", group.key),
                hint: "give a policy that keeps something of each group, or name the snapshots to remove",
            });
        }
        forgotten.remove.extend(decision.remove.iter().map(|(id, _)| *id));
        forgotten.groups.push(ForgetGroup::new(group.key, decision));
    }
    Ok(forgotten)
}

/// Two listings of one moment, under a lock, must be the same: a store that shows old or cut listings is not one to
/// delete by (restic#4612).
pub(crate) async fn same_listing(repository: &Repository, loaded: &Loaded) -> Result<()> {
    let loaded: BTreeSet<_> = loaded.ids().map(|id| id.0).collect();
    let listed: BTreeSet<_> =
        repository.list(FileKind::Snapshot).await?.into_iter().map(|file| file.id).collect();
    if loaded == listed {
        return Ok(());
    }
    Err(Error::Refused {
        reason: format!(
            "the snapshots changed while they were read: {} at first, then {}",
            loaded.len(),
            listed.len()
        ),
        hint: "nothing was changed; if nobody else is at work, the store's listings cannot be trusted: try later",
    })
}

/// restic's rules about policies that would remove everything.
fn check(options: &ForgetOptions) -> Result<()> {
    if !options.selectors.is_empty() || !options.policy.is_empty() {
        return Ok(());
    }
    if !options.allow_remove_all {
        let problem = "it is empty, so no snapshots will be removed; give --keep-… or snapshot ids";
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
