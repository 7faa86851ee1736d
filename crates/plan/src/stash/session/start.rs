//! Decides whether a session starts, waits or is skipped, and whether a member of it may start on its target.
//!
//! Only one session at a time works on a target, and on each claim, whichever targets use the claim. A session waits
//! only for running sessions, which end by themselves, and for older sessions of its own kind, so that two sessions
//! never wait for each other.

mod reasons;

pub use reasons::{SkipReason, WaitReason};

use std::collections::BTreeMap;

use jiff::Timestamp;
use lifeboat_api::stash::InvokerPhase;

use super::order::Order;
use super::target::{TargetKey, TargetVolumes};
use crate::stash::in_place::RestoreName;
use crate::stash::state::{SessionPhase, WorkPhase};

/// Annotation of a failed RestoreSession or RestoreBatch, with its own UID: a user has since allowed backups of its targets.
pub const RESUMED: &str = "lifeboat.io/backups-resumed";

/// Whether a person has allowed backups after the restore with these annotations. Another UID is that of an earlier restore: one that is
/// created again from the object of the first (`kubectl replace --force`) has its annotations, and may leave data half restored anew.
pub fn is_resumed(annotations: &BTreeMap<String, String>, uid: &str) -> bool {
    annotations.get(RESUMED).is_some_and(|of| !uid.is_empty() && of == uid)
}

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
    pub on: TargetVolumes,
    pub phase: WorkPhase,
}

/// A restore of one target: a RestoreSession, or one member of a RestoreBatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRestore {
    pub session: SessionKey,
    /// RestoreSession or RestoreBatch.
    pub kind: &'static str,
    pub on: TargetVolumes,
    pub progress: RestoreProgress,
}

/// How far a restore of a target has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreProgress {
    /// An object that it needs does not exist yet.
    Waiting,
    /// It waits only for other sessions on its target.
    Queued,
    Running,
    Succeeded {
        ended: Timestamp,
    },
    /// `resumed`: backups of the target are allowed nevertheless, by a user or because a later restore succeeded.
    Failed {
        ended: Timestamp,
        resumed: bool,
    },
}

/// The target of a backup's member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupTargetFacts {
    pub on: TargetVolumes,
    /// The restore that started to write to the target and has not succeeded, from the record on the target or its
    /// claims.
    pub unfinished: Option<RestoreName>,
}

impl From<TargetVolumes> for BackupTargetFacts {
    fn from(on: TargetVolumes) -> Self {
        Self { on, unfinished: None }
    }
}

/// What is known when a backup is about to start.
#[derive(Clone, Debug)]
pub struct BackupFacts<'a> {
    pub session: &'a SessionKey,
    /// Created by a user, not by the schedule or as a retry.
    pub by_hand: bool,
    /// None if the invoker does not exist.
    pub invoker: Option<InvokerFacts>,
    pub order: Order,
    /// The targets of its members, in their order. None for a member without target.
    pub targets: &'a [Option<BackupTargetFacts>],
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

/// The decision about a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStart {
    Start,
    /// It stays Pending.
    Wait(WaitReason),
    Skip(SkipReason),
}

/// The decision about a member that has not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberStart {
    Start,
    Wait(WaitReason),
    /// It is Failed without having started, because a restore of its target failed after the session had started.
    Refuse(SkipReason),
}

