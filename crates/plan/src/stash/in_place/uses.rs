//! Which pods use a claim.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::json::text;
use crate::transfer::directory::claim_of;

/// Label of a mover's pod: the UID of the object that it works for.
const OWNER_UID: &str = "lifeboat.io/owner-uid";

/// A pod that uses a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeUser {
    pub claim: String,
    pub pod: String,
    pub pod_uid: String,
    /// As in `ReplicaSet web-5d9c`; None for a pod that nothing controls.
    pub controller: Option<String>,
    /// Whether the pod will end by itself: it is terminating, or it is a mover whose session has ended or ends before
    /// the restore's turn.
    pub is_leaving: bool,
}

impl fmt::Display for VolumeUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claim, pod, controller, .. } = self;
        match controller {
            Some(controller) => write!(formatter, "pod {pod} of {controller} (claim {claim})"),
            None => write!(formatter, "pod {pod} (claim {claim})"),
        }
    }
}

/// The pods that use one of these claims, by claim and name. `session`: the UID of the restore, whose own movers do not
/// count. Pods whose containers have all ended use nothing; all others do, also Pending and terminating ones.
pub fn users(claims: &BTreeSet<String>, pods: &[Value], session: Option<&str>) -> Vec<VolumeUser> {
    let is_own = |pod: &Value| {
        let owner = pod["metadata"]["labels"][OWNER_UID].as_str();
        session.is_some_and(|session| owner == Some(crate::label::value(session).as_str()))
    };
    let active = pods.iter().filter(|pod| !has_ended(pod) && !is_own(pod));
    let used = active.flat_map(|pod| claims_of_pod(pod).map(move |claim| user(pod, claim)));
    let found: BTreeSet<VolumeUser> = used.filter(|user| claims.contains(&user.claim)).collect();
    found.into_iter().collect()
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn claims_of_pod(pod: &Value) -> impl Iterator<Item = String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(move |volume| claim_of(text(pod, "/metadata/name"), volume))
}

fn user(pod: &Value, claim: String) -> VolumeUser {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let controller = owners.into_iter().find(|owner| owner["controller"] == true);
    VolumeUser {
        claim,
        is_leaving: !pod["metadata"]["deletionTimestamp"].is_null()
            || !pod["metadata"]["labels"][OWNER_UID].is_null(),
        pod: text(pod, "/metadata/name").to_owned(),
        pod_uid: text(pod, "/metadata/uid").to_owned(),
        controller: controller.map(|owner| format!("{} {}", text(owner, "/kind"), text(owner, "/name"))),
    }
}
