//! BackupSession: one run of a BackupConfiguration, BackupBatch or Restic. The controller starts the work on each session
//! that has not ended. The work decides whether the session starts ([`start`]), calls the engine to run its members,
//! and ends it ([`finish`]).

mod by_snapshot;
mod by_task;
pub(super) mod copying;
mod directories;
mod finish;
mod hooks;
mod lasting;
mod moved;
mod reserved;
mod sending;
mod snapshots;
mod start;
#[cfg(test)]
mod tests;
mod turn;
mod unchecked;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_api::stash::BackupSession;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::{Core, Known, LongWork, WorkEnd, dynamic, unreadable};
use lifeboat_plan::stash::invoker::{ValidBackup, ValidDriver};
use lifeboat_plan::stash::session::{InvokerId, SessionStart, deadline, start_backup};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::state::{SessionPhase, SessionState};
use lifeboat_transfer::attempts::{Effects, ServerEffects, WorkContext};
use lifeboat_web::Outcome;
use tokio_util::sync::CancellationToken;

use super::batch_hooks::{self, BatchHooks};
use super::engine::{Stopped, run_members};
use super::finalizer;
use super::kind::SessionKind;
use super::lasting::{Advance, until_ended};
use super::record::SessionRecord;
use crate::context::Context;
use crate::invokers::Invoker;
use crate::repository::{NoReports, TenantEffects, TenantRepositories, key_of};
use lasting::LastingBackup;
use reserved::{Reservation, reserve};
use turn::wait;
use work::{AtWork, BackupWork};

/// The interval at which a waiting session is checked.
const PAUSE: Duration = Duration::from_secs(5);
/// How many pauses there are between two sweeps for leftover CSI snapshots.
const SWEEP: u32 = 120;

struct State {
    resource: ApiResource,
    sessions: LongWork,
}

/// Runs the controller of BackupSessions until `shutdown` is cancelled.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<BackupSession>();
    let watches = context.watches(&resource).until(shutdown);
    let there = watches.known();
    let sessions = LongWork::new(&context.core.metrics, "backupsession");
    let state = Arc::new(State { resource, sessions });
    tokio::select! {
        () = dynamic::drive("backupsession", watches, context.clone(), state.clone(), reconcile) => {}
        () = end_deleted(context, &state, &there) => {}
    }
    state.sessions.leave().await;
}

/// Cancels the work on sessions that were deleted, because there is no reconcile for a deleted object; removes
/// leftovers of other sessions.
async fn end_deleted(context: &Context, state: &State, there: &Known) {
    if !there.wait_until_ready().await {
        return std::future::pending().await;
    }
    for round in 0_u32.. {
        tokio::time::sleep(PAUSE).await;
        let known = there.state();
        let uids: BTreeSet<String> = known.iter().filter_map(|session| session.uid()).collect();
        state.sessions.cancel_others(|uid| uids.contains(uid));
        if !round.is_multiple_of(SWEEP) {
            continue;
        }
        // After a change of leader, the work on a session may not have started yet while its mover still reads.
        let open: BTreeSet<String> =
            known.iter().filter(|session| is_open(session)).filter_map(|session| session.uid()).collect();
        let is_open = |uid: &str| open.contains(uid) || state.sessions.is_running(uid);
        let swept = snapshots::sweep(&context.core, is_open).await;
        context.core.metrics.count_sweep("csi-snapshots", Outcome::of(&swept, ApiError::category));
        if let Err(error) = swept {
            tracing::warn!(error = error.chain(), "CSI snapshots of backups may be left; trying again later");
        }
    }
}

