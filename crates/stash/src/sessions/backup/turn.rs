//! The turn of a member on its target: only one session at a time works on a target and on each of its claims, the
//! older one first. Called before a session starts, and before each of its members starts.

use lifeboat_api::stash::InvokerRef;
use lifeboat_control::locked;
use lifeboat_plan::stash::session::{MemberStart, TargetVolumes, is_over};
use lifeboat_plan::stash::state::conditions::ConditionType;
use tokio_util::sync::CancellationToken;

use super::start::Surroundings;
use super::work::{BackupWork, failed};
use super::{Advance, PAUSE, finish, written};
use crate::context::Context;
use crate::invokers::Invoker;
use crate::sessions::engine::{NoHosts, Stopped};
use crate::sessions::record::SessionRecord;
use crate::sessions::turns::{shown, try_take};

/// The session stays Pending; its status has its members and what it waits for, until its deadline.
pub(super) async fn wait(
    context: &Context,
    invoker: &Invoker,
    record: &SessionRecord,
    reason: &str,
) -> Result<Advance, Stopped> {
    let now = record.now();
    if record.read(|state| is_over(state.deadline, now)).await {
        let late = ConditionType::DeadlineExceeded.yes(format!("timeOut passed: {reason}"));
        written(record.change(|state| state.observe(&late, now)).await?)?;
        finish::end(context, Some(invoker), record, reason).await?;
        return Ok(Advance::Ended);
    }
    let waits = ConditionType::TargetInUse.yes(reason);
    let changed = record.change(|state| {
        // A member without target would keep the condition, because it never waits for a turn.
        if let Some(first) = state.members.iter_mut().find(|member| member.reference.is_some()) {
            first.observe(&waits, now);
        }
    });
    written(changed.await?)?;
    Ok(Advance::Waits)
}

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
