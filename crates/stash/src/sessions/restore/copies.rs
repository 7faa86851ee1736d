//! Finds what an earlier restore left behind of a workload that is still stopped: safety copies, and claims
//! that may be half restored. Called when the target of a member has been found, before the decision about
//! it.

use std::collections::BTreeSet;

use lifeboat_api::stash::SnapshotStats;
use lifeboat_plan::stash::hosts::{HostName, replicas};
use lifeboat_plan::stash::in_place::{InPlace, StopPlan, UNFINISHED};
use lifeboat_plan::stash::rules::{SAFETY_TAG, Selection, SnapshotFact, safety_copies};
use lifeboat_plan::stash::targets::{
    Mount, RestoreFacts, RestorePlan, TargetFacts, VolumeAccess, claims_of_replicas, mount_above,
};

/// The safety copies of a repository.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies(Vec<SnapshotFact>);

impl Copies {
    pub(super) fn among(snapshots: &[SnapshotFact]) -> Self {
        Self(snapshots.iter().filter(|snapshot| snapshot.has_tag(SAFETY_TAG)).cloned().collect())
    }

    /// The safety copies of a host by an earlier restore, if this restore adds to them. For the host's
    /// record.
    pub(super) fn known(&self, host: &HostName, way: &InPlace) -> Vec<SnapshotStats> {
        let InPlace::Stop(StopPlan { safety_copy: true, safety_of: Some(earlier), .. }) = way else {
            return Vec::new();
        };
        let stats = |(path, id): (_, String)| SnapshotStats {
            name: Some(id),
            path: Some(ToString::to_string(&path)),
            ..SnapshotStats::default()
        };
        safety_copies(&self.0, host, &earlier.uid).into_iter().map(stats).collect()
    }
}

/// The leftovers of an earlier restore, compared with the plan of a new one.
pub(super) struct Left<'a> {
    pub(super) copies: &'a Copies,
    pub(super) selection: &'a Selection,
    /// Another session or member is restoring the data now. Claims that it has not finished are not reported.
    pub(super) is_at_work: bool,
}

impl Left<'_> {
    /// Whether the safety copies of a restore have every mount that is overwritten. `restore`: its UID.
    pub(super) fn are_copied(&self, mounts: &[Mount], restore: &str) -> bool {
        self.selection.hosts.iter().all(|host| {
            let copied = safety_copies(&self.copies.0, &host.name, restore);
            let parts = host.parts.as_deref().unwrap_or_default().iter();
            let mut overwritten = parts.filter_map(|part| mount_above(mounts, &part.path));
            overwritten.all(|mount| copied.contains_key(&mount.mount_path))
        })
    }

    /// The claims that may be half restored, that the pods of the workload will use, and that the restore
    /// does not write.
    pub(super) fn not_covered(&self, facts: &RestoreFacts, plan: &RestorePlan) -> BTreeSet<String> {
        let object = facts.target.object.as_ref().filter(|_| facts.target.kind.has_scale());
        let Some(object) = object.filter(|_| !self.is_at_work) else { return BTreeSet::new() };
        let written = written(plan, self.selection);
        let used = claims_of_replicas(object, facts.replicas.unwrap_or_else(|| replicas(object)));
        used.into_iter()
            .filter(|claim| has_record(&facts.target, claim) && !written.contains(claim))
            .collect()
    }
}

/// Whether one of these claims carries the record of a restore that has not succeeded.
pub(super) fn is_unfinished(target: &TargetFacts, claims: &BTreeSet<String>) -> bool {
    claims.iter().any(|claim| has_record(target, claim))
}

fn has_record(target: &TargetFacts, claim: &str) -> bool {
    let known = target.claims.get(claim);
    known.is_some_and(|known| !known.claim["metadata"]["annotations"][UNFINISHED].is_null())
}

/// The claims of the hosts that get data.
fn written(plan: &RestorePlan, selection: &Selection) -> BTreeSet<String> {
    let is_chosen = |name: &HostName| selection.hosts.iter().any(|host| host.name == *name);
    let hosts = plan.hosts.iter().filter(|host| is_chosen(&host.name));
    let volumes =
        hosts.filter_map(|host| host.destination.as_ref().ok()).flat_map(|destination| &destination.volumes);
    let claims = volumes.filter_map(|volume| match &volume.access {
        VolumeAccess::Claim { claim, .. } => Some(claim.clone()),
        _ => None,
    });
    claims.collect()
}
