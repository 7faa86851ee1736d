//! Blocks backups of the data that a restore writes, from before the first byte until the data is complete again. The
//! record is on the claims ([`unfinished`]), because the restore may be deleted; condition `BackupsBlocked` shows it.

use std::collections::BTreeSet;

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::session::TargetVolumes;
use lifeboat_plan::stash::state::conditions::{ConditionType, Truth};
use lifeboat_plan::stash::state::{MemberState, RestoredData};
use lifeboat_plan::stash::targets::VolumeAccess;
use tokio_util::sync::CancellationToken;

use super::found::FoundMember;
use super::work::RestoreWork;
use crate::patience::patiently;
use crate::sessions::unfinished;

impl RestoreWork {
    /// Sets the record on the claims before the first mover starts. False if that is not allowed: then the hosts have
    /// failed.
    pub(super) async fn block_backups(
        &self,
        member: usize,
        found: &FoundMember,
        cancel: &CancellationToken,
    ) -> Result<bool, ApiError> {
        let state = self.member_state(member).await;
        if ConditionType::BackupsBlocked.status_in(&state.conditions).is_some() {
            return Ok(true);
        }
        let written = TargetVolumes::new(&self.record.namespace, None, written(&state, found));
        let (core, name) = (&self.context.core, self.name());
        let mark = || unfinished::mark(core, &written, self.target(member), &name);
        if let Err(why) = patiently(cancel, mark).await? {
            let message = format!("the restore cannot be recorded on the data that it writes: {why}");
            self.fail_open_hosts(member, &message).await?;
            return Ok(false);
        }
        let blocked = ConditionType::BackupsBlocked.yes(format!(
            "while it runs, backups of what it writes are skipped; if it fails, until a restore succeeds or a person allows them: \
             lifeboat stash resume {} -n {}",
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
        let data = state.restored_data();
        let message = match data {
            RestoredData::Whole => "all data was restored",
            RestoredData::Untouched => "nothing was written",
            RestoredData::Open => return Ok(()),
        };
        let unmark = || self.unmark(member, &state, found, data == RestoredData::Whole);
        if let Err(why) = patiently(&self.cancel, unmark).await? {
            // The restore has ended. Its record stays on the data, so that a person decides.
            let message =
                format!("{message}, and backups stay blocked, because that cannot be changed: {why}");
            self.record.warn("BackupsBlocked", &message).await;
            return Ok(());
        }
        if shown.is_none() {
            return Ok(());
        }
        let (now, allowed) = (self.record.now(), ConditionType::BackupsBlocked.no(message));
        self.change(member, |member| member.observe(&allowed, now)).await.map(drop)
    }

    /// Removes the records of all restores from the data that was restored, or that of this one from unchanged data.
    async fn unmark(
        &self,
        member: usize,
        state: &MemberState,
        found: &FoundMember,
        is_whole: bool,
    ) -> Result<(), ApiError> {
        let (core, target) = (&self.context.core, self.target(member));
        if is_whole {
            let restored = written(state, found);
            // Other claims of the target may still be half restored by an earlier restore. A target that is gone has no volumes.
            let all = || state.claims.iter().chain(&found.claims).cloned().collect();
            let claims = if found.destinations.is_empty() { all() } else { restored };
            return unfinished::clear(core, &self.on(member, claims), target).await;
        }
        unfinished::withdraw(core, &self.on(member, state.claims.clone()), target, &self.record.uid).await
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
