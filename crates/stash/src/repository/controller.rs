//! The controller of Repositories: reports whether a repository can be used and what it contains, shows its snapshots
//! and its users, removes leftovers of movers, maintains the repository, and deletes its data with the object if
//! `wipeOut` is set. An idle repository causes almost no requests: it is opened rarely, and its users are known from
//! a watch.

mod maintain;
mod notes;
mod observe;
#[cfg(test)]
mod tests;
mod users;
mod wipe_out;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::common::TaskId;
use lifeboat_api::stash::Repository;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::{Known, LongWork, WorkEnd, dynamic, locked, unreadable};
use lifeboat_plan::install::policies::REPOSITORY;
use lifeboat_plan::stash::repository::due::{self, Look, Maintenance};
use lifeboat_plan::stash::repository::mover_work;
use lifeboat_plan::stash::repository::status::{self, Observed};
use lifeboat_plan::stash::repository::wipe_out::FINALIZER;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_plan::transfer::repository_notes::is_under_way;
use lifeboat_transfer::maintenance::MaintenanceError;
use lifeboat_transfer::movers::TaskState;
use lifeboat_web::Metrics;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{by_mover, key_of, object};
use crate::context::Context;
use users::Users;

/// When the notes of a repository are processed again after some of them could not be.
const NEXT_TRY: Duration = Duration::from_mins(1);

/// The state of the controller during one term.
struct State {
    resource: ApiResource,
    /// Work that waits for a tenant's storage, or takes hours: no reconcile waits for it, and no work waits for
    /// another.
    looks: LongWork,
    notes: LongWork,
    maintenances: LongWork,
    deletions: LongWork,
    memory: Arc<Memory>,
}

/// What the controller keeps in memory during one term.
#[derive(Default)]
struct Memory {
    /// When each repository was last inspected, by the object's UID.
    looks: Mutex<BTreeMap<String, Timestamp>>,
    /// When the last maintenance failed, by the object's UID.
    failures: Mutex<BTreeMap<String, Timestamp>>,
    users: Users,
}

impl State {
    fn new(metrics: &Metrics) -> Self {
        Self {
            resource: objects::resource_of::<Repository>(),
            looks: LongWork::new(metrics, "repository-look"),
            notes: LongWork::new(metrics, "repository-notes"),
            maintenances: LongWork::new(metrics, "repository-maintenance"),
            deletions: LongWork::new(metrics, "repository-deletion"),
            memory: Arc::default(),
        }
    }
}

impl Memory {
    fn forget(&self, uid: &str) {
        locked(&self.looks).remove(uid);
        locked(&self.failures).remove(uid);
    }
}

/// Runs the controller until `shutdown` is cancelled and reconciles in flight have ended.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let memory = Memory { users: Users(context.records.clone()), ..Memory::default() };
    let state = Arc::new(State { memory: Arc::new(memory), ..State::new(&context.core.metrics) });
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &context.namespace);
    let (memory, resource) = (state.memory.clone(), state.resource.clone());
    let watches = context
        .watches(&state.resource)
        .triggered_by(&maps, move |map: &ConfigMap, known| {
            memory.users.changed(map, &known.state(), &resource)
        })
        .all_when(&context.policies.changed)
        .all_when(&context.repository_doubts.changed)
        .until(shutdown);
    let there = watches.known();
    tokio::select! {
        () = dynamic::drive("repository", watches, context.clone(), state.clone(), reconcile) => {}
        () = forget_gone(context, &there) => {}
    }
    for work in [&state.looks, &state.notes, &state.maintenances, &state.deletions] {
        work.leave().await;
    }
}

/// Removes the metrics of Repositories that were deleted, because there is no reconcile for a deleted object.
async fn forget_gone(context: &Context, there: &Known) {
    if !there.wait_until_ready().await {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(NEXT_TRY).await;
        let known: BTreeSet<(String, String)> = there
            .state()
            .iter()
            .map(|object| (object.namespace().unwrap_or_default(), object.name_any()))
            .collect();
        let is_there = |namespace: &str, name: &str| known.contains(&(namespace.to_owned(), name.to_owned()));
        context.metrics.repositories.retain(is_there);
    }
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let namespace = object.namespace().unwrap_or_default();
    if !context.served.serves(&context, &namespace).await? {
        return Ok(Action::await_change());
    }
    let repository: Repository = match objects::typed(&object) {
        Ok(repository) => repository,
        Err(error) => {
            return Ok(unreadable::warn(&context, &state.resource, &object, error).await);
        }
    };
    if repository.metadata.deletion_timestamp.is_some() {
        return wipe_out::reconcile(&context, &state, &repository).await;
    }
    let repository = keep_finalizer(&context, repository).await?;
    if let Some(refusal) = context.policies.refusal(REPOSITORY) {
        return hold(&context, &repository, &refusal).await;
    }
    let uid = repository.metadata.uid.clone().unwrap_or_default();
    let last = locked(&state.memory.looks).get(&uid).copied();
    let is_doubtful =
        context.repository_doubts.settle(&key_of(&namespace, &repository.name_any()).to_string());
    let look = if is_doubtful { Look::Now } else { due::look(&repository, last, context.now()) };
    let Look::In(next_look) = look else {
        start_look(&context, &state, repository);
        return Ok(Action::requeue(NEXT_TRY));
    };
    let repository = users::show(&context, &state.memory.users, repository).await?;
    by_mover::clear_left(&context, &repository).await?;
    let has_notes = notes::has_any(&repository);
    if has_notes {
        start_notes(&context, &state, repository.clone());
    }
    let next_look = if has_notes { next_look.min(NEXT_TRY) } else { next_look };
    let next = maintenance(&context, &state, repository).await?;
    Ok(Action::requeue(next.map_or(next_look, |next| next.min(next_look))))
}

