//! [`SessionState`] of a RestoreSession and of a RestoreBatch: read from the status and written back. A RestoreSession has
//! one member, whose hosts and conditions are at the top of its status.

use lifeboat_api::common::{Condition, Time};
use lifeboat_api::stash::{
    HostRestorePhase, HostRestoreStats, RestoreBatchStatus, RestoreMemberStatus, RestorePhase,
    RestoreSessionStatus, RestoreTargetPhase, StoppedWorkload, TargetRef,
};

use super::conditions::{ConditionType, Level};
use super::of_backup::{empty_target, target, work_phase};
use super::{HostState, MemberState, SessionPhase, SessionState, WorkPhase};
use crate::stash::hosts::HostName;
use crate::stash::in_place::Standstill;

impl SessionState {
    /// Reads the status of a RestoreSession with this target. Conditions of types that are about a member are the member's.
    /// The member's phase is not in the status: it follows from the hosts and conditions.
    pub fn of_restore_session(status: &RestoreSessionStatus, target: Option<TargetRef>) -> Self {
        let (of_member, of_session) = status.conditions.iter().cloned().partition(is_of_member);
        let mut member = MemberState {
            reference: target,
            total_hosts: status.total_hosts,
            claims: status.claims.iter().cloned().collect(),
            hosts: status.stats.iter().map(host).collect(),
            conditions: of_member,
            standstill: status.standstill.as_ref().and_then(read),
            ..MemberState::default()
        };
        member.phase = member.current_phase();
        Self {
            phase: status.phase.as_ref().map_or(SessionPhase::Pending, session_phase),
            deadline: status.session_deadline.as_ref().map(|time| time.0),
            duration: status.session_duration,
            message: status.message.clone(),
            conditions: of_session,
            members: vec![member],
            ..Self::default()
        }
    }

    /// Writes the status of a RestoreSession: the hosts of its member at the top, its conditions after those of the session.
    pub fn to_restore_session(&self) -> RestoreSessionStatus {
        let member = self.members.first();
        let of_member = member.map(|member| member.conditions.as_slice()).unwrap_or_default();
        RestoreSessionStatus {
            phase: Some(shown_session_phase(self.phase)),
            message: self.message.clone(),
            total_hosts: member.and_then(|member| member.total_hosts),
            claims: member.map(|member| member.claims.iter().cloned().collect()).unwrap_or_default(),
            session_duration: self.duration,
            session_deadline: self.deadline.map(Time),
            stats: member.map(|member| member.hosts.iter().map(shown_host).collect()).unwrap_or_default(),
            standstill: member.and_then(|member| member.standstill.as_ref()).and_then(shown),
            conditions: self.conditions.iter().chain(of_member).cloned().collect(),
        }
    }

    /// Reads the status of a RestoreBatch.
    pub fn of_restore_batch(status: &RestoreBatchStatus) -> Self {
        Self {
            phase: status.phase.as_ref().map_or(SessionPhase::Pending, session_phase),
            deadline: status.session_deadline.as_ref().map(|time| time.0),
            duration: status.session_duration,
            message: status.message.clone(),
            conditions: status.conditions.clone(),
            members: status.members.iter().map(member).collect(),
            ..Self::default()
        }
    }

    /// Writes the status of a RestoreBatch.
    pub fn to_restore_batch(&self) -> RestoreBatchStatus {
        RestoreBatchStatus {
            phase: Some(shown_session_phase(self.phase)),
            message: self.message.clone(),
            session_duration: self.duration,
            session_deadline: self.deadline.map(Time),
            conditions: self.conditions.clone(),
            members: self.members.iter().map(shown_member).collect(),
        }
    }
}

fn is_of_member(condition: &Condition) -> bool {
    ConditionType::named(&condition.type_).is_some_and(|kind| kind.level() == Level::Member)
}

