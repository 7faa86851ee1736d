//! [`SessionState`] of a BackupSession: read from its status and written back.

use lifeboat_api::common::Time;
use lifeboat_api::stash::{
    BackupSessionPhase, BackupSessionStatus, BackupTargetStatus, HostBackupPhase, HostBackupStats,
    TargetPhase, TargetRef,
};

use super::{HostState, MemberState, SessionPhase, SessionState, WorkPhase};
use crate::stash::hosts::HostName;

/// Upstream's mark for a member without target.
const EMPTY: &str = "EmptyTarget";
const NOT_APPLICABLE: &str = "na";

impl SessionState {
    /// Reads the status of a BackupSession.
    pub fn of_backup_session(status: &BackupSessionStatus) -> Self {
        Self {
            phase: status.phase.as_ref().map_or(SessionPhase::Pending, session_phase),
            deadline: status.session_deadline.as_ref().map(|time| time.0),
            duration: status.session_duration,
            conditions: status.conditions.clone(),
            members: status.targets.iter().map(member).collect(),
            succeeded_members: status.succeeded_targets,
            retried: status.retried,
            next_retry: status.next_retry.as_ref().map(|time| time.0),
            message: status.message.clone(),
        }
    }

    /// Writes the status of a BackupSession.
    pub fn to_backup_session(&self) -> BackupSessionStatus {
        BackupSessionStatus {
            phase: Some(shown_session_phase(self.phase)),
            message: self.message.clone(),
            session_duration: self.duration,
            session_deadline: self.deadline.map(Time),
            retried: self.retried,
            next_retry: self.next_retry.map(Time),
            targets: self.members.iter().map(shown_member).collect(),
            succeeded_targets: self.succeeded_members,
            conditions: self.conditions.clone(),
        }
    }
}

fn member(status: &BackupTargetStatus) -> MemberState {
    MemberState {
        reference: status.reference.as_ref().and_then(target),
        phase: status.phase.as_ref().map_or(WorkPhase::Pending, |phase| work_phase(phase.as_str())),
        total_hosts: status.total_hosts,
        claims: status.claims.iter().cloned().collect(),
        hosts: status.stats.iter().map(host).collect(),
        conditions: status.conditions.clone(),
        pre_actions: status.pre_backup_actions.clone(),
        post_actions: status.post_backup_actions.clone(),
        standstill: None,
    }
}

fn shown_member(member: &MemberState) -> BackupTargetStatus {
    BackupTargetStatus {
        reference: member.reference.clone(),
        total_hosts: member.total_hosts,
        claims: member.claims.iter().cloned().collect(),
        phase: Some(match member.phase {
            WorkPhase::Pending => TargetPhase::Pending,
            WorkPhase::Running | WorkPhase::Unknown => TargetPhase::Running,
            WorkPhase::Succeeded => TargetPhase::Succeeded,
            WorkPhase::Failed => TargetPhase::Failed,
        }),
        stats: member.hosts.iter().map(shown_host).collect(),
        pre_backup_actions: member.pre_actions.clone(),
        post_backup_actions: member.post_actions.clone(),
        conditions: member.conditions.clone(),
    }
}

fn host(stats: &HostBackupStats) -> HostState {
    HostState {
        name: HostName(stats.hostname.clone().unwrap_or_default()),
        phase: stats.phase.as_ref().map_or(WorkPhase::Pending, |phase| work_phase(phase.as_str())),
        duration: stats.duration,
        error: stats.error.clone(),
        snapshots: stats.snapshots.clone(),
        paths: Vec::new(),
        run: stats.run.clone(),
    }
}

fn shown_host(host: &HostState) -> HostBackupStats {
    HostBackupStats {
        hostname: Some(host.name.0.clone()),
        phase: Some(match host.phase {
            WorkPhase::Pending => HostBackupPhase::Pending,
            WorkPhase::Running | WorkPhase::Unknown => HostBackupPhase::Running,
            WorkPhase::Succeeded => HostBackupPhase::Succeeded,
            WorkPhase::Failed => HostBackupPhase::Failed,
        }),
        snapshots: host.snapshots.clone(),
        duration: host.duration,
        error: host.error.clone(),
        run: host.run.clone(),
    }
}

fn session_phase(phase: &BackupSessionPhase) -> SessionPhase {
    match phase {
        BackupSessionPhase::Pending => SessionPhase::Pending,
        BackupSessionPhase::Skipped => SessionPhase::Skipped,
        BackupSessionPhase::Running => SessionPhase::Running,
        BackupSessionPhase::Succeeded => SessionPhase::Succeeded,
        BackupSessionPhase::Failed => SessionPhase::Failed,
        BackupSessionPhase::Unknown | BackupSessionPhase::Other(_) => SessionPhase::Unknown,
    }
}

/// A BackupSession has no phase Invalid: its invoker has.
fn shown_session_phase(phase: SessionPhase) -> BackupSessionPhase {
    match phase {
        SessionPhase::Pending => BackupSessionPhase::Pending,
        SessionPhase::Skipped => BackupSessionPhase::Skipped,
        SessionPhase::Running => BackupSessionPhase::Running,
        SessionPhase::Succeeded => BackupSessionPhase::Succeeded,
        SessionPhase::Failed | SessionPhase::Invalid => BackupSessionPhase::Failed,
        SessionPhase::Unknown => BackupSessionPhase::Unknown,
    }
}

/// The phase of a member or host by its name, which is the same in all kinds.
pub(super) fn work_phase(phase: &str) -> WorkPhase {
    match phase {
        "Pending" => WorkPhase::Pending,
        "Running" => WorkPhase::Running,
        "Succeeded" => WorkPhase::Succeeded,
        "Failed" => WorkPhase::Failed,
        _ => WorkPhase::Unknown,
    }
}

/// The target, unless it is the mark for none.
pub(super) fn target(reference: &TargetRef) -> Option<TargetRef> {
    (reference.kind != EMPTY).then(|| reference.clone())
}

/// Upstream's mark for a member without target, where a status must have one.
pub fn empty_target() -> TargetRef {
    TargetRef {
        api_version: Some(NOT_APPLICABLE.to_owned()),
        kind: EMPTY.to_owned(),
        name: NOT_APPLICABLE.to_owned(),
        namespace: None,
    }
}
