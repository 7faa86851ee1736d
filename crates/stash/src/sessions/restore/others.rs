//! Other sessions of a namespace: backups that have not ended, and restores. A target has one session at work at a time.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_api::common::GoDuration;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::in_place::{BACKUPS_RESUMED, Step};
use lifeboat_plan::stash::session::{
    OtherBackup, OtherRestore, OtherTarget, RestoreProgress, SessionKey, TargetKey,
};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::state::{MemberState, SessionState, WorkPhase};

use crate::context::Context;
use crate::sessions::kind::SessionKind;

/// The backups of a namespace that have not ended.
pub(super) async fn backups(context: &Context, namespace: &str) -> Result<Vec<OtherBackup>, ApiError> {
    let mut found = Vec::new();
    for object in list(context, namespace, SessionKind::Backup).await? {
        let Ok(state) = SessionKind::Backup.read(&object) else { continue };
        if state.phase.has_ended() {
            continue;
        }
        let targets = state.members.iter().filter_map(|member| {
            let target = TargetKey::of(member.reference.as_ref()?, namespace);
            Some(OtherTarget { target, phase: member.current_phase() })
        });
        let targets = targets.collect();
        found.push(OtherBackup { session: key(context, &object), phase: state.phase, targets });
    }
    Ok(found)
}

/// The restores of a namespace that have targets, also those that have ended. `except`: the UID of one that is left out.
pub(crate) async fn restores(
    context: &Context,
    namespace: &str,
    except: Option<&str>,
) -> Result<Vec<OtherRestore>, ApiError> {
    let mut found = Vec::new();
    for kind in [SessionKind::Restore, SessionKind::RestoreBatch] {
        let others = list(context, namespace, kind).await?;
        for object in others.iter().filter(|other| except.is_none() || other.uid().as_deref() != except) {
            let Ok(state) = kind.read(object) else { continue };
            let resumed = object.annotations().get(BACKUPS_RESUMED).is_some_and(|value| value == "true");
            for member in &state.members {
                let Some(reference) = &member.reference else { continue };
                let session = key(context, object);
                let progress = progress(&state, member, session.created, resumed);
                found.extend(progress.map(|progress| OtherRestore {
                    session,
                    kind: kind.as_str(),
                    target: TargetKey::of(reference, namespace),
                    progress,
                }));
            }
        }
    }
    Ok(found)
}

/// The ids of the safety copies of restores that left a workload down.
pub(super) async fn needed_copies(context: &Context, namespace: &str) -> Result<BTreeSet<String>, ApiError> {
    let mut needed = BTreeSet::new();
    for kind in [SessionKind::Restore, SessionKind::RestoreBatch] {
        for object in list(context, namespace, kind).await? {
            let Ok(state) = kind.read(&object) else { continue };
            let is_down = |member: &&MemberState| {
                member.standstill.as_ref().is_some_and(|record| record.step == Step::HeldDown)
            };
            let hosts = state.members.iter().filter(is_down).flat_map(|member| &member.hosts);
            needed.extend(hosts.flat_map(|host| &host.snapshots).filter_map(|copy| copy.name.clone()));
        }
    }
    Ok(needed)
}

/// How far the restore of a member has come. None for one that ended without writing anything: it left the data as it was.
fn progress(
    state: &SessionState,
    member: &MemberState,
    created: Timestamp,
    resumed: bool,
) -> Option<RestoreProgress> {
    if !state.phase.has_ended() {
        return Some(if !member.hosts.is_empty() && !member.has_ended() {
            RestoreProgress::Running
        } else if member.has_ended() {
            of_end(member, created, resumed)?
        } else if ConditionType::RestoreQueued.is_true(&member.conditions) {
            RestoreProgress::Queued
        } else {
            RestoreProgress::Waiting
        });
    }
    let duration = state.duration.map(GoDuration::to_signed).unwrap_or_default();
    of_end(member, created.checked_add(duration).unwrap_or(created), resumed)
}

