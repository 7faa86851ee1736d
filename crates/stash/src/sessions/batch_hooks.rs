//! The hooks of a whole batch: one before its first member, one after its last. They have no pod, so they are calls that movers make.
//! Their record is a condition of the session: Unknown from before the call until its end is known. Called by the controllers of
//! sessions.

use std::collections::BTreeMap;

use lifeboat_plan::stash::hooks::{
    InvokerSummary, StatusSummary, Summary, TargetSummary, ValidHook, global_post_runs,
};
use lifeboat_plan::stash::invoker::MemberHooks;
use lifeboat_plan::stash::state::conditions::{ConditionType, Truth};
use lifeboat_plan::stash::state::{MemberState, SessionState, WorkPhase};
use tokio_util::sync::CancellationToken;

use super::engine::Stopped;
use super::finalizer::{self, Hold};
use super::hooks::retries::until_begun;
use super::hooks::{self, HookRun};
use super::host_hooks::has_run;
use super::kind::SessionKind;
use super::record::SessionRecord;
use super::tasks::{HookMark, HookTasks};
use crate::context::Context;
use crate::patience::patiently;

/// The conditions that show the hooks of a batch, or those of the hosts of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookConditions {
    pub(crate) pre: ConditionType,
    pub(crate) post: ConditionType,
}

/// The hooks of the hosts of a backup.
pub(crate) const OF_BACKUP_HOSTS: HookConditions = HookConditions {
    pre: ConditionType::PreBackupHookExecutionSucceeded,
    post: ConditionType::PostBackupHookExecutionSucceeded,
};

/// The hooks of the hosts of a restore.
pub(crate) const OF_RESTORE_HOSTS: HookConditions = HookConditions {
    pre: ConditionType::PreRestoreHookExecutionSucceeded,
    post: ConditionType::PostRestoreHookExecutionSucceeded,
};

/// The hooks of a BackupBatch.
pub(crate) const OF_BACKUP: HookConditions = HookConditions {
    pre: ConditionType::GlobalPreBackupHookSucceeded,
    post: ConditionType::GlobalPostBackupHookSucceeded,
};

/// The hooks of a RestoreBatch.
pub(crate) const OF_RESTORE: HookConditions = HookConditions {
    pre: ConditionType::GlobalPreRestoreHookSucceeded,
    post: ConditionType::GlobalPostRestoreHookSucceeded,
};

/// The hooks of one run of a batch.
pub(crate) struct BatchHooks<'a> {
    pub(crate) context: &'a Context,
    pub(crate) kind: SessionKind,
    pub(crate) record: &'a SessionRecord,
    pub(crate) hooks: &'a MemberHooks,
    pub(crate) conditions: HookConditions,
    pub(crate) invoker: InvokerSummary,
    /// The annotations of the batch.
    pub(crate) annotations: &'a BTreeMap<String, String>,
    pub(crate) retry_left: i32,
}

impl BatchHooks<'_> {
    /// Runs the hook before all members, unless it has ended. False if it failed: then no member runs. A session that is
    /// given up before its hook has started starts no hook, and its members say that they have not begun.
    pub(crate) async fn before(&self, cancel: &CancellationToken) -> Result<bool, Stopped> {
        let Some(hook) = &self.hooks.pre else { return Ok(true) };
        match self.status_of(self.conditions.pre).await {
            Some(Truth::True) => Ok(true),
            Some(Truth::False) => Ok(false),
            None if cancel.is_cancelled() => Ok(true),
            // A hook that started before a crash is continued, or run again.
            Some(Truth::Unknown) | None => {
                if let Some(why) = self.not_held(cancel).await? {
                    self.observe(self.conditions.pre, Truth::False, &why).await?;
                    return Ok(false);
                }
                self.run(hook, HookMark::Pre, self.conditions.pre, cancel).await
            }
        }
    }

    /// Runs the hook after all members according to its policy, unless it has ended. It must run whenever the hook
    /// before all members was started.
    pub(crate) async fn after(&self) -> Result<(), Stopped> {
        let Some((hook, policy)) = &self.hooks.post else { return Ok(()) };
        let (pre, post) = (self.conditions.pre, self.conditions.post);
        let has_ended = matches!(self.status_of(post).await, Some(Truth::True | Truth::False));
        let has_begun = self.hooks.pre.is_none() || self.status_of(pre).await.is_some();
        let pre_failed = self.status_of(pre).await == Some(Truth::False);
        let state = self.record.state().await;
        if has_ended || !has_begun || !global_post_runs(*policy, &state, pre_failed, self.retry_left) {
            return Ok(());
        }
        // It reverts what the hook before all members did, so only its own time limit cancels it, not the session's
        // deadline.
        self.run(hook, HookMark::Post, post, &CancellationToken::new()).await.map(drop)
    }

    /// Keeps the object of the session for the hook after all members. Returns the reason why that is not possible, if there is one: then no
    /// hook is started.
    async fn not_held(&self, cancel: &CancellationToken) -> Result<Option<String>, Stopped> {
        let hold = || finalizer::hold(&self.context.core, self.kind, self.record, Hold::Hooks);
        Ok(patiently(cancel, hold).await?.err().map(|why| why.to_string()))
    }

    async fn status_of(&self, kind: ConditionType) -> Option<Truth> {
        self.record.read(|state| kind.status_in(&state.conditions)).await
    }

    async fn run(
        &self,
        hook: &ValidHook,
        mark: HookMark,
        kind: ConditionType,
        cancel: &CancellationToken,
    ) -> Result<bool, Stopped> {
        self.observe(kind, Truth::Unknown, "the hook was started").await?;
        let summary = self.summary(&self.record.state().await);
        let run = HookRun {
            hook,
            summary: &summary,
            pod: None,
            owner: self.record.owner(),
            tasks: HookTasks::of_batch(&self.record.uid, mark),
            namespace: &self.record.namespace,
            annotations: self.annotations,
        };
        match has_run(until_begun(cancel, self.record, || hooks::run(self.context, &run, cancel)).await)? {
            Ok(()) => self.observe(kind, Truth::True, "").await.map(|()| true),
            Err(failure) => self.observe(kind, Truth::False, &failure.to_string()).await.map(|()| false),
        }
    }

    async fn observe(&self, kind: ConditionType, truth: Truth, message: &str) -> Result<(), Stopped> {
        let (now, observed) = (self.record.now(), kind.observed(truth, message));
        let written = self.record.change(|state| state.observe(&observed, now)).await?;
        if written { Ok(()) } else { Err(Stopped::Gone) }
    }

    /// The values for the templates of a hook. A batch has no target of its own.
    fn summary(&self, state: &SessionState) -> Summary {
        let failed = state.members.iter().filter(|member| member.current_phase() == WorkPhase::Failed);
        let errors = failed.flat_map(|member| member.hosts.iter().filter_map(|host| host.error.clone()));
        let error = errors.collect::<Vec<_>>().join("; ");
        let all_ended = state.members.iter().all(MemberState::has_ended);
        let any = |phase| state.members.iter().any(|member| member.current_phase() == phase);
        let phase = match (all_ended, any(WorkPhase::Failed), any(WorkPhase::Unknown)) {
            (false, ..) => "Running",
            (true, true, _) => "Failed",
            (true, false, true) => "Unknown",
            (true, false, false) => "Succeeded",
        };
        Summary {
            name: self.record.name.clone(),
            namespace: self.record.namespace.clone(),
            invoker: self.invoker.clone(),
            target: TargetSummary::default(),
            status: StatusSummary { phase: phase.to_owned(), duration: String::new(), error },
            retry_left: self.retry_left,
        }
    }
}
