//! The turn of a member on its target: only one session at a time works on a target and on each of its claims, the
//! older one first. Called before a member starts.

use lifeboat_api::stash::InvokerRef;
use lifeboat_control::locked;
use lifeboat_plan::stash::session::{MemberStart, TargetVolumes};
use lifeboat_plan::stash::state::conditions::ConditionType;
use tokio_util::sync::CancellationToken;

use super::PAUSE;
use super::start::Surroundings;
use super::work::{BackupWork, failed};
use crate::sessions::engine::NoHosts;
use crate::sessions::turns::{shown, try_take};

impl BackupWork {
    /// Waits until no other backup and no restore uses the target of a member. The status says what it waits for.
    pub(super) async fn wait_for_turn(
        &self,
        member: usize,
        cancel: &CancellationToken,
    ) -> Result<(), NoHosts> {
        let Some(valid) = self.member(member).filter(|member| member.target.is_some()) else { return Ok(()) };
        if locked(&self.at_work.turns).contains_key(&member) {
            return Ok(());
        }
        let invoker = InvokerRef {
            api_group: None,
            kind: self.invoker.id.kind.clone(),
            name: self.invoker.id.name.clone(),
        };
        loop {
            let (on, start) = if let Some(on) = self.begun_on(member).await {
                (on, MemberStart::Start)
            } else {
                let around = Surroundings::read(&self.context, &self.record, &invoker).await?;
                let target = around.target(&self.context, valid).await?;
                let start = around.member(&self.record, target.as_ref());
                (target.map(|target| target.on).unwrap_or_default(), start)
            };
            let message = match start {
                MemberStart::Refuse(reason) => return Err(NoHosts::Failed(reason.to_string())),
                MemberStart::Wait(reason) => reason.to_string(),
                MemberStart::Start => match try_take(&self.context.targets, &on) {
                    Some(turn) => {
                        locked(&self.at_work.turns).insert(member, turn);
                        return self.note_turn(member, &on, None).await;
                    }
                    None => format!("waiting for another session, which has {}", shown(&on)),
                },
            };
            self.note_turn(member, &on, Some(message)).await?;
            if cancel.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                return Err(failed(
                    "the session was cancelled, or its timeOut passed, while the member waited",
                ));
            }
        }
    }

    /// The data that a started member works on.
    async fn begun_on(&self, member: usize) -> Option<TargetVolumes> {
        let target = self.member(member)?.target.as_ref()?;
        let claims = self.record.read(|state| {
            let member = state.members.get(member)?;
            member.total_hosts.map(|_| member.claims.clone())
        });
        Some(TargetVolumes::new(&target.key.namespace, Some(target.key.clone()), claims.await?))
    }

    /// Shows what a member waits for; None once it has its turn.
    async fn note_turn(
        &self,
        member: usize,
        on: &TargetVolumes,
        message: Option<String>,
    ) -> Result<(), NoHosts> {
        let now = self.record.now();
        let changed = self.record.change(|state| {
            let Some(state) = state.members.get_mut(member) else { return };
            state.claims.clone_from(&on.claims);
            let has_waited = ConditionType::TargetInUse.is_true(&state.conditions);
            match message {
                Some(message) => state.observe(&ConditionType::TargetInUse.yes(message), now),
                None if has_waited => state.observe(&ConditionType::TargetInUse.no(""), now),
                None => {}
            }
        });
        changed.await?;
        Ok(())
    }
}
