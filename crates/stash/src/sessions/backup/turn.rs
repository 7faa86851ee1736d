//! The turn of a member on its target: one session at a time works on a target, the older first. Called before a member begins.

use lifeboat_api::stash::InvokerRef;
use lifeboat_control::locked;
use lifeboat_plan::stash::session::MemberStart;
use lifeboat_plan::stash::state::conditions::ConditionType;
use tokio_util::sync::CancellationToken;

use super::PAUSE;
use super::start::Surroundings;
use super::work::{BackupWork, failed};
use crate::sessions::engine::NoHosts;

impl BackupWork {
    /// Waits until the target of a member is free: of another backup, and of restores. The status says what it waits for.
    pub(super) async fn wait_for_turn(
        &self,
        member: usize,
        cancel: &CancellationToken,
    ) -> Result<(), NoHosts> {
        let target = self.member(member).and_then(|member| member.target.as_ref()).map(|target| &target.key);
        let Some(target) = target else { return Ok(()) };
        if locked(&self.at_work.turns).contains_key(&member) {
            return Ok(());
        }
        let has_begun = self
            .record
            .read(|state| state.members.get(member).is_some_and(|member| member.total_hosts.is_some()))
            .await;
        let invoker = InvokerRef {
            api_group: None,
            kind: self.invoker.id.kind.clone(),
            name: self.invoker.id.name.clone(),
        };
        loop {
            let start = if has_begun {
                MemberStart::Start
            } else {
                let around = Surroundings::read(&self.context, &self.record, &invoker).await?;
                around.member(&self.record, Some(target))
            };
            let message = match start {
                MemberStart::Refuse(reason) => return Err(NoHosts::Failed(reason.to_string())),
                MemberStart::Wait(reason) => reason.to_string(),
                MemberStart::Start => match self.context.targets.try_take(target.to_string()) {
                    Some(turn) => {
                        locked(&self.at_work.turns).insert(member, turn);
                        return self.note_turn(member, None).await;
                    }
                    None => format!("waiting for another session, which has {target}"),
                },
            };
            self.note_turn(member, Some(message)).await?;
            if cancel.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                return Err(failed(
                    "the session was cancelled, or its timeOut passed, while the member waited",
                ));
            }
        }
    }

    /// Shows what a member waits for; None once it has its turn.
    async fn note_turn(&self, member: usize, message: Option<String>) -> Result<(), NoHosts> {
        let now = self.record.now();
        let changed = self.record.change(|state| {
            let Some(state) = state.members.get_mut(member) else { return };
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
