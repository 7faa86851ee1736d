//! Whether a session starts, waits or is skipped, and whether a member of it may begin on its target.
//!
//! One target has one session at work at a time. Sessions wait only for those that are running, which end by themselves,
//! and for older ones of their own kind, so that no two wait for each other.

mod reasons;

pub use reasons::{SkipReason, WaitReason};

use jiff::Timestamp;
use lifeboat_api::stash::InvokerPhase;

use super::order::Order;
use super::target::TargetKey;
use crate::stash::state::{SessionPhase, WorkPhase};

/// Annotation of a RestoreSession or RestoreBatch that failed: a person has allowed backups of its targets since.
pub const RESUMED: &str = "lifeboat.io/backups-resumed";

/// A session as others see it; the older one comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    pub created: Timestamp,
    pub namespace: String,
    pub name: String,
}

/// A backup that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBackup {
    pub session: SessionKey,
    pub phase: SessionPhase,
    pub targets: Vec<OtherTarget>,
}

/// A member of another backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherTarget {
    pub target: TargetKey,
    pub phase: WorkPhase,
}

/// A restore of one target: a RestoreSession, or one member of a RestoreBatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRestore {
    pub session: SessionKey,
    /// RestoreSession or RestoreBatch.
    pub kind: &'static str,
    pub target: TargetKey,
    pub progress: RestoreProgress,
}

/// How far a restore of a target has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreProgress {
    /// Something that it needs is missing.
    Waiting,
    /// It waits only for other sessions on its target.
    Queued,
    Running,
    Succeeded {
        ended: Timestamp,
    },
    /// `resumed`: a person has allowed backups of the target since, by `lifeboat stash resume`.
    Failed {
        ended: Timestamp,
        resumed: bool,
    },
}

/// What is known when a backup is about to start.
#[derive(Clone, Debug)]
pub struct BackupFacts<'a> {
    pub session: &'a SessionKey,
    /// Made by a person, and not by the schedule or a retry.
    pub by_hand: bool,
    /// None if the invoker does not exist.
    pub invoker: Option<InvokerFacts>,
    pub order: Order,
    /// The targets of its members, in their order. None for a member without target.
    pub targets: &'a [Option<TargetKey>],
    /// Sessions of the same invoker that have not ended.
    pub siblings: &'a [OtherBackup],
    /// Sessions of other invokers that have not ended.
    pub others: &'a [OtherBackup],
    /// Restores of any of the targets, also those that have ended.
    pub restores: &'a [OtherRestore],
}

/// The invoker of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvokerFacts {
    pub phase: Option<InvokerPhase>,
    pub paused: bool,
    /// Why it is not Ready, from its conditions.
    pub message: String,
}

/// What a new session does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStart {
    Start,
    /// It stays Pending.
    Wait(WaitReason),
    Skip(SkipReason),
}

/// What a member does that has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberStart {
    Start,
    Wait(WaitReason),
    /// It is Failed without having begun: a restore of its target failed after the session had started.
    Refuse(SkipReason),
}

/// Decides about a BackupSession that has not begun.
pub fn start_backup(facts: &BackupFacts<'_>) -> SessionStart {
    if let Some(reason) = skip_reason(facts) {
        return SessionStart::Skip(reason);
    }
    let waits = |target: &Option<TargetKey>| match backup_member(
        facts.session,
        target.as_ref(),
        facts.others,
        facts.restores,
    ) {
        MemberStart::Wait(reason) => Some(reason),
        MemberStart::Start | MemberStart::Refuse(_) => None,
    };
    let first = match facts.order {
        Order::Parallel => facts.targets.len(),
        Order::Sequential => 1,
    };
    let reasons: Option<Vec<WaitReason>> = facts.targets.iter().take(first).map(waits).collect();
    match reasons.and_then(|reasons| reasons.into_iter().next()) {
        Some(reason) => SessionStart::Wait(reason),
        None => SessionStart::Start,
    }
}

fn skip_reason(facts: &BackupFacts<'_>) -> Option<SkipReason> {
    let Some(invoker) = &facts.invoker else { return Some(SkipReason::NoInvoker) };
    if invoker.phase != Some(InvokerPhase::Ready) {
        let phase =
            invoker.phase.as_ref().map_or_else(|| "not validated yet".to_owned(), ToString::to_string);
        return Some(SkipReason::NotReady { phase, message: invoker.message.clone() });
    }
    if invoker.paused && !facts.by_hand {
        return Some(SkipReason::Paused);
    }
    let busy = facts.siblings.iter().find(|other| {
        other.phase == SessionPhase::Running || (!other.phase.has_ended() && other.session < *facts.session)
    });
    if let Some(other) = busy {
        return Some(SkipReason::SameInvoker { session: other.session.name.clone() });
    }
    let mut targets = facts.targets.iter().flatten();
    targets.find_map(|target| restore_reason(facts.session, target, facts.restores))
}

