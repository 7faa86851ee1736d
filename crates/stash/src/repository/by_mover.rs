//! Repositories that the server cannot open: on a volume, or in a bucket whose Secret has no keys because pods have a
//! cloud identity. A mover in the namespace of the Repository creates the repository, inspects it, and forgets
//! snapshots, with the runtimeSettings of an invoker of that namespace. Only one such mover at a time works on a
//! repository; its task is recorded in an annotation of the Repository before its Job is created. Every task can be
//! repeated, so after a crash the next server starts another mover.

mod task;

use std::time::Duration;

use lifeboat_api::common::TaskId;
use lifeboat_api::stash::Repository;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::Outcome;
use lifeboat_mover::task::{ForgetWork, LookWork, TaskWork};
use lifeboat_plan::stash::repository::mover_work;
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::transfer::repository_notes::unlocked;
use lifeboat_transfer::movers::{ListedSnapshots, MoverEnd, MoverObserver, MoverRequest};
use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem, RepositoryRecords};
use tokio_util::sync::CancellationToken;

use super::host::{RepositoryAccess, TenantRepositories, access_to};
use super::opened::{being_deleted, put_on_record, recorded, to_json};
use super::{look, object, shown};
use crate::context::Context;
use crate::looks::Looked;
use crate::repository_key::{directory_of, parts_of, root_of};
use task::{Lines, outcomes, request, wrong_image};

/// How long a mover may take, including the wait for its turn.
const GIVE_UP: Duration = Duration::from_hours(2);
/// The maximum number of snapshots that are listed, the newest first. They are lines of a log, of which the kubelet
/// keeps a few megabytes.
const MOST_LISTED: u64 = 10_000;
/// How many snapshots one mover forgets; the size of its Secret, which has their IDs, is limited.
const MOST_FORGOTTEN: usize = 2_000;
/// How often an inspection is run if lines of its log were lost.
const TRIES: usize = 2;

/// What a mover did: the outcomes of its parts, and the snapshots that it listed.
struct Done {
    outcomes: Vec<Outcome>,
    listed: ListedSnapshots,
}

/// The recorded ID of the repository. If none is recorded, a mover creates the repository unless it exists, and
/// inspects it.
pub(super) async fn open_or_make(
    context: &Context,
    repository: &Repository,
    found: &RepositoryAccess,
) -> Result<String, RepositoryProblem> {
    let location = record::location(&found.backend);
    let on_record = |repository: &Repository| {
        let known = recorded(repository, &found.access.key, &location);
        known.filter(|recorded| recorded.location == location).map(|recorded| recorded.id)
    };
    if let Some(id) = on_record(repository) {
        return Ok(id);
    }
    let key = &found.access.key;
    let _turn = context.looks.turn(&root_of(key)).await;
    let (namespace, name) = object::parts(repository);
    let now = object::read(context, namespace, name).await?;
    if let Some(id) = on_record(&now) {
        return Ok(id);
    }
    let works = vec![TaskWork::Init, TaskWork::Look(LookWork::new(MOST_LISTED))];
    let done = Box::pin(run(context, &now, &found.access, works)).await?;
    let Some(Outcome::Initialized(made)) = done.outcomes.first() else { return Err(wrong_image()) };
    put_on_record(context, key, &made.repository).await?;
    if let Ok(looked) = looked(&done, 1) {
        context.looks.found(key, &looked);
        if directory_of(key).is_none() {
            shown::show(context, &now, &found.backend, &looked).await?;
        }
    }
    Ok(made.repository.clone())
}

/// The content of the repository, from a recent inspection or from one that is run now.
pub(super) async fn look(context: &Context, key: &RepositoryKey) -> Result<Looked, RepositoryProblem> {
    if let Some(looked) = context.looks.known(key) {
        return Ok(looked);
    }
    let _turn = context.looks.turn(&root_of(key)).await;
    // Another caller may have started a mover in the meantime.
    match context.looks.known(key) {
        Some(looked) => Ok(looked),
        None => look_now(context, key).await,
    }
}

