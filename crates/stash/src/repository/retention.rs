//! Applies a retention policy: the snapshots of some hosts are grouped by host and path, and of each group those are forgotten that the
//! policy does not keep. Called at the end of each session.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::retention::{KeepPolicy, expired_safety_copies, groups};
use lifeboat_plan::stash::rules::SnapshotFact;
use lifeboat_repository::forget::policy::{Count, Policy};
use lifeboat_repository::snapshots::{Found, TagList, TagLists};
use lifeboat_transfer::repositories::{RepositoryKey, RepositoryProblem};

use super::host::access_of;
use super::key::parts_of;
use super::{forget, look, object};
use crate::context::Context;

/// Forgets what the policy does not keep of these hosts. Gives how many snapshots that were.
pub(crate) async fn apply_policy(
    context: &Context,
    key: &RepositoryKey,
    keep: &KeepPolicy,
    hosts: &BTreeSet<HostName>,
) -> Result<u64, RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let access = access_of(context, &repository).await?.access;
    let found = look::open(context, &access).await?.load_readable_snapshots().await?.found;
    let facts: Vec<SnapshotFact> = found.iter().map(fact).collect();
    let mut by_id: BTreeMap<String, Found> =
        found.into_iter().map(|found| (found.0.to_string(), found)).collect();
    let policy = policy(keep);
    let mut old = Vec::new();
    for group in groups(&facts, hosts) {
        let members = group.snapshots.iter().filter_map(|id| by_id.remove(id)).collect();
        let removed = policy.apply(members, context.core.now()).remove;
        old.extend(removed.into_iter().map(|(id, _)| id.to_string()));
    }
    if !old.is_empty() {
        forget(context, key, &old).await?;
    }
    Ok(u64::try_from(old.len()).unwrap_or(u64::MAX))
}

/// Forgets the safety copies of these hosts that are old enough. `needed`: those that stay, because a workload is still held down.
pub(crate) async fn forget_safety_copies(
    context: &Context,
    key: &RepositoryKey,
    hosts: &BTreeSet<HostName>,
    needed: &BTreeSet<String>,
) -> Result<(), RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let access = access_of(context, &repository).await?.access;
    let found = look::open(context, &access).await?.load_readable_snapshots().await?.found;
    let facts: Vec<SnapshotFact> = found.iter().map(fact).collect();
    let old = expired_safety_copies(&facts, hosts, needed, context.core.now());
    if old.is_empty() { Ok(()) } else { forget(context, key, &old).await }
}

fn fact((id, snapshot): &Found) -> SnapshotFact {
    SnapshotFact {
        id: id.to_string(),
        host: HostName(snapshot.hostname.clone()),
        paths: snapshot.paths.clone(),
        tags: snapshot.tags.clone(),
        time: snapshot.time.timestamp(),
    }
}

fn policy(keep: &KeepPolicy) -> Policy {
    let tags = keep.tags.iter().map(|list| TagList(list.split(',').map(str::to_owned).collect()));
    Policy {
        last: Count::Limited(keep.last),
        hourly: Count::Limited(keep.hourly),
        daily: Count::Limited(keep.daily),
        weekly: Count::Limited(keep.weekly),
        monthly: Count::Limited(keep.monthly),
        yearly: Count::Limited(keep.yearly),
        tags: TagLists(tags.collect()),
        ..Policy::default()
    }
}
