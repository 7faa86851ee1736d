//! RestoreSession and RestoreBatch: restores into one target, or several. The controller starts the work on each
//! restore that has not ended. The work waits for missing objects, calls the engine to run the members, and ends the
//! restore ([`finish`]).

mod at_once;
mod blocking;
mod by_snapshot;
mod by_task;
mod choice;
mod copies;
mod facts;
mod find;
pub(super) mod finish;
mod found;
mod gather;
mod hooks;
mod lasting;
mod member;
mod moving;
mod new_claims;
mod object;
pub(crate) mod others;
mod resumed;
#[cfg(test)]
mod tests;
mod turn;
mod work;
mod writing;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_cluster::ApiError;
use lifeboat_control::{Known, LongWork, WorkEnd, dynamic, unreadable};
use lifeboat_plan::stash::invoker::{ValidDriver, ValidRestore, observe_restore};
use lifeboat_plan::stash::session::{deadline, wait_until};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::state::{SessionPhase, SessionState};
use lifeboat_transfer::attempts::WorkContext;
use tokio_util::sync::CancellationToken;

use super::backup::{work_context, written};
use super::batch_hooks::{self, BatchHooks};
use super::ended;
use super::engine::{Stopped, run_members};
use super::finalizer;
use super::kind::SessionKind;
use super::lasting::{Advance, until_ended};
use super::record::SessionRecord;
use crate::context::Context;
use crate::repository::key_of;
use lasting::LastingRestore;
use object::RestoreObject;
use work::RestoreWork;

/// The interval at which a waiting restore is checked.
const PAUSE: Duration = Duration::from_secs(5);
/// The message of a restore that took too long.
const LATE: &str = "the restore did not end within timeOut";

struct State {
    kind: SessionKind,
    resource: ApiResource,
    restores: LongWork,
}

/// Runs the controllers of both kinds until `shutdown` is cancelled.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    tokio::join!(
        run_kind(context, SessionKind::Restore, "restoresession", shutdown),
        run_kind(context, SessionKind::RestoreBatch, "restorebatch", shutdown),
    );
}

async fn run_kind(context: &Context, kind: SessionKind, name: &'static str, shutdown: &CancellationToken) {
    let resource = kind.resource();
    let watches = context.watches(&resource).until(shutdown);
    let there = watches.known();
    let restores = LongWork::new(&context.core.metrics, name);
    let state = Arc::new(State { kind, resource, restores });
    tokio::select! {
        () = dynamic::drive(name, watches, context.clone(), state.clone(), reconcile) => {}
        () = end_deleted(context, &state, &there) => {}
    }
    state.restores.leave().await;
}

/// Cancels the work on restores that were deleted, and removes their metrics, because there is no reconcile for a deleted
/// object.
async fn end_deleted(context: &Context, state: &State, there: &Known) {
    if !there.wait_until_ready().await {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(PAUSE).await;
        let known = there.state();
        let uids: BTreeSet<String> = known.iter().filter_map(|restore| restore.uid()).collect();
        state.restores.cancel_others(|uid| uids.contains(uid));
        let names: BTreeSet<(String, String)> =
            known.iter().map(|found| (found.namespace().unwrap_or_default(), found.name_any())).collect();
        context.metrics.restores.retain(|of, namespace, name| {
            of != state.kind.as_str() || names.contains(&(namespace.to_owned(), name.to_owned()))
        });
    }
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let namespace = object.namespace().unwrap_or_default();
    if !context.served.serves(&context.core, &namespace).await? {
        return Ok(Action::await_change());
    }
    let kind = state.kind;
    let read = SessionRecord::new(&context.core, kind, &state.resource, (*object).clone());
    let (restore, record) = match (RestoreObject::of(kind, &object), read) {
        (Ok(restore), Ok(record)) => (restore, Arc::new(record)),
        (Err(error), _) | (_, Err(error)) => {
            return Ok(unreadable::warn(&context.core, &state.resource, &object, error).await);
        }
    };
    let uid = object.uid().unwrap_or_default();
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    let is_held = finalizer::is_on(&object);
    if record.read(SessionState::has_ended).await {
        context.metrics.restores.ended(&ended::restore(kind, &object, &record.state().await));
        if is_held {
            finalizer::release(&context.core, kind, &record).await?;
        }
        resumed::allow_backups(&context.core, &object, &record).await?;
        return Ok(Action::await_change());
    }
    if !is_deleted || is_held {
        state.restores.start(&uid, |cancel| async move {
            let restore = LastingRestore { transfers: work_context(&context), context, restore };
            until_ended(&restore, record, &cancel).await;
            WorkEnd::Done
        });
    }
    if is_deleted {
        // A workload that it stopped is started first, or stays stopped; then the finalizer is removed.
        state.restores.cancel(&uid);
    }
    Ok(Action::await_change())
}