/// The content of the repository, from an inspection that is run now.
pub(super) async fn look_anew(context: &Context, key: &RepositoryKey) -> Result<Looked, RepositoryProblem> {
    let _turn = context.looks.turn(&root_of(key)).await;
    look_now(context, key).await
}

async fn look_now(context: &Context, key: &RepositoryKey) -> Result<Looked, RepositoryProblem> {
    let (repository, access) = current(context, key).await?;
    for _ in 0..TRIES {
        let states = context.looks.states(key);
        let works = vec![TaskWork::Look(LookWork { states: states.clone(), ..LookWork::new(MOST_LISTED) })];
        let done = Box::pin(run(context, &repository, &access, works)).await?;
        match looked(&done, 0) {
            Ok(looked) => {
                context.looks.written(key, &states);
                context.looks.found(key, &looked);
                return Ok(looked);
            }
            Err(LookLost::Lines(message)) => tracing::warn!(repository = %key, message, "looking again"),
            Err(LookLost::WrongImage) => return Err(wrong_image()),
        }
    }
    let message = "the snapshots that a mover listed could not be read from its log";
    Err(RepositoryProblem::Storage(message.to_owned()))
}

/// Why the result of an inspection cannot be used.
enum LookLost {
    Lines(String),
    WrongImage,
}

fn looked(done: &Done, part: usize) -> Result<Looked, LookLost> {
    let Some(Outcome::Looked(found)) = done.outcomes.get(part) else { return Err(LookLost::WrongImage) };
    if let Some(message) = &found.states_failed {
        let repository = &found.repository;
        tracing::warn!(repository, message, "a mover did not write the state in the backend");
    }
    let lines = done.listed.complete(found).map_err(|lost| LookLost::Lines(lost.to_string()))?;
    Ok(Looked {
        id: found.repository.clone(),
        snapshots: lines.into_iter().map(look::facts_of).collect(),
        bytes: Some(found.bytes),
    })
}

/// Forgets snapshots by their full IDs. Snapshots that no longer exist are not an error.
pub(super) async fn forget(
    context: &Context,
    key: &RepositoryKey,
    ids: &[String],
) -> Result<(), RepositoryProblem> {
    let _turn = context.looks.turn(&root_of(key)).await;
    for some in ids.chunks(MOST_FORGOTTEN) {
        let (repository, access) = current(context, key).await?;
        let works = vec![TaskWork::Forget(ForgetWork { snapshots: some.to_vec() })];
        let done = Box::pin(run(context, &repository, &access, works)).await?;
        let Some(Outcome::Forgotten(forgotten)) = done.outcomes.first() else { return Err(wrong_image()) };
        context.looks.forgotten(key, some);
        if forgotten.emptied {
            TenantRepositories(context.clone()).set_emptied(key, true).await?;
        }
    }
    Ok(())
}

/// Reads the current Repository, and the access to its storage.
async fn current(context: &Context, key: &RepositoryKey) -> Result<(Repository, Access), RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let access = access_to(context, &repository, key.clone()).await?.access;
    Ok((repository, access))
}

/// Starts a mover and waits for its end. The caller holds the turn of the repository. After a failure no mover is
/// started for a while.
async fn run(
    context: &Context,
    repository: &Repository,
    access: &Access,
    works: Vec<TaskWork>,
) -> Result<Done, RepositoryProblem> {
    let (namespace, name) = object::parts(repository);
    if repository.metadata.deletion_timestamp.is_some() {
        return Err(being_deleted(namespace, name));
    }
    if context.effects.is_none() && context.movers.settings().image.is_empty() {
        let reason = access.store().err().map(|problem| problem.chain()).unwrap_or_default();
        return Err(RepositoryProblem::MoversOnly(format!(
            "{reason}; and the server does not know the image of movers: run `lifeboat install` again, or give it --mover-image"
        )));
    }
    let generation = repository.metadata.generation;
    if let Some(message) = context.looks.failure(&access.key, generation) {
        return Err(RepositoryProblem::Storage(message));
    }
    let done = recorded_run(context, repository, access, works).await;
    if let Err(problem) = &done
        && !matches!(problem, RepositoryProblem::Api(_))
        && !problem.is_missing()
    {
        context.looks.failed(&access.key, generation, &problem.chain());
    }
    done
}

