//! Deletes the VolumeSnapshots that the policy of an invoker does not keep, claim by claim. Called at the end of a session.

use std::collections::BTreeSet;

use lifeboat_control::Core;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::retention::Retention;
use lifeboat_plan::stash::session::InvokerId;
use lifeboat_plan::stash::snapshotter::{removable, selector};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation};
use lifeboat_transfer::snapshots::Snapshots;
use serde_json::Value;

/// Applies the policy to the snapshots of these claims. A failure is only a warning, because the new snapshots are
/// taken. `dry_run`: nothing is deleted, and the condition names the snapshots that would be deleted.
pub(in crate::sessions) async fn apply(
    core: &Core,
    invoker: &InvokerId,
    claims: &BTreeSet<HostName>,
    retention: &Retention,
    dry_run: bool,
) -> Observation {
    let kind = ConditionType::RetentionPolicyApplied;
    let Retention::Keep(keep) = retention else { return kind.yes("everything is kept") };
    let snapshots = Snapshots::new(&core.client);
    let found = match snapshots.selected(&invoker.namespace, &selector(invoker)).await {
        Ok(found) => found,
        Err(error) => return kind.no(error.chain()),
    };
    let old: Vec<&Value> =
        claims.iter().flat_map(|claim| removable(&found, invoker, claim.as_str(), keep)).collect();
    let (mut deleted, mut problems) = (Vec::new(), Vec::new());
    for snapshot in old {
        let name = text(snapshot, "/metadata/name");
        match if dry_run { Ok(()) } else { snapshots.delete(snapshot).await } {
            Ok(()) => deleted.push(name),
            Err(error) => problems.push(error.chain()),
        }
    }
    let what = if dry_run { "a dry run would delete VolumeSnapshots" } else { "deleted VolumeSnapshots" };
    let done = if deleted.is_empty() { String::new() } else { format!("{what} {}", deleted.join(", ")) };
    if problems.is_empty() { kind.yes(done) } else { kind.no(problems.join("; ")) }
}
