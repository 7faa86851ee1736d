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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use lifeboat_api::stash::InvokerKind;
    use lifeboat_plan::stash::session::InvokerId;
    use lifeboat_plan::stash::snapshotter::{SnapshotOwner, removable};
    use lifeboat_repository::id::SnapshotId;
    use lifeboat_repository::snapshot::Snapshot;
    use serde_json::{Value, json};

    use super::*;

    /// Numbers that look random and are the same in each run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// The snapshot of a time as driver VolumeSnapshotter has it, and as a repository has it.
    fn both(owner: &SnapshotOwner, number: usize, second: i64) -> (Value, Found) {
        let time = Timestamp::from_second(second).unwrap().to_string();
        let id = format!("{number:064x}");
        let mut volume = owner.snapshot(&id, "data", "fast", None);
        volume["status"] =
            json!({"boundVolumeSnapshotContentName": "c", "readyToUse": true, "creationTime": time});
        let stored = json!({"time": time, "tree": id, "paths": ["/data"]});
        let stored: Snapshot = serde_json::from_value(stored).unwrap();
        let id: SnapshotId = serde_json::from_value(json!(id)).unwrap();
        (volume, (id, stored))
    }

    #[test]
    fn volume_snapshots_are_kept_by_the_rules_of_repositories() {
        let owner = SnapshotOwner {
            invoker: InvokerId {
                kind: InvokerKind::BackupConfiguration,
                namespace: "shop".into(),
                name: "nightly".into(),
            },
            session: "s".into(),
            uid: "u".into(),
            created: Timestamp::UNIX_EPOCH,
        };
        let mut numbers = Numbers(1);
        for round in 0..300 {
            let count = 1 + numbers.below(40);
            // From snapshots within hours to snapshots of many years.
            let span = [90_000, 3_000_000, 300_000_000][round % 3];
            let seconds: BTreeSet<i64> =
                (0..count).map(|_| 1_500_000_000 + i64::try_from(numbers.below(span)).unwrap()).collect();
            let (volumes, stored): (Vec<Value>, Vec<Found>) =
                seconds.iter().enumerate().map(|(number, second)| both(&owner, number, *second)).unzip();
            let keep = KeepPolicy {
                last: 1 + numbers.below(3),
                hourly: numbers.below(5),
                daily: numbers.below(5),
                weekly: numbers.below(5),
                monthly: numbers.below(5),
                yearly: numbers.below(5),
                tags: Vec::new(),
            };
            let expected: BTreeSet<String> = policy(&keep)
                .apply(stored, Timestamp::from_second(2_000_000_000).unwrap())
                .remove
                .iter()
                .map(|(id, _)| id.to_string())
                .collect();
            let removed = removable(&volumes, &owner.invoker, "data", &keep);
            let removed: BTreeSet<String> =
                removed.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            assert_eq!(removed, expected, "{keep:?} on {seconds:?}");
        }
    }
}