/// Why a backup must not read a target: a restore of it is at work or is next, or the last one failed.
fn restore_reason(session: &SessionKey, target: &TargetKey, restores: &[OtherRestore]) -> Option<SkipReason> {
    let of_target = || restores.iter().filter(|restore| restore.target == *target);
    let at_work = of_target().find(|restore| is_ahead(restore, session));
    if let Some(restore) = at_work {
        return Some(SkipReason::Restore { restore: shown(restore), target: target.clone() });
    }
    failed_restore(target, restores)
        .map(|restore| SkipReason::RestoreFailed { restore: shown(restore), target: target.clone() })
}

/// Whether a backup comes after a restore: one that runs, or an older one that only waits for its turn.
fn is_ahead(restore: &OtherRestore, backup: &SessionKey) -> bool {
    match restore.progress {
        RestoreProgress::Running => true,
        RestoreProgress::Queued => restore.session < *backup,
        _ => false,
    }
}

/// The last restore of a target that has ended, if it failed and no person has allowed backups since.
fn failed_restore<'a>(target: &TargetKey, restores: &'a [OtherRestore]) -> Option<&'a OtherRestore> {
    let ended = |restore: &OtherRestore| match restore.progress {
        RestoreProgress::Succeeded { ended } | RestoreProgress::Failed { ended, .. } => Some(ended),
        _ => None,
    };
    let of_target = restores.iter().filter(|restore| restore.target == *target);
    let last = of_target
        .filter_map(|restore| Some((ended(restore)?, restore)))
        .max_by(|one, other| (one.0, &one.1.session).cmp(&(other.0, &other.1.session)));
    let (_, restore) = last?;
    matches!(restore.progress, RestoreProgress::Failed { resumed: false, .. }).then_some(restore)
}

/// Decides about a member of a backup. `others`: backups of other invokers that have not ended.
pub fn backup_member(
    session: &SessionKey,
    target: Option<&TargetKey>,
    others: &[OtherBackup],
    restores: &[OtherRestore],
) -> MemberStart {
    let Some(target) = target else { return MemberStart::Start };
    let of_target = || restores.iter().filter(|restore| restore.target == *target);
    if let Some(restore) = of_target().find(|restore| is_ahead(restore, session)) {
        return MemberStart::Wait(WaitReason::Restore { restore: shown(restore), target: target.clone() });
    }
    if let Some(restore) = failed_restore(target, restores) {
        return MemberStart::Refuse(SkipReason::RestoreFailed {
            restore: shown(restore),
            target: target.clone(),
        });
    }
    let ahead = others.iter().find(|other| {
        at(other, target).any(|phase| {
            phase == WorkPhase::Running || (phase == WorkPhase::Pending && other.session < *session)
        })
    });
    match ahead {
        Some(other) => MemberStart::Wait(WaitReason::Backup {
            session: format!("{}/{}", other.session.namespace, other.session.name),
            target: target.clone(),
        }),
        None => MemberStart::Start,
    }
}

/// Decides about a member of a restore that has all that it needs. `backups`: all that have not ended. `restores`: of other
/// RestoreSessions and RestoreBatches.
pub fn restore_member(
    session: &SessionKey,
    target: Option<&TargetKey>,
    backups: &[OtherBackup],
    restores: &[OtherRestore],
) -> MemberStart {
    let Some(target) = target else { return MemberStart::Start };
    let running = backups.iter().find(|other| at(other, target).any(|phase| phase == WorkPhase::Running));
    if let Some(other) = running {
        return MemberStart::Wait(WaitReason::Backup {
            session: format!("{}/{}", other.session.namespace, other.session.name),
            target: target.clone(),
        });
    }
    let ahead = restores.iter().find(|restore| restore.target == *target && is_ahead(restore, session));
    match ahead {
        Some(restore) => {
            MemberStart::Wait(WaitReason::Restore { restore: shown(restore), target: target.clone() })
        }
        None => MemberStart::Start,
    }
}

/// The phases of a backup's members on a target. Members of a session that has ended are over.
fn at<'a>(other: &'a OtherBackup, target: &'a TargetKey) -> impl Iterator<Item = WorkPhase> + 'a {
    let members = other.targets.iter().filter(|member| member.target == *target);
    members.filter(|_| !other.phase.has_ended()).map(|member| member.phase)
}

fn shown(restore: &OtherRestore) -> String {
    format!("{} {}/{}", restore.kind, restore.session.namespace, restore.session.name)
}

#[cfg(test)]
mod tests;
