//! One sentence about a session for `kubectl get` and for events: what it waits for, or why it was skipped or failed. Takes
//! the state; called when the state is settled.

use lifeboat_api::common::Condition;

use super::conditions::ConditionType::{
    self, BackendRepositoryInitialized, BackendSecretFound, BackupDisrupted, BackupExecutorEnsured,
    BackupSkipped, DeadlineExceeded, GlobalPostBackupHookSucceeded, GlobalPostRestoreHookSucceeded,
    GlobalPreBackupHookSucceeded, GlobalPreRestoreHookSucceeded, Interrupted,
    PostBackupHookExecutionSucceeded, PostRestoreHookExecutionSucceeded, PreBackupHookExecutionSucceeded,
    PreRestoreHookExecutionSucceeded, RepositoryFound, RestoreExecutorEnsured, RestoreJobCreated,
    RestoreTargetFound, TargetInUse, ValidationPassed,
};
use super::conditions::{Truth, bounded};
use super::{MemberState, SessionPhase, SessionState, WorkPhase};

/// The most bytes of a session's message: it is a column of a table.
const LONGEST: usize = 256;

/// Conditions of a session that make it fail, and the status that does.
const OF_SESSION: [(ConditionType, Truth); 8] = [
    (ValidationPassed, Truth::False),
    (BackendRepositoryInitialized, Truth::False),
    (GlobalPreBackupHookSucceeded, Truth::False),
    (GlobalPreRestoreHookSucceeded, Truth::False),
    (Interrupted, Truth::True),
    (DeadlineExceeded, Truth::True),
    (GlobalPostBackupHookSucceeded, Truth::False),
    (GlobalPostRestoreHookSucceeded, Truth::False),
];

/// Conditions of a member that make it fail.
const OF_MEMBER: [(ConditionType, Truth); 7] = [
    (BackupExecutorEnsured, Truth::False),
    (RestoreExecutorEnsured, Truth::False),
    (BackupDisrupted, Truth::True),
    (PreBackupHookExecutionSucceeded, Truth::False),
    (PreRestoreHookExecutionSucceeded, Truth::False),
    (PostBackupHookExecutionSucceeded, Truth::False),
    (PostRestoreHookExecutionSucceeded, Truth::False),
];

impl SessionState {
    /// What the session waits for, or why it did not succeed; None if its state says nothing about that.
    pub(super) fn cause(&self) -> Option<String> {
        let causes = match self.phase {
            SessionPhase::Succeeded => Vec::new(),
            SessionPhase::Skipped => said(&self.conditions, BackupSkipped, Truth::True).into_iter().collect(),
            SessionPhase::Failed | SessionPhase::Invalid => self.failures(),
            SessionPhase::Pending | SessionPhase::Running | SessionPhase::Unknown => self.waits(),
        };
        let more = causes.len().saturating_sub(1);
        let first = causes.into_iter().next()?;
        Some(if more == 0 {
            bounded(first, LONGEST)
        } else {
            format!("{} (and {more} more)", bounded(first, LONGEST))
        })
    }

    fn failures(&self) -> Vec<String> {
        let of_session = OF_SESSION.iter().filter_map(|(kind, truth)| said(&self.conditions, *kind, *truth));
        let mut causes: Vec<String> = of_session.collect();
        for member in &self.members {
            causes.extend(member.failures().into_iter().map(|cause| self.of(member, &cause)));
        }
        causes
    }

    /// What is missing, or what its members and hosts wait for.
    fn waits(&self) -> Vec<String> {
        let is_missing = |kind: &ConditionType| {
            [Truth::False, Truth::Unknown].into_iter().find_map(|truth| said(&self.conditions, *kind, truth))
        };
        let mut causes: Vec<String> = said(&self.conditions, Interrupted, Truth::True).into_iter().collect();
        if self.phase == SessionPhase::Pending {
            causes.extend(
                [RepositoryFound, BackendSecretFound, ValidationPassed].iter().filter_map(is_missing),
            );
        }
        for member in &self.members {
            causes.extend(member.waits().into_iter().map(|cause| self.of(member, &cause)));
        }
        causes
    }

    /// A cause with the target that it is about, where the session has several.
    fn of(&self, member: &MemberState, cause: &str) -> String {
        match &member.reference {
            Some(target) if self.members.len() > 1 => format!("{} {}: {cause}", target.kind, target.name),
            _ => cause.to_owned(),
        }
    }
}

impl MemberState {
    fn failures(&self) -> Vec<String> {
        let failed = self.hosts.iter().filter(|host| host.phase == WorkPhase::Failed);
        let mut causes: Vec<String> = failed
            .map(|host| format!("host {}: {}", host.name, host.error.as_deref().unwrap_or("it failed")))
            .collect();
        causes.extend(OF_MEMBER.iter().filter_map(|(kind, truth)| said(&self.conditions, *kind, *truth)));
        causes
    }

    fn waits(&self) -> Vec<String> {
        if self.total_hosts.is_none() && !self.has_ended() {
            let missing = [RestoreTargetFound, RestoreJobCreated];
            let missing = missing.iter().find_map(|kind| said(&self.conditions, *kind, Truth::False));
            return missing
                .or_else(|| said(&self.conditions, TargetInUse, Truth::True))
                .into_iter()
                .collect();
        }
        let open = self.hosts.iter().filter(|host| host.phase != WorkPhase::Succeeded);
        open.filter_map(|host| {
            let text = host.error.as_ref().or(host.run.message.as_ref())?;
            Some(format!("host {}: {text}", host.name))
        })
        .collect()
    }
}

/// The message of a condition if it has this status.
pub(super) fn said(conditions: &[Condition], kind: ConditionType, truth: Truth) -> Option<String> {
    let known = conditions.iter().find(|known| known.type_ == kind.name())?;
    (known.status == truth.as_str() && !known.message.is_empty()).then(|| known.message.clone())
}
