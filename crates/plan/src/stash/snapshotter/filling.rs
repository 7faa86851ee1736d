//! Whether a claim that a restore created from a VolumeSnapshot has its data. The driver creates the volume from the
//! snapshot. If the class creates volumes only for pods, nothing more is known until a pod uses the claim.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::json::text;
use crate::transfer::consumer::uses;
use crate::transfer::provisioning::awaits_pod;

/// How long a pod that uses a claim may take to get its node.
const SCHEDULED: Duration = Duration::from_mins(2);
/// How long a provisioner may report errors: it tries again.
const FAILING: Duration = Duration::from_mins(10);

/// The state of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filling {
    /// It has a volume that was created for it.
    Filled,
    /// It gets its volume when a pod uses it.
    AwaitsPod,
    /// It will have its volume; what it waits for.
    Waits(String),
    /// It gets none; the reason.
    Failed(String),
}

/// What was read about a claim.
#[derive(Clone, Copy, Debug)]
pub struct RestoredClaimFacts<'a> {
    /// None if it does not exist any more.
    pub claim: Option<&'a Value>,
    /// The volume that it is bound to.
    pub volume: Option<&'a Value>,
    pub class: Option<&'a Value>,
    /// The pods of its namespace.
    pub pods: &'a [Value],
    /// What its provisioner reported last.
    pub complaint: Option<&'a str>,
    /// The time since the claim was created.
    pub waited: Duration,
}

/// Decides whether a restored claim has its volume, still waits for it, or never gets it.
pub fn filling(facts: &RestoredClaimFacts<'_>) -> Filling {
    let Some(claim) = facts.claim else {
        return Filling::Failed("the claim was deleted while its volume was made".to_owned());
    };
    match text(claim, "/status/phase") {
        "Bound" => return bound(claim, facts.volume),
        "Lost" => return Filling::Failed("the volume of the claim is gone".to_owned()),
        _ => {}
    }
    if awaits_pod(claim, facts.class) {
        let name = text(claim, "/metadata/name");
        return match facts.pods.iter().find(|pod| uses(pod, name)) {
            Some(pod) if facts.waited < SCHEDULED => {
                Filling::Waits(format!("waits for a node for pod {}", text(pod, "/metadata/name")))
            }
            _ => Filling::AwaitsPod,
        };
    }
    match facts.complaint {
        Some(complaint) if facts.waited >= FAILING => {
            Filling::Failed(format!("no volume could be made from the snapshot: {complaint}"))
        }
        Some(complaint) => Filling::Waits(complaint.to_owned()),
        None if facts.class.is_none() && facts.waited >= FAILING => Filling::Failed(no_class(claim)),
        None => Filling::Waits("waits for the volume, which its driver makes from the snapshot".to_owned()),
    }
}

/// Why no volume is created for a claim whose class was not found.
fn no_class(claim: &Value) -> String {
    match text(claim, "/spec/storageClassName") {
        "" => "the claim has no storage class, and the cluster no default; set spec.storageClassName in the template".to_owned(),
        class => format!("StorageClass {class} does not exist; set spec.storageClassName in the template"),
    }
}

/// A claim with a volume. A volume that is older than the claim was not created from the snapshot.
fn bound(claim: &Value, volume: Option<&Value>) -> Filling {
    let created = |object: &Value| text(object, "/metadata/creationTimestamp").parse::<Timestamp>().ok();
    match volume.map(|volume| (text(volume, "/metadata/name"), created(volume))) {
        Some((name, Some(made))) if created(claim).is_some_and(|asked| made < asked) => {
            Filling::Failed(format!(
                "the claim was bound to volume {name}, which is older and was not made from the snapshot; delete the claim, and see that no free \
             volume fits its template"
            ))
        }
        _ => Filling::Filled,
    }
}
