//! The phase of a member, from its hosts and conditions, and the phase of a session, from its members and conditions.
//!
//! As in upstream, with these differences. If retention, check, history or metrics fail, that is a warning, and a
//! session whose data is stored does not become Failed. A member is Failed only when none of its hosts is being
//! processed any more. A member without any host is Failed, because nothing was stored or restored. A member whose
//! last steps are not done (condition `RestoreCompleted` is False, and not because the restore failed) is Running, however its hosts ended, because its
//! workload may have to be started.

use jiff::Timestamp;
use lifeboat_api::common::Condition;

use super::conditions::ConditionType::{
    self, BackendRepositoryInitialized, BackupDisrupted, BackupExecutorEnsured, BackupSkipped,
    DeadlineExceeded, GlobalPostBackupHookSucceeded, GlobalPostRestoreHookSucceeded,
    GlobalPreBackupHookSucceeded, GlobalPreRestoreHookSucceeded, MetricsPushed,
    PostBackupHookExecutionSucceeded, PostRestoreHookExecutionSucceeded, PreBackupHookExecutionSucceeded,
    PreRestoreHookExecutionSucceeded, RestoreExecutorEnsured, ValidationPassed,
};
use super::conditions::Observation;
use super::{HostState, MemberState, SessionPhase, SessionState, WorkPhase};

/// Hooks of hosts: one that failed makes its member Failed.
const HOST_HOOKS: [ConditionType; 4] = [
    PreBackupHookExecutionSucceeded,
    PostBackupHookExecutionSucceeded,
    PreRestoreHookExecutionSucceeded,
    PostRestoreHookExecutionSucceeded,
];

/// Steps of the session that make it Failed if they are False.
const NEEDED: [ConditionType; 5] = [
    BackendRepositoryInitialized,
    GlobalPreBackupHookSucceeded,
    GlobalPostBackupHookSucceeded,
    GlobalPreRestoreHookSucceeded,
    GlobalPostRestoreHookSucceeded,
];

impl MemberState {
    /// The phase that follows from the member's hosts and conditions.
    pub fn current_phase(&self) -> WorkPhase {
        let is_false = |kind: ConditionType| kind.is_false(&self.conditions);
        if self.hosts.iter().any(HostState::is_at_work) || ConditionType::is_restore_open(&self.conditions) {
            return WorkPhase::Running;
        }
        if is_false(BackupExecutorEnsured)
            || is_false(RestoreExecutorEnsured)
            || BackupDisrupted.is_true(&self.conditions)
        {
            return WorkPhase::Failed;
        }
        let Some(total) = self.total_hosts else { return WorkPhase::Pending };
        let ended = self.hosts.iter().filter(|host| host.phase.has_ended()).count();
        if ended < usize::try_from(total).unwrap_or(0) || ended < self.hosts.len() {
            return WorkPhase::Running;
        }
        self.end_phase()
    }

    /// Shows that all steps of a restore's member were done.
    pub fn complete_restore(&mut self, now: Timestamp) {
        let completed = ConditionType::RestoreCompleted.yes("");
        self.observe(&completed, now);
        if self.current_phase() == WorkPhase::Failed {
            self.observe(&Observation::restore_failed(), now);
        }
    }

    /// The phase when every host has ended.
    fn end_phase(&self) -> WorkPhase {
        let any = |phase: WorkPhase| self.hosts.iter().any(|host| host.phase == phase);
        let hook_failed = HOST_HOOKS.iter().any(|hook| hook.is_false(&self.conditions));
        if self.hosts.is_empty() || any(WorkPhase::Failed) || hook_failed {
            WorkPhase::Failed
        } else if any(WorkPhase::Unknown) {
            WorkPhase::Unknown
        } else {
            WorkPhase::Succeeded
        }
    }
}

impl HostState {
    /// Whether its mover or its hooks may be running.
    pub fn is_at_work(&self) -> bool {
        self.phase == WorkPhase::Running || self.owes_post_hook()
    }
}

impl SessionState {
    /// Writes the phases of the members and of the session that follow from hosts and conditions, and cuts long texts. A
    /// session that has ended does not change, and one that has started does not become Pending again.
    pub fn settle(&mut self) {
        if self.phase.has_ended() {
            return;
        }
        for member in &mut self.members {
            member.hosts.iter_mut().for_each(HostState::cut_texts);
            member.phase = member.current_phase();
        }
        let phase = self.current_phase();
        let went_back = self.phase == SessionPhase::Running && phase == SessionPhase::Pending;
        if !went_back {
            self.phase = phase;
        }
        match self.cause() {
            Some(cause) => self.message = Some(cause),
            // A session that fails as a whole keeps the message with which it was ended.
            None if self.phase == SessionPhase::Failed => {}
            None => self.message = None,
        }
    }

    /// Whether the last step was done.
    pub fn is_complete(&self) -> bool {
        MetricsPushed.status_in(&self.conditions).is_some()
    }

    /// The phase that follows from the members' phases and the conditions.
    pub fn current_phase(&self) -> SessionPhase {
        if BackupSkipped.is_true(&self.conditions) {
            return SessionPhase::Skipped;
        }
        if ValidationPassed.is_false(&self.conditions) {
            return SessionPhase::Invalid;
        }
        if self.is_complete() {
            return self.end_phase();
        }
        let waits = self.members.iter().all(|member| member.phase == WorkPhase::Pending);
        if waits && !has_begun(&self.conditions) { SessionPhase::Pending } else { SessionPhase::Running }
    }

    /// The phase after the last step. A member that has not ended by then never ran: the session is not a success.
    fn end_phase(&self) -> SessionPhase {
        let failed = self.members.is_empty()
            || DeadlineExceeded.is_true(&self.conditions)
            || NEEDED.iter().any(|step| step.is_false(&self.conditions))
            || self.members.iter().any(|member| member.phase == WorkPhase::Failed)
            || self.members.iter().any(|member| !member.phase.has_ended());
        if failed {
            SessionPhase::Failed
        } else if self.members.iter().any(|member| member.phase == WorkPhase::Unknown) {
            SessionPhase::Unknown
        } else {
            SessionPhase::Succeeded
        }
    }
}

/// Whether a step of the session as a whole was taken or decided.
fn has_begun(conditions: &[Condition]) -> bool {
    NEEDED.iter().chain([&DeadlineExceeded]).any(|step| step.status_in(conditions).is_some())
}
