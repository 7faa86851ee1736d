//! Hooks of backups and restores: whether the hook before or after a host runs, how its templates are rendered, and
//! what is called. Takes the handlers of a spec and the state of a host; gives commands for the API and calls for a
//! mover as plain data.
//!
//! - [`pre_step`], [`post_step`]: the next step of a host's hooks; [`global_post_runs`]: that of a batch.
//! - [`ValidHook::parse`]: a handler with its [`Template`]s, checked; [`ValidHook::action`]: what runs for a [`Summary`].
//!
//! A hook that a server started before it died may have run. It is continued or run again, because the result of a
//! session must not depend on when a server died.

mod call;
mod template;

pub use call::{
    Call, CallBody, CallError, HookAction, HookError, HookPod, HttpCall, Method, PodAddress, ValidHook,
};
pub use template::{InvokerSummary, StatusSummary, Summary, TargetSummary, Template, TemplateError};

use lifeboat_api::stash::{BackupHookPolicy, HookPhase, RestoreHookPolicy};

use super::state::{HostState, SessionState, WorkPhase};

/// When a hook after a host or a session runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostPolicy {
    Always,
    OnSuccess,
    OnFailure,
    /// Failed, and no retry is left.
    OnFinalRetryFailure,
}

/// How the work between the hooks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Succeeded,
    Failed,
}

/// The next step of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookStep {
    /// There is no hook, or it must not run now.
    Nothing,
    /// Record `Started`, then run it.
    Run,
    /// A server started it and died: continue its call if there is one, else run it again.
    Continue,
    /// Record `Skipped`.
    Skip,
    /// It has ended so.
    Ended(HookPhase),
}

impl PostPolicy {
    /// The policy of a backup's hook; None for a value that this version does not know.
    pub fn of_backup(policy: &BackupHookPolicy) -> Option<Self> {
        match policy {
            BackupHookPolicy::Always => Some(Self::Always),
            BackupHookPolicy::OnSuccess => Some(Self::OnSuccess),
            BackupHookPolicy::OnFailure => Some(Self::OnFailure),
            BackupHookPolicy::OnFinalRetryFailure => Some(Self::OnFinalRetryFailure),
            BackupHookPolicy::Other(_) => None,
        }
    }

    /// The policy of a restore's hook; None for a value that this version does not know.
    pub fn of_restore(policy: &RestoreHookPolicy) -> Option<Self> {
        match policy {
            RestoreHookPolicy::Always => Some(Self::Always),
            RestoreHookPolicy::OnSuccess => Some(Self::OnSuccess),
            RestoreHookPolicy::OnFailure => Some(Self::OnFailure),
            RestoreHookPolicy::Other(_) => None,
        }
    }

    /// Whether the hook runs after such an end.
    pub fn runs_after(self, end: End, retry_left: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnSuccess => end == End::Succeeded,
            Self::OnFailure => end == End::Failed,
            Self::OnFinalRetryFailure => end == End::Failed && retry_left <= 0,
        }
    }
}

/// The next step of the hook before a host.
pub fn pre_step(is_configured: bool, host: &HostState) -> HookStep {
    match &host.run.pre_hook {
        None if is_configured => HookStep::Run,
        None => HookStep::Nothing,
        Some(HookPhase::Started) => HookStep::Continue,
        Some(ended) => HookStep::Ended(ended.clone()),
    }
}

/// The next step of the hook after a host. `end`: how the host's work ended; None while it continues. The hook runs
/// whenever the hook before the host was started or, if there is none, whenever the work was started.
pub fn post_step(
    policy: Option<PostPolicy>,
    has_pre_hook: bool,
    host: &HostState,
    end: Option<End>,
    retry_left: i32,
) -> HookStep {
    match &host.run.post_hook {
        Some(HookPhase::Started) => return HookStep::Continue,
        Some(ended) => return HookStep::Ended(ended.clone()),
        None => {}
    }
    let Some(end) = end else { return HookStep::Nothing };
    let pre_began = host.run.pre_hook.is_some();
    let began = if has_pre_hook { pre_began } else { host.run.start_time.is_some() };
    match policy {
        Some(policy) if began && policy.runs_after(end, retry_left) => HookStep::Run,
        // Recorded, so that the host owes nothing.
        Some(_) => HookStep::Skip,
        None if pre_began => HookStep::Skip,
        None => HookStep::Nothing,
    }
}

/// Whether the hook of a batch after its last member runs. All members have ended, or the hook before them failed.
pub fn global_post_runs(policy: PostPolicy, state: &SessionState, pre_failed: bool, retry_left: i32) -> bool {
    let is_well = |phase| matches!(phase, WorkPhase::Succeeded | WorkPhase::Unknown);
    let all_well = state.members.iter().all(|member| is_well(member.current_phase()));
    let end = if all_well && !pre_failed { End::Succeeded } else { End::Failed };
    policy.runs_after(end, retry_left)
}

#[cfg(test)]
mod tests;