/// Decides about a BackupSession that has not started.
pub fn start_backup(facts: &BackupFacts<'_>) -> SessionStart {
    if let Some(reason) = skip_reason(facts) {
        return SessionStart::Skip(reason);
    }
    let waits = |target: &Option<BackupTargetFacts>| match backup_member(
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

/// Why a backup must not read a target: a restore of it is running or is next, or the last restore failed.
fn restore_reason(
    session: &SessionKey,
    target: &BackupTargetFacts,
    restores: &[OtherRestore],
) -> Option<SkipReason> {
    if let Some((restore, target)) = ahead(session, &target.on, restores) {
        return Some(SkipReason::Restore { restore: restore.to_string(), target });
    }
    failed_restore(target, restores)
}

/// The restore that a session must wait for, and the data that both use: a running restore, or an older one that only
/// waits for its turn.
fn ahead(
    session: &SessionKey,
    on: &TargetVolumes,
    restores: &[OtherRestore],
) -> Option<(RestoreName, TargetKey)> {
    let is_ahead = |restore: &OtherRestore| match restore.progress {
        RestoreProgress::Running => true,
        RestoreProgress::Queued => restore.session < *session,
        _ => false,
    };
    let mut restores = restores.iter().filter(|restore| is_ahead(restore));
    restores.find_map(|restore| Some((restore.named(), on.shared(&restore.on)?)))
}

/// Why a target must not be backed up although no restore of it is running: a restore has not succeeded, according to
/// the record on the target's claims or to the last restore that has ended.
fn failed_restore(target: &BackupTargetFacts, restores: &[OtherRestore]) -> Option<SkipReason> {
    let on = &target.on;
    let reason = |restore: RestoreName, target: TargetKey| SkipReason::RestoreFailed { restore, target };
    if let Some(restore) = &target.unfinished {
        return Some(reason(restore.clone(), on.title()?));
    }
    // Backups are allowed by a later restore that succeeded, or by a user after a later restore.
    let repaired = |failed: &OtherRestore, at: Timestamp| {
        restores.iter().any(|other| match other.progress {
            RestoreProgress::Succeeded { ended } | RestoreProgress::Failed { ended, resumed: true } => {
                (ended, &other.session) > (at, &failed.session) && other.on.covers(&failed.on, on)
            }
            _ => false,
        })
    };
    restores.iter().find_map(|restore| match restore.progress {
        RestoreProgress::Failed { ended, resumed: false } if !repaired(restore, ended) => {
            Some(reason(restore.named(), on.shared(&restore.on)?))
        }
        _ => None,
    })
}

/// Decides about a member of a backup. `others`: backups of other invokers that have not ended.
pub fn backup_member(
    session: &SessionKey,
    target: Option<&BackupTargetFacts>,
    others: &[OtherBackup],
    restores: &[OtherRestore],
) -> MemberStart {
    let Some(target) = target else { return MemberStart::Start };
    if let Some((restore, target)) = ahead(session, &target.on, restores) {
        return MemberStart::Wait(WaitReason::Restore { restore: restore.to_string(), target });
    }
    if let Some(reason) = failed_restore(target, restores) {
        return MemberStart::Refuse(reason);
    }
    let is_ahead = |other: &OtherBackup, phase: WorkPhase| {
        phase == WorkPhase::Running || (phase == WorkPhase::Pending && other.session < *session)
    };
    wait_for_backup(&target.on, others, is_ahead)
}

/// Decides about a member of a restore for which nothing is missing. `backups`: all that have not ended. `restores`:
/// of other RestoreSessions and RestoreBatches.
pub fn restore_member(
    session: &SessionKey,
    on: &TargetVolumes,
    backups: &[OtherBackup],
    restores: &[OtherRestore],
) -> MemberStart {
    if let MemberStart::Wait(reason) = wait_for_backup(on, backups, |_, phase| phase == WorkPhase::Running) {
        return MemberStart::Wait(reason);
    }
    match ahead(session, on, restores) {
        Some((restore, target)) => {
            MemberStart::Wait(WaitReason::Restore { restore: restore.to_string(), target })
        }
        None => MemberStart::Start,
    }
}

/// The first backup that must run before and has a member on the same data. Members of an ended session are not
/// considered.
fn wait_for_backup(
    on: &TargetVolumes,
    backups: &[OtherBackup],
    is_ahead: impl Fn(&OtherBackup, WorkPhase) -> bool,
) -> MemberStart {
    let open = backups.iter().filter(|other| !other.phase.has_ended());
    let mut members = open.flat_map(|other| other.targets.iter().map(move |member| (other, member)));
    let found = members.find_map(|(other, member)| {
        let target = on.shared(&member.on).filter(|_| is_ahead(other, member.phase))?;
        Some((other, target))
    });
    match found {
        Some((other, target)) => MemberStart::Wait(WaitReason::Backup {
            session: format!("{}/{}", other.session.namespace, other.session.name),
            target,
        }),
        None => MemberStart::Start,
    }
}

impl OtherRestore {
    fn named(&self) -> RestoreName {
        RestoreName {
            kind: self.kind.to_owned(),
            namespace: self.session.namespace.clone(),
            name: self.session.name.clone(),
            uid: String::new(),
        }
    }
}

#[cfg(test)]
mod tests;
