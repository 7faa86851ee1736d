//! The hooks before and after a host. Called by the engine. Both are recorded before they run, together with the pod:
//! the hook after a host reverts what the hook before it did, so it runs only in that pod.

use lifeboat_api::stash::HookPhase;
use lifeboat_plan::stash::hooks::{End, HookStep, ValidHook, post_step, pre_step};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::state::{HostState, MemberState, WorkPhase};
use tokio_util::sync::CancellationToken;

use super::engine::{HookMoment, SessionWork, Stopped, on_record};
use super::hooks::retries::until_begun;
use super::hooks::{HookFailure, HookPlace};
use super::host_record::{HostRecord, host_of};
use crate::patience::patiently;

/// Runs the hook before the host. Returns the reason why the host is not processed, if there is one.
pub(super) async fn before(
    work: &dyn SessionWork,
    record: &HostRecord,
    cancel: &CancellationToken,
) -> Result<Option<String>, Stopped> {
    let hook = work.hooks(record.member).and_then(|hooks| hooks.pre.as_ref());
    match (pre_step(hook.is_some(), &record.state().await), hook) {
        (HookStep::Run, Some(hook)) => {
            let pod = match work.hook_place(record, hook).await? {
                HookPlace::At(pod) => pod,
                HookPlace::Skip(why) => return skip(work, record, &why).await.map(|()| None),
            };
            if let Some(why) = not_held(work, cancel).await? {
                return Ok(Some(why));
            }
            let started = record.change(|host| {
                host.run.pre_hook = Some(HookPhase::Started);
                host.run.hook_pod = pod;
            });
            on_record(started.await?)?;
            run_before(work, record, hook, cancel).await
        }
        (HookStep::Continue, Some(hook)) => run_before(work, record, hook, cancel).await,
        (HookStep::Ended(HookPhase::Failed), _) => Ok(Some("the hook before the host failed".to_owned())),
        _ => Ok(None),
    }
}

/// Keeps the object of the session for the hook after the host. Returns the reason why that is not possible, if there is one: then no hook is
/// started.
async fn not_held(work: &dyn SessionWork, cancel: &CancellationToken) -> Result<Option<String>, Stopped> {
    let held = patiently(cancel, || work.hold()).await?;
    Ok(held.err().map(|why| format!("the hook before the host was not started: {why}")))
}

async fn run_before(
    work: &dyn SessionWork,
    record: &HostRecord,
    hook: &ValidHook,
    cancel: &CancellationToken,
) -> Result<Option<String>, Stopped> {
    let ran = until_begun(cancel, &*record.session, || work.run_hook(record, hook, HookMoment::Before));
    let ran = has_run(ran.await)?;
    let (kind, now) = (work.hook_conditions().pre, record.session.now());
    let ran = ran.map_err(|failure| failure.to_string());
    let changed = record.change_member(|member| {
        observe(member, kind, record, ran.as_ref().err(), now);
        if let Some(host) = host_of(member, &record.host) {
            host.run.pre_hook = Some(if ran.is_ok() { HookPhase::Succeeded } else { HookPhase::Failed });
        }
    });
    on_record(changed.await?)?;
    Ok(ran.err().map(|message| format!("the hook before the host failed: {message}")))
}

/// Records that there is no pod for the hook before a host.
async fn skip(work: &dyn SessionWork, record: &HostRecord, why: &str) -> Result<(), Stopped> {
    let (kind, now) = (work.hook_conditions().pre, record.session.now());
    let changed = record.change_member(|member| {
        if !kind.is_false(&member.conditions) {
            member.observe(&kind.yes(format!("host {}: skipped, because {why}", record.host)), now);
        }
        if let Some(host) = host_of(member, &record.host) {
            host.run.pre_hook = Some(HookPhase::Skipped);
        }
    });
    on_record(changed.await?)
}