async fn recorded_run(
    context: &Context,
    repository: &Repository,
    access: &Access,
    works: Vec<TaskWork>,
) -> Result<Done, RepositoryProblem> {
    let (namespace, name) = object::parts(repository);
    let begun = mover_work::begin(&to_json(repository), context.now());
    object::annotate(context, namespace, name, begun.patch).await?;
    if let Some(left) = &begun.left {
        clear(context, namespace, left).await?;
    }
    let done = Box::pin(carried_out(context, repository, access, &begun.task, works)).await;
    object::annotate(context, namespace, name, mover_work::ended()).await?;
    clear(context, namespace, &begun.task).await?;
    done
}

/// Removes the record of a task that an earlier server started, unless a task is running now.
pub(super) async fn clear_left(context: &Context, repository: &Repository) -> Result<(), ApiError> {
    let Some(left) = mover_work::current(&to_json(repository)) else { return Ok(()) };
    let (namespace, name) = object::parts(repository);
    let Some(_turn) = context.looks.try_turn(&super::key_of(namespace, name)) else { return Ok(()) };
    object::annotate(context, namespace, name, mover_work::ended()).await?;
    clear(context, namespace, &left).await
}

async fn carried_out(
    context: &Context,
    repository: &Repository,
    access: &Access,
    task: &TaskId,
    works: Vec<TaskWork>,
) -> Result<Done, RepositoryProblem> {
    let count = works.len();
    let request = request(context, repository, access, task, works).await?;
    let dead = request.task.lock.dead_owners.clone();
    let (listed, cancel) = (Lines::default(), CancellationToken::new());
    let late = async {
        tokio::time::sleep(GIVE_UP).await;
        cancel.cancel();
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = Box::pin(send(context, request, &listed, &cancel)) => ended?,
        () = late => return Err(RepositoryProblem::Storage("no mover looked at it in time".to_owned())),
    };
    let (namespace, name) = object::parts(repository);
    match ended {
        MoverEnd::Reported { result, dead_owner } => {
            let outcomes = match outcomes(result, task, count, access) {
                Ok(outcomes) => outcomes,
                Err(problem) => {
                    note_dead(context, access, dead_owner).await;
                    return Err(problem);
                }
            };
            if !dead.is_empty() {
                // The mover's task listed these owners, and the mover removed their locks.
                object::annotate(context, namespace, name, unlocked(&dead)).await?;
            }
            Ok(Done { outcomes, listed: listed.listed })
        }
        MoverEnd::Died(death) => {
            note_dead(context, access, death.dead_owner).await;
            Err(RepositoryProblem::Storage(format!("a mover that should open it ended: {}", death.message)))
        }
        MoverEnd::Cancelled { dead_owner, .. } => {
            note_dead(context, access, dead_owner).await;
            Err(RepositoryProblem::Storage("no mover opened it in time".to_owned()))
        }
        MoverEnd::Left => Err(RepositoryProblem::Storage("the server stops".to_owned())),
    }
}

/// Records the owner of a dead mover's locks; the next mover removes them.
async fn note_dead(context: &Context, access: &Access, owner: Option<String>) {
    let Some(owner) = owner else { return };
    let host = TenantRepositories(context.clone());
    if let Err(error) = host.note_dead_owner(&access.key, &owner).await {
        let message = error.chain();
        tracing::warn!(repository = %access.key, owner, message, "a lock may be left behind");
    }
}

async fn send(
    context: &Context,
    request: MoverRequest,
    observer: &dyn MoverObserver,
    cancel: &CancellationToken,
) -> Result<MoverEnd, ApiError> {
    match &context.effects {
        Some(effects) => effects.carry_out(request, observer, cancel).await,
        None => context.movers.carry_out(request, observer, cancel).await,
    }
}

async fn clear(context: &Context, namespace: &str, task: &TaskId) -> Result<(), ApiError> {
    match &context.effects {
        Some(effects) => effects.clear(namespace, task).await,
        None => context.movers.clear(namespace, task).await,
    }
}