fn of_end(member: &MemberState, ended: Timestamp, resumed: bool) -> Option<RestoreProgress> {
    let wrote = match &member.standstill {
        Some(standstill) => standstill.step == Step::HeldDown,
        None => member.hosts.iter().any(|host| host.run.start_time.is_some()),
    };
    match member.current_phase() {
        WorkPhase::Succeeded => Some(RestoreProgress::Succeeded { ended }),
        _ if wrote => Some(RestoreProgress::Failed { ended, resumed }),
        _ => None,
    }
}

async fn list(context: &Context, namespace: &str, kind: SessionKind) -> Result<Vec<DynamicObject>, ApiError> {
    let api = objects::namespaced(&context.core.client, namespace, &kind.resource());
    let listed = api.list(&ListParams::default()).await;
    match listed.attempt(format!("list objects of kind {} of namespace {namespace}", kind.as_str())) {
        // A cluster without this kind has no such sessions.
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => Ok(listed?.items),
    }
}

fn key(context: &Context, object: &DynamicObject) -> SessionKey {
    SessionKey {
        created: object.creation_timestamp().map_or_else(|| context.core.now(), |time| time.0),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::stash::HostRun;
    use lifeboat_plan::stash::in_place::{RestoreName, Standstill};
    use lifeboat_plan::stash::state::{HostState, SessionPhase};
    use rstest::rstest;

    use super::*;

    fn standstill(step: Step) -> Standstill {
        Standstill {
            kind: "Deployment".into(),
            name: "web".into(),
            uid: "u".into(),
            replicas: 1,
            step,
            safety_copy: true,
            safety_of: None,
            restore: RestoreName::default(),
            failure: None,
        }
    }

    fn member(phase: WorkPhase, began: bool) -> MemberState {
        let start_time = began.then(|| lifeboat_api::common::Time(Timestamp::UNIX_EPOCH));
        let run = HostRun { start_time, ..HostRun::default() };
        let host = HostState { phase, run, ..HostState::default() };
        MemberState { total_hosts: Some(1), hosts: vec![host], ..MemberState::default() }
    }

    const ENDED: Timestamp = Timestamp::UNIX_EPOCH;

    #[rstest]
    #[case::not_begun(SessionPhase::Pending, MemberState::default(), Some(RestoreProgress::Waiting))]
    #[case::running(SessionPhase::Running, member(WorkPhase::Running, true), Some(RestoreProgress::Running))]
    #[case::succeeded(
        SessionPhase::Succeeded,
        member(WorkPhase::Succeeded, true),
        Some(RestoreProgress::Succeeded { ended: ENDED })
    )]
    #[case::failed(
        SessionPhase::Failed,
        member(WorkPhase::Failed, true),
        Some(RestoreProgress::Failed { ended: ENDED, resumed: false })
    )]
    #[case::nothing_was_sent(SessionPhase::Failed, member(WorkPhase::Failed, false), None)]
    #[case::as_before(
        SessionPhase::Failed,
        MemberState { standstill: Some(standstill(Step::Started)), ..member(WorkPhase::Failed, true) },
        None
    )]
    #[case::half_restored(
        SessionPhase::Failed,
        MemberState { standstill: Some(standstill(Step::HeldDown)), ..member(WorkPhase::Failed, true) },
        Some(RestoreProgress::Failed { ended: ENDED, resumed: false })
    )]
    fn a_restore_that_wrote_nothing_does_not_count(
        #[case] phase: SessionPhase,
        #[case] member: MemberState,
        #[case] expected: Option<RestoreProgress>,
    ) {
        let state = SessionState { phase, ..SessionState::default() };
        assert_eq!(progress(&state, &member, ENDED, false), expected);
    }

    #[test]
    fn a_restore_that_only_waits_for_its_turn_is_queued() {
        let mut member = MemberState::default();
        member.observe(&ConditionType::RestoreQueued.yes("a backup runs"), ENDED);
        let found = progress(&SessionState::default(), &member, ENDED, false);
        assert_eq!(found, Some(RestoreProgress::Queued));
    }
}