/// Brings a restore as far as possible now.
async fn advance(
    context: &Context,
    transfers: &WorkContext,
    restore: &RestoreObject,
    record: &Arc<SessionRecord>,
    cancel: &CancellationToken,
) -> Result<Advance, Stopped> {
    let valid = restore.valid();
    begin(record, restore, valid.as_ref().ok()).await?;
    let has_begun = record.read(|state| state.members.iter().any(|member| !member.hosts.is_empty())).await;
    if !has_begun {
        let standing = context.policies.standing(restore.kind.as_str(), record.created);
        let gathered = gather::gather(context, &record.namespace, standing, valid.as_ref().ok()).await?;
        let now = record.now();
        let problems = valid.as_ref().err();
        written(record.change(|state| observe_restore(state, problems, &gathered, now)).await?)?;
        if record.read(|state| state.phase == SessionPhase::Invalid).await {
            return Ok(Advance::Ended);
        }
        if let Some(missing) = gather::missing(&gathered) {
            let wait = SignedDuration::try_from(context.settings.restore_wait).unwrap_or(SignedDuration::MAX);
            let time_out = valid.as_ref().ok().and_then(|valid| valid.time_out);
            if now < wait_until(record.created, time_out, wait) {
                return Ok(Advance::Waits);
            }
            finish::end(record, missing).await?;
            return Ok(Advance::Ended);
        }
    }
    let Ok(valid) = valid else {
        // The spec cannot be changed: another version of the server found it valid.
        finish::end(record, "its spec is not valid for this version").await?;
        return Ok(Advance::Ended);
    };
    let repository = match &valid.driver {
        ValidDriver::Restic(repository) => Some(key_of(&repository.namespace, &repository.name)),
        ValidDriver::VolumeSnapshotter => None,
    };
    let limited = cancel.child_token();
    let work = RestoreWork {
        context: context.clone(),
        record: record.clone(),
        object: restore.clone(),
        repository,
        valid,
        transfers: transfers.clone(),
        found: Mutex::default(),
        tasks: Mutex::default(),
        turns: Mutex::default(),
        cancel: limited,
    };
    Box::pin(run_restore(&work)).await?;
    Ok(Advance::Ended)
}

/// Records the members and the deadline.
async fn begin(
    record: &SessionRecord,
    restore: &RestoreObject,
    valid: Option<&ValidRestore>,
) -> Result<(), Stopped> {
    let changed = record.change(|state| {
        if state.members.is_empty() {
            state.members = SessionState::new_restore(restore.targets()).members;
        }
        if state.deadline.is_none() {
            state.deadline = valid.and_then(|valid| deadline(record.created, valid.time_out));
        }
    });
    written(changed.await?)
}

/// Runs all members, with the hooks of the batch before and after them, within the deadline.
async fn run_restore(work: &RestoreWork) -> Result<(), Stopped> {
    let record = &work.record;
    let late = record.deadline_passed().await;
    let cancel_when_late = async {
        late.await;
        let (now, late) = (record.now(), ConditionType::DeadlineExceeded.yes(LATE));
        if let Err(error) = record.change(|state| state.observe(&late, now)).await {
            tracing::warn!(restore = record.name, error = error.chain(), "the deadline is not on record");
        }
        // The movers are ended, and workloads are started or stay stopped.
        work.cancel.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ran = run_all(work) => ran?,
        () = cancel_when_late => {}
    }
    Box::pin(finish::finish(work)).await
}

/// Runs the members between the hooks of their batch. If the hook before them fails, none runs.
async fn run_all(work: &RestoreWork) -> Result<(), Stopped> {
    let hooks = BatchHooks {
        context: &work.context,
        kind: work.object.kind,
        record: &work.record,
        hooks: &work.valid.hooks,
        conditions: batch_hooks::OF_RESTORE,
        invoker: work.invoker_summary(),
        annotations: work.object.annotations(),
        retry_left: 0,
    };
    if hooks.before(&work.cancel).await? {
        run_members(work, &work.cancel).await?;
    }
    hooks.after().await
}
