//! The target of a member as it was found: the volumes of each host, claims to create, and the facts for the pods of
//! movers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lifeboat_plan::stash::hosts::{HostName, TargetKind};
use lifeboat_plan::stash::targets::{
    ClaimRemark, Destination, Mount, NewClaim, RestorePlan, TargetFacts, pod_template, pods_of, why_not_ready,
};
use serde_json::Value;

/// The grace period of a pod that sets none.
const GRACE: u64 = 30;

/// A member's target as it was found.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundMember {
    pub(super) mounts: Vec<Mount>,
    /// The volumes of each host that can be restored.
    pub(super) destinations: BTreeMap<HostName, Destination>,
    pub(super) new_claims: Vec<NewClaim>,
    /// What existing claims lack of what their templates ask for.
    pub(super) remarks: Vec<ClaimRemark>,
    /// The claims of all hosts.
    pub(super) claims: BTreeSet<String>,
    /// A pod of the target, or its template: its user, tolerations and SELinux options hold for movers too.
    pub(super) pod: Option<Value>,
    /// The grace period of the target's pods.
    pub(super) grace: Duration,
}

impl FoundMember {
    pub(super) fn of(facts: &TargetFacts, plan: RestorePlan) -> Self {
        let claims = plan.claims();
        let destinations =
            plan.hosts.into_iter().filter_map(|host| Some((host.name, host.destination.ok()?))).collect();
        let template =
            facts.object.as_ref().filter(|_| facts.kind != TargetKind::Claim).and_then(pod_template);
        let seconds = template.and_then(|template| {
            template.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64)
        });
        Self {
            mounts: plan.mounts,
            destinations,
            new_claims: plan.new_claims,
            remarks: plan.remarks,
            claims,
            pod: pod(facts).or_else(|| template.cloned()),
            grace: Duration::from_secs(seconds.unwrap_or(GRACE)),
        }
    }
}

/// A pod of the target: a Ready one if there is one, because only its status names the user that its image sets.
fn pod(facts: &TargetFacts) -> Option<Value> {
    let object = facts.object.as_ref().filter(|_| facts.kind.is_workload())?;
    let own = pods_of(object, &facts.between, &facts.pods);
    let ready = own.iter().find(|pod| why_not_ready(pod).is_none());
    ready.or(own.first()).map(|pod| (*pod).clone())
}
