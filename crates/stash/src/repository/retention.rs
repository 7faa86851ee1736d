//! Applies a retention policy: groups the snapshots of some hosts by host and path, and forgets the snapshots of each
//! group that the policy does not keep. Called at the end of each session. Nothing is forgotten unless the repository
//! is the one that the session has reserved, its listing has every snapshot that the session stored, and the policy
//! keeps a snapshot of each group.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_plan::stash::retention::{KeepPolicy, Policies, RetentionGroup, expired_safety_copies, groups};
use lifeboat_plan::stash::rules::SnapshotFact;
use lifeboat_repository::forget::policy::{Count, Policy};
use lifeboat_repository::repository::Repository as OpenRepository;
use lifeboat_repository::snapshots::{FoundSnapshot, TagList, TagLists};
use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem};
use serde_json::json;

use super::host::access_to;
use super::opened::forget_from;
use super::{by_mover, look, object};
use crate::context::Context;
use crate::repository_key::parts_of;

/// The request of a session.
pub(crate) struct PolicyRequest<'a> {
    pub(crate) policies: &'a Policies,
    pub(crate) hosts: &'a BTreeSet<HostName>,
    /// The ID of the repository that the session has reserved.
    pub(crate) id: &'a str,
    /// The full IDs of the snapshots that the session stored.
    pub(crate) stored: &'a [String],
    /// Whether to decide only, and forget nothing.
    pub(crate) dry_run: bool,
}

/// What a policy removed, or would have removed.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) removed: Vec<SnapshotFact>,
    /// Groups that the policy would have emptied: all of their snapshots were kept. For people.
    pub(crate) kept_whole: Vec<String>,
}

/// The snapshots of a repository, and what they were read from.
struct Listing {
    id: String,
    found: Vec<FoundSnapshot>,
    /// None where only movers open it.
    opened: Option<OpenRepository>,
    /// The number of all snapshots, also of those that cannot be read.
    all: usize,
}

/// Forgets the snapshots of these hosts that the policy does not keep.
pub(crate) async fn apply_policy(
    context: &Context,
    key: &RepositoryKey,
    request: &PolicyRequest<'_>,
) -> Result<Applied, RepositoryProblem> {
    let listing = Box::pin(listing(context, key)).await?;
    if listing.id != request.id {
        return Err(RepositoryProblem::Unusable(format!(
            "the storage holds the repository {} now, and the session has reserved {}; nothing was removed",
            listing.id, request.id
        )));
    }
    let facts: Vec<SnapshotFact> = listing.found.iter().map(fact).collect();
    let listed: BTreeSet<&str> = facts.iter().map(|fact| fact.id.as_str()).collect();
    if let Some(missing) = request.stored.iter().find(|id| is_id(id) && !listed.contains(id.as_str())) {
        return Err(RepositoryProblem::Storage(format!(
            "the storage does not list snapshot {missing}, which this session stored; nothing was removed"
        )));
    }
    let mut by_id: BTreeMap<String, FoundSnapshot> =
        listing.found.into_iter().map(|found| (found.0.to_string(), found)).collect();
    let mut applied = Applied::default();
    for group in groups(&facts, request.hosts) {
        let Some(keep) = request.policies.of(&group) else { continue };
        let members = group.snapshots.iter().filter_map(|id| by_id.remove(id)).collect();
        let decision = policy(keep).apply(members, context.core.now());
        if decision.keep.is_empty() {
            applied.kept_whole.push(shown(&group));
        } else {
            applied.removed.extend(decision.remove.iter().map(fact));
        }
    }
    if !request.dry_run {
        let ids: Vec<String> = applied.removed.iter().map(|fact| fact.id.clone()).collect();
        Box::pin(forget_from(context, key, listing.opened.as_ref(), &ids, listing.all)).await?;
    }
    Ok(applied)
}

/// A group, for people.
fn shown(group: &RetentionGroup) -> String {
    let volume = group.volume.as_ref().map(|volume| format!(" volume {volume}")).unwrap_or_default();
    format!("host {} path {}{volume}", group.host, group.paths.join(", "))
}

/// Forgets the safety copies of these hosts that are old enough. `needed`: the UIDs of the restores whose copies stay, because a workload is
/// still held down.
pub(crate) async fn forget_safety_copies(
    context: &Context,
    key: &RepositoryKey,
    hosts: &BTreeSet<HostName>,
    needed: &BTreeSet<String>,
) -> Result<(), RepositoryProblem> {
    let listing = Box::pin(listing(context, key)).await?;
    let facts: Vec<SnapshotFact> = listing.found.iter().map(fact).collect();
    let old = expired_safety_copies(&facts, hosts, needed, context.core.now());
    Box::pin(forget_from(context, key, listing.opened.as_ref(), &old, listing.all)).await
}

async fn listing(context: &Context, key: &RepositoryKey) -> Result<Listing, RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let access: Access = access_to(context, &repository, key.clone()).await?.access;
    if !access.is_opened_by_server() {
        let looked = by_mover::look(context, key).await?;
        let found: Vec<FoundSnapshot> = looked.snapshots.iter().filter_map(found_of).collect();
        return Ok(Listing { id: looked.id, all: found.len(), found, opened: None });
    }
    let opened = look::open(context, &access).await?;
    let loaded = look::loaded(context, key, &opened).await?;
    let (id, all) = (opened.config().id.clone(), loaded.ids().count());
    Ok(Listing { id, all, found: loaded.found, opened: Some(opened) })
}

/// Converts a snapshot that a mover listed into the engine's type. Fields that a policy does not use are unknown.
fn found_of(facts: &SnapshotFacts) -> Option<FoundSnapshot> {
    let snapshot = json!({
        "time": facts.time.to_string(),
        "tree": "0".repeat(64),
        "hostname": facts.hostname,
        "paths": facts.paths,
        "tags": facts.tags,
    });
    Some((facts.id.parse().ok()?, serde_json::from_value(snapshot).ok()?))
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn fact((id, snapshot): &FoundSnapshot) -> SnapshotFact {
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
    fn both(owner: &SnapshotOwner, number: usize, second: i64) -> (Value, FoundSnapshot) {
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
            let (volumes, stored): (Vec<Value>, Vec<FoundSnapshot>) =
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