/// Whether a session has not ended. One that cannot be read may not have.
fn is_open(session: &DynamicObject) -> bool {
    SessionKind::Backup.read(session).map_or(true, |state| !state.phase.has_ended())
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let namespace = object.namespace().unwrap_or_default();
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    let is_held = finalizer::is_on(&object);
    if !context.served.serves(&context.core, &namespace).await? {
        return Ok(Action::await_change());
    }
    let typed = objects::typed::<BackupSession>(&object);
    let record = SessionRecord::new(&context.core, SessionKind::Backup, &state.resource, (*object).clone());
    let (session, record) = match (typed, record) {
        (Ok(session), Ok(record)) => (session, Arc::new(record)),
        (Err(error), _) | (_, Err(error)) => {
            return Ok(unreadable::warn(&context.core, &state.resource, &object, error).await);
        }
    };
    if record.read(|state| state.phase.has_ended()).await {
        if is_held {
            finalizer::release(&context.core, SessionKind::Backup, &record).await?;
        }
        if is_deleted {
            return Ok(Action::await_change());
        }
        return finish::after_end(&context, &session, &record).await;
    }
    let resource = state.resource.clone();
    let uid = object.uid().unwrap_or_default();
    // A deleted session does not start; finalizers of other controllers may keep its object for a long time.
    if !is_deleted || is_held || !is_pending(&record).await {
        state.sessions.start(&uid, |cancel| async move {
            let backup = LastingBackup { context, resource, session };
            until_ended(&backup, record, &cancel).await;
            WorkEnd::Done
        });
    }
    if is_deleted {
        // Its movers are ended and hooks that are still due run; then the finalizer is removed.
        state.sessions.cancel(&uid);
    }
    Ok(Action::await_change())
}

/// Whether no work of a session has started.
async fn is_pending(record: &SessionRecord) -> bool {
    record.read(|state| state.phase == SessionPhase::Pending).await
}

/// Advances a session as far as possible now.
async fn advance(
    context: &Context,
    session: &BackupSession,
    record: &Arc<SessionRecord>,
    cancel: &CancellationToken,
) -> Result<Advance, Stopped> {
    // The object of this reconcile may be older than the end that this server wrote.
    if record.read(|state| state.phase.has_ended()).await {
        return Ok(Advance::Ended);
    }
    let is_pending = is_pending(record).await;
    let id = InvokerId {
        kind: session.spec.invoker.kind.clone(),
        namespace: record.namespace.clone(),
        name: session.spec.invoker.name.clone(),
    };
    let recorded: Vec<_> =
        record.read(|state| state.members.iter().map(|member| member.reference.clone()).collect()).await;
    let invoker = Invoker::read(context, &id).await?.map(|invoker| invoker.of_session(&recorded));
    let valid = invoker.as_ref().and_then(|invoker| invoker.valid(|_| Vec::new()).ok());
    let stores = !valid.as_ref().is_some_and(|valid| matches!(valid.driver, ValidDriver::VolumeSnapshotter));
    if is_pending && let Some(held) = unchecked::hold(context, session, record, stores).await? {
        return Ok(held);
    }
    if is_pending {
        let gathered = start::gather(context, session, record, invoker.as_ref(), valid.as_ref()).await?;
        match start_backup(&gathered.facts()) {
            SessionStart::Skip(reason) => {
                skip(record, &reason.to_string()).await?;
                return Ok(Advance::Ended);
            }
            SessionStart::Wait(reason) => {
                if let (Some(invoker), Some(valid)) = (&invoker, &valid) {
                    begin(record, invoker, valid, gathered.claims()).await?;
                    return wait(context, invoker, record, &reason.to_string()).await;
                }
            }
            SessionStart::Start => {
                if let (Some(invoker), Some(valid)) = (&invoker, &valid) {
                    begin(record, invoker, valid, gathered.claims()).await?;
                }
            }
        }
    }
    let (Some(invoker), Some(valid)) = (&invoker, valid) else {
        finish::end_without_invoker(context, invoker.as_ref(), record).await?;
        return Ok(Advance::Ended);
    };
    begin(record, invoker, &valid, Vec::new()).await?;
    Box::pin(run_session(context, session, record, invoker.clone(), valid, cancel)).await?;
    Ok(Advance::Ended)
}

async fn skip(record: &SessionRecord, reason: &str) -> Result<(), Stopped> {
    let now = record.now();
    let skipped = ConditionType::BackupSkipped.yes(reason);
    let changed = record.change(|state| {
        // A session that waited for its turn has members, none of which began.
        state.members.clear();
        state.observe(&skipped, now);
    });
    written(changed.await?)
}

