//! Restores members with driver VolumeSnapshotter: each claim of the templates is a host, and the storage system
//! creates its volume from a VolumeSnapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;
use lifeboat_api::common::GoDuration;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::in_place::InPlace;
use lifeboat_plan::stash::invoker::ValidRestoreMember;
use lifeboat_plan::stash::snapshotter::{
    RestoredClaim, SnapshotSelection, is_of_restore, restored_claims, select_snapshots,
};
use lifeboat_plan::stash::state::WorkPhase;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_transfer::claims::Claims;
use lifeboat_transfer::snapshots::Snapshots;
use tokio_util::sync::CancellationToken;

use super::copies::Copies;
use super::find::{Ready, Tried, failed};
use super::found::FoundMember;
use super::work::RestoreWork;
use crate::sessions::engine::NoHosts;
use crate::sessions::snapshotter::filling::{RestoreClaim, exists};
use crate::snapshot_classes;

/// Finds the claims of the member, none of which may exist, and the snapshot of each.
pub(super) async fn try_find(
    work: &RestoreWork,
    member: usize,
    valid: &ValidRestoreMember,
) -> Result<Tried, NoHosts> {
    if work.object.rollback_of().is_some() {
        return Err(failed("a restore from VolumeSnapshots has no safety copy to go back to"));
    }
    let core = &work.context.core;
    if let Err(problem) = snapshot_classes::read(core).await? {
        return Err(NoHosts::Failed(problem.to_string()));
    }
    let claims = claims(work, valid)?;
    let snapshots = Snapshots::new(&core.client).in_namespace(&work.record.namespace).await?;
    let selection = match select_snapshots(&valid.rules.rules, &claims, &snapshots) {
        SnapshotSelection::Failed(message) => return Err(NoHosts::Failed(message)),
        SnapshotSelection::NotReady(message) => {
            return Ok(Tried::Waits(ConditionType::RestoreJobCreated.no(message)));
        }
        SnapshotSelection::Found(selection) => selection,
    };
    let mut taken = Vec::new();
    for host in &selection.hosts {
        let found = Claims::new(&core.client).get(&work.record.namespace, host.name.as_str()).await?;
        if found.is_some_and(|found| !is_of_restore(&found, &work.record.uid)) {
            taken.push(exists(host.name.as_str()));
        }
    }
    if !taken.is_empty() {
        return Err(NoHosts::Failed(taken.join("; ")));
    }
    let found = found(claims);
    let on = work.on(member, found.claims.clone());
    let busy = work.busy(member, &on).await?;
    if let Some(reason) = busy.or_else(|| work.take_turn(member, &on)) {
        return Ok(Tried::Queued { reason, on });
    }
    Ok(Tried::Found(Box::new(Ready {
        found,
        on,
        selection,
        copies: Copies::default(),
        way: InPlace::AtOnce,
        uid: String::new(),
    })))
}

/// Finds the claims of recorded hosts, which are derived from the spec.
pub(super) fn find_again(
    work: &RestoreWork,
    member: usize,
    valid: &ValidRestoreMember,
) -> Result<(), NoHosts> {
    let claims = claims(work, valid)?;
    locked(&work.found).insert(member, Arc::new(found(claims)));
    Ok(())
}

fn claims(work: &RestoreWork, valid: &ValidRestoreMember) -> Result<Vec<RestoredClaim>, NoHosts> {
    let Some(target) = &valid.spec.target else { return Err(failed("the member has no target")) };
    restored_claims(target, &work.record.namespace).map_err(|error| NoHosts::Failed(error.to_string()))
}

fn found(claims: Vec<RestoredClaim>) -> FoundMember {
    let new_claims: Vec<_> = claims.into_iter().map(|claim| claim.claim).collect();
    let names: BTreeSet<String> = new_claims.iter().map(|claim| claim.name.clone()).collect();
    FoundMember { new_claims, claims: names, ..FoundMember::default() }
}

/// Creates the claims of a member in parallel, and waits for their data.
pub(super) async fn run(
    work: &RestoreWork,
    member: usize,
    cancel: &CancellationToken,
) -> Result<(), ApiError> {
    let (found, records) = (work.found(member), work.hosts(member).await);
    let time_out = work.valid.time_out.and_then(GoDuration::to_std);
    let restores = records.iter().map(|record| {
        let claim = found.new_claims.iter().find(|claim| claim.name == record.host.as_str());
        async move {
            let Some(claim) = claim else {
                return record.failed("the restore has no template for this claim any more").await.map(drop);
            };
            let restore = RestoreClaim { core: &work.context.core, record, claim, time_out };
            restore.run(cancel).await
        }
    });
    try_join_all(restores).await?;
    note_waiting(work, member).await
}

/// Records which claims have no volume yet.
async fn note_waiting(work: &RestoreWork, member: usize) -> Result<(), ApiError> {
    let hosts = work.member_state(member).await.hosts;
    let waiting = hosts.iter().filter(|host| host.phase == WorkPhase::Unknown);
    let names: Vec<&str> = waiting.map(|host| host.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "claims {} get their data when pods use them: their storage class makes volumes for the first pod (WaitForFirstConsumer)",
        names.join(", ")
    );
    let (now, observed) = (work.record.now(), ConditionType::ClaimsAwaitPods.yes(message));
    work.change(member, |member| member.observe(&observed, now)).await.map(drop)
}
