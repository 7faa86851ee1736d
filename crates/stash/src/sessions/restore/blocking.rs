//! Blocks backups of the data that a restore writes, from before the first byte until the data is complete again. The
//! record is on the claims ([`unfinished`]), because the restore may be deleted; condition `BackupsBlocked` shows it.

use std::collections::BTreeSet;

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::session::TargetVolumes;
use lifeboat_plan::stash::state::conditions::{ConditionType, Truth};
use lifeboat_plan::stash::state::{MemberState, RestoredData};
use lifeboat_plan::stash::targets::VolumeAccess;

use super::found::FoundMember;
use super::work::RestoreWork;
use crate::sessions::engine::is_refusal;
use crate::sessions::unfinished;

impl RestoreWork {
    /// Sets the record on the claims before the first mover starts. False if that is not allowed: then the hosts have
    /// failed.
    pub(super) async fn block_backups(&self, member: usize, found: &FoundMember) -> Result<bool, ApiError> {
        let state = self.member_state(member).await;
        if ConditionType::BackupsBlocked.status_in(&state.conditions).is_some() {
            return Ok(true);
        }
        let written = TargetVolumes::new(&self.record.namespace, None, written(&state, found));
        let (core, name) = (&self.context.core, self.name());
        match unfinished::mark(core, &written, self.target(member), &name).await {
            Err(error) if is_refusal(&error) => {
                let message =
                    format!("the restore cannot be recorded on the data that it writes: {}", error.chain());
                self.fail_open_hosts(member, &message).await?;
                return Ok(false);
            }
            marked => marked?,
        }
        let blocked = ConditionType::BackupsBlocked.yes(format!(
            "backups of what it writes are skipped until a restore succeeds, or until a person allows them: lifeboat stash resume {} -n {}",
            name.argument(),
            name.namespace
        ));
        let now = self.record.now();
        self.change(member, |member| member.observe(&blocked, now)).await.map(|_| true)
    }

    /// Removes the record if the data is complete: all of it was restored, or nothing was written. Called once the
    /// movers have ended.
    pub(super) async fn settle_blocking(&self, member: usize, found: &FoundMember) -> Result<(), ApiError> {
        let state = self.member_state(member).await;
        // A server may have died after it set the record and before it set the condition.
        let shown = ConditionType::BackupsBlocked.status_in(&state.conditions);
        if shown == Some(Truth::False) {
            return Ok(());
        }
        let core = &self.context.core;
        let message = match state.restored_data() {
            RestoredData::Whole => {
                let claims = state.claims.iter().chain(&found.claims).cloned().collect();
                unfinished::clear(core, &self.on(member, claims), self.target(member)).await?;
                "all data was restored"
            }
            RestoredData::Untouched => {
                unfinished::withdraw(
                    core,
                    &self.on(member, state.claims),
                    self.target(member),
                    &self.record.uid,
                )
                .await?;
                "nothing was written"
            }
            RestoredData::Open => return Ok(()),
        };
        if shown.is_none() {
            return Ok(());
        }
        let (now, allowed) = (self.record.now(), ConditionType::BackupsBlocked.no(message));
        self.change(member, |member| member.observe(&allowed, now)).await.map(drop)
    }
}

/// The claims of the hosts that are restored.
fn written(state: &MemberState, found: &FoundMember) -> BTreeSet<String> {
    let destinations = state.hosts.iter().filter_map(|host| found.destinations.get(&host.name));
    let volumes = destinations.flat_map(|destination| &destination.volumes);
    let claims = volumes.filter_map(|volume| match &volume.access {
        VolumeAccess::Claim { claim, .. } => Some(claim.clone()),
        _ => None,
    });
    claims.collect()
}