/// Records that the session runs, with its deadline, its members and the claims of their targets.
async fn begin(
    record: &SessionRecord,
    invoker: &Invoker,
    valid: &ValidBackup,
    claims: Vec<BTreeSet<String>>,
) -> Result<(), Stopped> {
    let changed = record.change(|state| {
        if state.members.is_empty() {
            let new = match &valid.driver {
                ValidDriver::Restic(_) => SessionState::new_backup(invoker.targets()),
                ValidDriver::VolumeSnapshotter => SessionState::new_snapshot_backup(invoker.targets()),
            };
            *state = SessionState {
                deadline: deadline(record.created, valid.time_out),
                conditions: std::mem::take(&mut state.conditions),
                ..new
            };
            for (member, claims) in state.members.iter_mut().zip(claims) {
                member.claims = claims;
            }
        }
    });
    written(changed.await?)
}

async fn run_session(
    context: &Context,
    session: &BackupSession,
    record: &Arc<SessionRecord>,
    invoker: Invoker,
    valid: ValidBackup,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let key = match &valid.driver {
        ValidDriver::Restic(repository) => Some(key_of(&repository.namespace, &repository.name)),
        ValidDriver::VolumeSnapshotter => None,
    };
    let lost = match reserve(context, record, &invoker, &valid, cancel).await? {
        Reservation::Held => None,
        Reservation::Lost(message) => Some(message),
        Reservation::Ended => return Ok(()),
    };
    let limited = cancel.child_token();
    let _ends = limited.clone().drop_guard();
    let work = BackupWork {
        context: context.clone(),
        record: record.clone(),
        invoker,
        valid,
        key,
        transfers: work_context(context),
        retry_left: session.spec.retry_left.unwrap_or(0),
        cancel: limited.clone(),
        at_work: AtWork::default(),
    };
    if lost.is_some() {
        // Movers are ended, and the hooks after hosts that are still due run.
        limited.cancel();
    }
    let late = record.deadline_passed().await;
    let cancel_when_late = async {
        late.await;
        limited.cancel();
        std::future::pending::<()>().await;
    };
    // A run that is cancelled ends its movers and removes their locks; their hosts are Failed.
    tokio::select! {
        ran = run_batch(&work, &limited) => ran?,
        () = cancel_when_late => {}
    }
    if let Some(message) = lost {
        let (now, disrupted) = (record.now(), ConditionType::BackupDisrupted.yes(message));
        let changed = record
            .change(|state| state.members.iter_mut().for_each(|member| member.observe(&disrupted, now)));
        written(changed.await?)?;
    } else if limited.is_cancelled() && !cancel.is_cancelled() {
        let late = ConditionType::DeadlineExceeded.yes("the backup did not end within timeOut");
        let now = record.now();
        written(record.change(|state| state.observe(&late, now)).await?)?;
    }
    Box::pin(finish::finish(context, record, &work)).await
}

/// Runs the members between the hooks of their batch. If the hook before them fails, none runs.
async fn run_batch(work: &BackupWork, cancel: &CancellationToken) -> Result<(), Stopped> {
    let hooks = hooks_of_batch(work);
    if hooks.before(cancel).await? {
        run_members(work, cancel).await?;
    }
    hooks.after().await
}

fn hooks_of_batch(work: &BackupWork) -> BatchHooks<'_> {
    BatchHooks {
        context: &work.context,
        kind: SessionKind::Backup,
        record: &work.record,
        hooks: &work.valid.hooks,
        conditions: batch_hooks::OF_BACKUP,
        invoker: work.invoker_summary(),
        annotations: &work.invoker.annotations,
        retry_left: work.retry_left,
    }
}

/// The context of the work on transfers.
pub(super) fn work_context(context: &Context) -> WorkContext {
    let inner: Arc<dyn Effects> = match &context.effects {
        Some(effects) => effects.clone(),
        None => Arc::new(ServerEffects {
            core: Core::clone(&context.core),
            movers: context.movers.clone(),
            repositories: context.repositories.clone(),
            host: Arc::new(TenantRepositories(context.clone())),
            reports: Arc::new(NoReports),
        }),
    };
    let effects = Arc::new(TenantEffects::new(context.clone(), inner));
    WorkContext::new(&context.core, context.movers.settings().clone(), effects)
}

pub(super) fn written(written: bool) -> Result<(), Stopped> {
    if written { Ok(()) } else { Err(Stopped::Gone) }
}
