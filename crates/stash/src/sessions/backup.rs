//! BackupSession: one run of a BackupConfiguration or BackupBatch. The controller starts the work on each open session; the work
//! decides whether the session starts ([`start`]), has the engine run its members, and ends it ([`finish`]).

pub(super) mod copying;
mod finish;
mod start;
mod work;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_api::stash::BackupSession;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::{Core, Known, LongWork, dynamic};
use lifeboat_plan::stash::invoker::{ValidBackup, ValidDriver};
use lifeboat_plan::stash::session::{InvokerId, SessionStart, deadline, start_backup};
use lifeboat_plan::stash::state::SessionState;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_transfer::attempts::{ServerEffects, WorkContext};
use tokio_util::sync::CancellationToken;

use super::engine::{Stopped, run_members};
use super::kind::SessionKind;
use super::record::SessionRecord;
use crate::context::Context;
use crate::invokers::Invoker;
use crate::repository::{NoReports, TenantRepositories, key_of, ready};
use work::BackupWork;

/// How soon a session that waits is looked at again, and the pause after trouble with the API.
const PAUSE: Duration = Duration::from_secs(5);

struct State {
    resource: ApiResource,
    sessions: LongWork,
}

/// Runs the controller of BackupSessions until `shutdown` is cancelled.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<BackupSession>();
    let watches = context.watches(&resource).until(shutdown);
    let there = watches.known();
    let state = Arc::new(State { resource, sessions: LongWork::new("backup session") });
    tokio::select! {
        () = dynamic::drive("backupsession", watches, context.clone(), state.clone(), reconcile) => {}
        () = end_deleted(&state, &there) => {}
    }
    state.sessions.leave().await;
}

/// Cancels the work on sessions that were deleted: no reconcile reports them.
async fn end_deleted(state: &State, there: &Known) {
    if !there.wait_until_ready().await {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(PAUSE).await;
        let uids: std::collections::BTreeSet<String> =
            there.state().iter().filter_map(|session| session.uid()).collect();
        state.sessions.cancel_others(|uid| uids.contains(uid));
    }
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let namespace = object.namespace().unwrap_or_default();
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    if is_deleted || !context.served.serves(&context.core, &namespace).await? {
        return Ok(Action::await_change());
    }
    let Ok(session) = objects::typed::<BackupSession>(&object) else {
        tracing::warn!(namespace, session = object.name_any(), "a BackupSession cannot be read");
        return Ok(Action::await_change());
    };
    let record =
        match SessionRecord::new(&context.core, SessionKind::Backup, &state.resource, (*object).clone()) {
            Ok(record) => Arc::new(record),
            Err(_) => return Ok(Action::await_change()),
        };
    if record.read(|state| state.phase.has_ended()).await {
        return finish::after_end(&context, &session, &record).await;
    }
    let resource = state.resource.clone();
    let uid = object.uid().unwrap_or_default();
    state.sessions.start(&uid, |cancel| work_until_ended(context, resource, session, record, cancel));
    Ok(Action::await_change())
}