/// Runs the hook after the host, however the host ended. A hook that started before a crash is run again, because it
/// reverts what the hook before the host did.
pub(super) async fn after(work: &dyn SessionWork, record: &HostRecord) -> Result<(), Stopped> {
    let host = record.state().await;
    let hooks = work.hooks(record.member);
    let post = hooks.and_then(|hooks| hooks.post.as_ref());
    let has_pre = hooks.is_some_and(|hooks| hooks.pre.is_some());
    let end = match host.phase {
        // A claim that waits for its first pod has not failed.
        WorkPhase::Succeeded | WorkPhase::Unknown => Some(End::Succeeded),
        phase if phase.has_ended() => Some(End::Failed),
        // Before the end of the host is known, only a hook with policy `Always` runs.
        _ => work.is_taken(&host).then_some(End::Succeeded),
    };
    match (post_step(post.map(|(_, policy)| *policy), has_pre, &host, end, work.retry_left()), post) {
        (HookStep::Run | HookStep::Continue, Some((hook, _))) => {
            on_record(record.change(|host| host.run.post_hook = Some(HookPhase::Started)).await?)?;
            // It reverts what the hook before the host did, so the end of the session does not cancel it.
            let never = CancellationToken::new();
            let ran =
                until_begun(&never, &*record.session, || work.run_hook(record, hook, HookMoment::After));
            let ran = has_run(ran.await)?;
            let (kind, now) = (work.hook_conditions().post, record.session.now());
            let message = ran.err().map(|failure| failure.to_string());
            let changed = record.change_member(|member| {
                observe(member, kind, record, message.as_ref(), now);
                if let Some(host) = host_of(member, &record.host) {
                    ended(host, message);
                }
            });
            on_record(changed.await?)
        }
        // The spec no longer has the hook that was started.
        (HookStep::Skip | HookStep::Continue, _) => {
            on_record(record.change(|host| host.run.post_hook = Some(HookPhase::Skipped)).await?)
        }
        _ => Ok(()),
    }
}

/// The session was removed in spite of its finalizer: the hook after a started host is run without a record.
pub(super) async fn release_pod(work: &dyn SessionWork, record: &HostRecord) {
    let post = work.hooks(record.member).and_then(|hooks| hooks.post.as_ref());
    let Some((hook, policy)) = post else { return };
    if !record.state().await.owes_post_hook() || !policy.runs_after(End::Failed, work.retry_left()) {
        return;
    }
    if let Err(error) = work.run_hook(record, hook, HookMoment::After).await {
        let host = record.host.as_str();
        tracing::warn!(session = work.record().name, host, %error, "the hook after a host of a deleted session failed");
    }
}

/// How a hook ended. If this server stops following a hook, the hook has not ended: the next leader continues it.
pub(super) fn has_run(ran: Result<(), HookFailure>) -> Result<Result<(), HookFailure>, Stopped> {
    match ran {
        Err(HookFailure::Left) => Err(Stopped::Left),
        ran => Ok(ran),
    }
}

/// Shows how a hook of a host ended. A failure for one host stays in the condition when the hook of another host
/// succeeds.
fn observe(
    member: &mut MemberState,
    kind: ConditionType,
    record: &HostRecord,
    failure: Option<&String>,
    now: jiff::Timestamp,
) {
    let known = member.conditions.iter().find(|condition| condition.type_ == kind.name());
    let earlier = known.filter(|condition| condition.status == "False").map(|condition| &condition.message);
    let observed = match (failure, earlier) {
        (Some(failure), Some(earlier)) => kind.no(format!("{earlier}; host {}: {failure}", record.host)),
        (Some(failure), None) => kind.no(format!("host {}: {failure}", record.host)),
        (None, Some(_)) => return,
        (None, None) => kind.yes(""),
    };
    member.observe(&observed, now);
}

/// Records how the hook after a host ended. A hook that failed fails the host.
fn ended(host: &mut HostState, failure: Option<String>) {
    let Some(message) = failure else {
        host.run.post_hook = Some(HookPhase::Succeeded);
        return;
    };
    host.run.post_hook = Some(HookPhase::Failed);
    host.phase = WorkPhase::Failed;
    let message = format!("the hook after the host failed: {message}");
    host.error = Some(match host.error.take() {
        Some(error) => format!("{error}; {message}"),
        None => message,
    });
}
