//! The turn of a member on its target and its claims: one session at a time works on them.

use std::collections::BTreeSet;

use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::session::{MemberStart, TargetVolumes, restore_member};

use super::others;
use super::work::RestoreWork;
use crate::sessions::restores::restores;
use crate::sessions::turns::{shown, try_take};

impl RestoreWork {
    /// The data that a member works on. `claims`: those of its target, and those that it creates.
    pub(super) fn on(&self, member: usize, claims: BTreeSet<String>) -> TargetVolumes {
        let target = self.target(member).map(|(_, key)| key.clone());
        TargetVolumes::new(&self.record.namespace, target, claims)
    }

    /// What the restore of a member waits for among other members and other sessions on the same data; None if the data is free.
    pub(super) async fn busy(&self, member: usize, on: &TargetVolumes) -> Result<Option<String>, ApiError> {
        if let Some(reason) = self.busy_member(member, on).await {
            return Ok(Some(reason));
        }
        let (namespace, own) = (&self.record.namespace, self.record.key());
        let backups = others::backups(&self.context, namespace).await?;
        let mut restores = restores(&self.context.core, &self.context.abandoned, namespace).await?;
        let kind = self.object.kind.as_str();
        restores.retain(|other| other.kind != kind || other.session.name != own.name);
        Ok(match restore_member(&own, on, &backups, &restores) {
            MemberStart::Start => None,
            MemberStart::Wait(reason) => Some(reason.to_string()),
            MemberStart::Refuse(reason) => Some(reason.to_string()),
        })
    }

    /// The other member of this restore that has begun on the same data. It goes on first, also with a server that follows: its workload
    /// may be stopped.
    async fn busy_member(&self, member: usize, on: &TargetVolumes) -> Option<String> {
        let state = self.record.read(|state| state.members.clone()).await;
        let begun = state
            .iter()
            .enumerate()
            .filter(|(number, other)| *number != member && other.total_hosts.is_some() && !other.has_ended());
        let mut shared = begun.filter_map(|(number, other)| {
            let shared = on.shared(&self.on(number, other.claims.clone()))?;
            Some(format!("waiting for member {} of this restore, which has {shared}", number + 1))
        });
        shared.next()
    }

    /// Takes the turn of a member. Returns what it waits for if another session, or another member, has it.
    pub(super) fn take_turn(&self, member: usize, on: &TargetVolumes) -> Option<String> {
        let mut turns = locked(&self.turns);
        if turns.contains_key(&member) {
            return None;
        }
        let Some(turn) = try_take(&self.context.targets, on) else {
            return Some(format!("waiting for another session, which has {}", shown(on)));
        };
        turns.insert(member, turn);
        None
    }
}