/// Works on a session until it has ended, or its object is gone.
async fn work_until_ended(
    context: Context,
    resource: ApiResource,
    session: BackupSession,
    mut record: Arc<SessionRecord>,
    cancel: CancellationToken,
) {
    loop {
        match Box::pin(advance(&context, &session, &record, &cancel)).await {
            Ok(Advance::Ended) | Err(Stopped::Gone) => return,
            Ok(Advance::Waits) => {}
            Err(Stopped::Api(error)) => {
                tracing::warn!(
                    session = record.name,
                    error = error.chain(),
                    "a backup is interrupted; trying again"
                );
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = cancel.cancelled() => return,
        }
        match reread(&context.core, &resource, &record).await {
            Ok(Some(again)) => record = again,
            Ok(None) => return,
            Err(error) => tracing::debug!(error = error.chain(), "cannot read a BackupSession now"),
        }
    }
}

async fn reread(
    core: &Core,
    resource: &ApiResource,
    record: &SessionRecord,
) -> Result<Option<Arc<SessionRecord>>, ApiError> {
    let api = objects::namespaced(&core.client, &record.namespace, resource);
    let found = api.get_opt(&record.name).await.attempt(format!("read BackupSession {}", record.name))?;
    let found = found.filter(|found| found.uid().as_deref() == Some(record.uid.as_str()));
    Ok(found
        .and_then(|found| SessionRecord::new(core, SessionKind::Backup, resource, found).ok())
        .map(Arc::new))
}

enum Advance {
    Waits,
    Ended,
}

/// Brings a session as far as possible now.
async fn advance(
    context: &Context,
    session: &BackupSession,
    record: &Arc<SessionRecord>,
    cancel: &CancellationToken,
) -> Result<Advance, Stopped> {
    let id = InvokerId {
        kind: session.spec.invoker.kind.clone(),
        namespace: record.namespace.clone(),
        name: session.spec.invoker.name.clone(),
    };
    let invoker = Invoker::read(&context.core, &id).await?;
    let valid = invoker.as_ref().and_then(|invoker| invoker.valid(|_| Vec::new()).ok());
    if record.read(|state| state.members.is_empty()).await {
        let gathered = start::gather(context, session, record, invoker.as_ref(), valid.as_ref()).await?;
        match start_backup(&gathered.facts()) {
            SessionStart::Skip(reason) => {
                skip(record, &reason.to_string()).await?;
                return Ok(Advance::Ended);
            }
            SessionStart::Wait(reason) => {
                tracing::debug!(session = record.name, %reason, "a backup waits");
                return Ok(Advance::Waits);
            }
            SessionStart::Start => {}
        }
    }
    let (Some(invoker), Some(valid)) = (invoker, valid) else {
        finish::end(context, record, None, "its invoker is gone or not valid any more").await?;
        return Ok(Advance::Ended);
    };
    begin(record, &invoker, &valid).await?;
    Box::pin(run_session(context, session, record, invoker, valid, cancel)).await?;
    Ok(Advance::Ended)
}

async fn skip(record: &SessionRecord, reason: &str) -> Result<(), Stopped> {
    let now = record.now();
    let skipped = ConditionType::BackupSkipped.yes(reason);
    written(record.change(|state| state.observe(&skipped, now)).await?)
}

/// Puts on record that the session runs, with its members and its deadline.
async fn begin(record: &SessionRecord, invoker: &Invoker, valid: &ValidBackup) -> Result<(), Stopped> {
    let changed = record.change(|state| {
        if state.members.is_empty() {
            *state = SessionState {
                deadline: deadline(record.created, valid.time_out),
                conditions: std::mem::take(&mut state.conditions),
                ..SessionState::new_backup(invoker.targets())
            };
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
    let ValidDriver::Restic(repository) = &valid.driver else {
        finish::end(context, record, None, "driver VolumeSnapshotter is not supported by this version")
            .await?;
        return Ok(());
    };
    let key = key_of(&repository.namespace, &repository.name);
    let now = record.now();
    if let Err(problem) = ready(context, &key).await {
        let failed = ConditionType::BackendRepositoryInitialized.no(problem.chain());
        written(record.change(|state| state.observe(&failed, now)).await?)?;
        finish::end(context, record, None, &problem.chain()).await?;
        return Ok(());
    }
    let found = ConditionType::BackendRepositoryInitialized.yes("");
    written(record.change(|state| state.observe(&found, now)).await?)?;
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
        plans: Mutex::default(),
        cancel: limited.clone(),
    };
    let late = deadline_passed(record).await;
    tokio::select! {
        ran = run_members(&work, &limited) => ran?,
        () = late => {
            let late = ConditionType::DeadlineExceeded.yes("the backup did not end within timeOut");
            let now = record.now();
            written(record.change(|state| state.observe(&late, now)).await?)?;
            limited.cancel();
            // The movers are ended, and their hosts are Failed.
            run_members(&work, &limited).await?;
        }
    }
    Box::pin(finish::finish(context, record, &work)).await
}

/// Completes when the deadline of the session has passed; never without one.
async fn deadline_passed(record: &SessionRecord) -> impl Future<Output = ()> + use<> {
    let deadline = record.read(|state| state.deadline).await;
    let left = deadline
        .map(|deadline| Duration::try_from(deadline.duration_since(record.now())).unwrap_or_default());
    async move {
        match left {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    }
}

/// The context of the work on transfers.
pub(super) fn work_context(context: &Context) -> WorkContext {
    let effects = ServerEffects {
        core: Core::clone(&context.core),
        movers: context.movers.clone(),
        repositories: context.repositories.clone(),
        host: Arc::new(TenantRepositories(context.clone())),
        reports: Arc::new(NoReports),
    };
    WorkContext::new(&context.core, context.movers.settings().clone(), Arc::new(effects))
}

pub(super) fn written(written: bool) -> Result<(), Stopped> {
    if written { Ok(()) } else { Err(Stopped::Gone) }
}