/// Leaves a Repository alone while nothing checks who writes it, and says so in its status.
async fn hold(context: &Context, repository: &Repository, refusal: &str) -> Result<Action, ApiError> {
    let refused = ConditionType::RepositoryReachable.no(refusal);
    let observed = Observed { conditions: vec![refused], ..Observed::default() };
    let old = repository.status.clone().unwrap_or_default();
    object::write_status(context, repository, &status::status(&old, &observed, context.now())).await?;
    observe::tell(context, repository, &observed.conditions).await;
    Ok(Action::requeue(NEXT_TRY))
}

/// Inspects a Repository in the background. The result is written into its status, which triggers the next reconcile.
fn start_look(context: &Context, state: &Arc<State>, repository: Repository) {
    let (context, memory) = (context.clone(), state.memory.clone());
    let uid = repository.metadata.uid.clone().unwrap_or_default();
    state.looks.start(&uid.clone(), |_| async move {
        let looked = Box::pin(observe::observe(&context, &memory.users, &repository)).await;
        match &looked {
            Ok(()) => _ = locked(&memory.looks).insert(uid, context.now()),
            Err(error) => {
                let (repository, message) = (repository.name_any(), error.chain());
                tracing::warn!(repository, message, "cannot look at a Repository now; it is tried again");
            }
        }
        WorkEnd::of(&looked, ApiError::category)
    });
}

/// Processes the notes on a Repository in the background.
fn start_notes(context: &Context, state: &Arc<State>, repository: Repository) {
    let context = context.clone();
    state.notes.start(&repository.uid().unwrap_or_default(), |_| async move {
        let worked_off = Box::pin(notes::work_off(&context, &repository)).await;
        if let Err(error) = &worked_off {
            let (repository, message) = (repository.name_any(), error.chain());
            tracing::warn!(repository, message, "notes on a Repository are left for now");
        }
        WorkEnd::of(&worked_off, ApiError::category)
    });
}

/// Adds or removes the finalizer, according to `wipeOut`.
async fn keep_finalizer(context: &Context, repository: Repository) -> Result<Repository, ApiError> {
    let finalizers = repository.metadata.finalizers.clone().unwrap_or_default();
    let is_there = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    if is_there == repository.spec.wipe_out {
        return Ok(repository);
    }
    let mut wanted = finalizers;
    wanted.retain(|finalizer| finalizer != FINALIZER);
    if repository.spec.wipe_out {
        wanted.push(FINALIZER.to_owned());
    }
    object::merge(context, &repository, json!({"metadata": {"finalizers": wanted}})).await
}

/// Starts or continues a maintenance. Returns when the next one is due, if there is one.
async fn maintenance(
    context: &Context,
    state: &Arc<State>,
    repository: Repository,
) -> Result<Option<Duration>, ApiError> {
    let uid = repository.metadata.uid.clone().unwrap_or_default();
    let failed = locked(&state.memory.failures).get(&uid).copied();
    let (repository, run) = match due::maintenance(&repository, failed, context.now()) {
        Maintenance::Nothing => return Ok(None),
        Maintenance::In(rest) => return Ok(Some(rest)),
        Maintenance::GoOn(run) => (repository, run),
        Maintenance::Now(run) => (maintain::begin(context, &repository, run).await?, run),
    };
    let (context, memory) = (context.clone(), state.memory.clone());
    state.maintenances.start(&uid.clone(), |_| async move {
        let ended = Box::pin(maintain::carry_out(&context, &repository, run)).await;
        match ended {
            Ok(ended) => {
                match &ended {
                    Ok(()) => locked(&memory.failures).remove(&uid),
                    Err(_) => locked(&memory.failures).insert(uid, context.now()),
                };
                WorkEnd::of(&ended, MaintenanceError::category)
            }
            Err(error) => {
                let (repository, message) = (repository.name_any(), error.chain());
                tracing::warn!(repository, message, "cannot continue a maintenance now; it is tried again");
                WorkEnd::Failed(error.category())
            }
        }
    });
    Ok(Some(NEXT_TRY))
}

/// Whether a Repository has recorded a task: its maintenance, or the work of a mover for the server.
pub(crate) fn task_state(object: &Value, owner: &Owner, task: &TaskId) -> TaskState {
    let is_own = object["metadata"]["uid"] == *owner.uid;
    if is_own && (is_under_way(object, task) || mover_work::current(object).as_ref() == Some(task)) {
        TaskState::Open
    } else {
        TaskState::Over
    }
}