fn member(status: &RestoreMemberStatus) -> MemberState {
    MemberState {
        reference: target(&status.reference),
        phase: status.phase.as_ref().map_or(WorkPhase::Pending, |phase| work_phase(phase.as_str())),
        total_hosts: status.total_hosts,
        claims: status.claims.iter().cloned().collect(),
        hosts: status.stats.iter().map(host).collect(),
        conditions: status.conditions.clone(),
        standstill: status.standstill.as_ref().and_then(read),
        ..MemberState::default()
    }
}

fn shown_member(member: &MemberState) -> RestoreMemberStatus {
    RestoreMemberStatus {
        reference: member.reference.clone().unwrap_or_else(empty_target),
        conditions: member.conditions.clone(),
        total_hosts: member.total_hosts,
        claims: member.claims.iter().cloned().collect(),
        phase: Some(match member.phase {
            WorkPhase::Pending => RestoreTargetPhase::Pending,
            WorkPhase::Running => RestoreTargetPhase::Running,
            WorkPhase::Succeeded => RestoreTargetPhase::Succeeded,
            WorkPhase::Failed => RestoreTargetPhase::Failed,
            WorkPhase::Unknown => RestoreTargetPhase::Unknown,
        }),
        stats: member.hosts.iter().map(shown_host).collect(),
        standstill: member.standstill.as_ref().and_then(shown),
    }
}

/// The record of a stopped workload. The status and the record have the same fields; None for a step of another version.
fn read(status: &StoppedWorkload) -> Option<Standstill> {
    serde_json::from_value(serde_json::to_value(status).ok()?).ok()
}

fn shown(record: &Standstill) -> Option<StoppedWorkload> {
    serde_json::from_value(serde_json::to_value(record).ok()?).ok()
}

fn host(stats: &HostRestoreStats) -> HostState {
    HostState {
        name: HostName(stats.hostname.clone().unwrap_or_default()),
        phase: stats.phase.as_ref().map_or(WorkPhase::Pending, |phase| work_phase(phase.as_str())),
        duration: stats.duration,
        error: stats.error.clone(),
        snapshots: stats.safety_copies.clone(),
        paths: stats.paths.clone(),
        run: stats.run.clone(),
    }
}

fn shown_host(host: &HostState) -> HostRestoreStats {
    HostRestoreStats {
        hostname: Some(host.name.0.clone()),
        phase: Some(match host.phase {
            WorkPhase::Pending => HostRestorePhase::Pending,
            WorkPhase::Running => HostRestorePhase::Running,
            WorkPhase::Succeeded => HostRestorePhase::Succeeded,
            WorkPhase::Failed => HostRestorePhase::Failed,
            WorkPhase::Unknown => HostRestorePhase::Unknown,
        }),
        duration: host.duration,
        error: host.error.clone(),
        paths: host.paths.clone(),
        safety_copies: host.snapshots.clone(),
        run: host.run.clone(),
    }
}

fn session_phase(phase: &RestorePhase) -> SessionPhase {
    match phase {
        RestorePhase::Pending => SessionPhase::Pending,
        RestorePhase::Running => SessionPhase::Running,
        RestorePhase::Succeeded => SessionPhase::Succeeded,
        RestorePhase::Failed => SessionPhase::Failed,
        RestorePhase::Invalid => SessionPhase::Invalid,
        RestorePhase::Unknown | RestorePhase::Other(_) => SessionPhase::Unknown,
    }
}

/// A restore has no phase Skipped: what it waits for makes it Pending.
fn shown_session_phase(phase: SessionPhase) -> RestorePhase {
    match phase {
        SessionPhase::Pending => RestorePhase::Pending,
        SessionPhase::Running => RestorePhase::Running,
        SessionPhase::Succeeded => RestorePhase::Succeeded,
        SessionPhase::Failed | SessionPhase::Skipped => RestorePhase::Failed,
        SessionPhase::Invalid => RestorePhase::Invalid,
        SessionPhase::Unknown => RestorePhase::Unknown,
    }
}
