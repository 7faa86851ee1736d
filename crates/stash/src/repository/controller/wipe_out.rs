//! Deletes the data of a Repository together with the object. A finalizer keeps the object until the data is deleted;
//! if the data cannot be deleted, the status says why. Nothing is deleted unless the repository in the backend is the
//! recorded one, no other object uses it, and no other object can reserve it in the meantime.
//!
//! Before the first file is deleted, a digest of the repository's config is recorded; the config itself is deleted
//! last. So a server that continues after a crash can verify that the files belong to the same repository, although
//! its keys are already deleted.
//!
//! If the whole namespace is being deleted and its Secret was deleted first, the Secret cannot be created again: then the object
//! is released and the data stays.

mod ending;
mod files;
mod users;

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::stash::Repository;
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::WorkEnd;
use lifeboat_plan::stash::repository::layout::Left;
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::repository::wipe_out::{
    FINALIZER, UPSTREAM_FINALIZER, WIPING, WipeFacts, WipeOut, decide,
};
use lifeboat_plan::stash::reservation::{Claim, RepositoryName};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_repository::lock::remove_stale_locks;
use lifeboat_transfer::repositories::{Access, RepositoryProblem};
use serde_json::json;

use super::super::host::{NoAccess, RepositoryAccess, access_of};
use super::super::opened::recorded_root;
use super::super::reservations::{self, ReservationError, ReservedId};
use super::super::{key_of, look, object, state};
use super::{Memory, State};
use crate::context::Context;
use files::config_digest;

/// How often a deletion that is refused or failed is tried again.
const NEXT_TRY: Duration = Duration::from_mins(1);
/// The advice for users whose data cannot be deleted.
const HINT: &str = "correct it, or set wipeOut to false to delete the object without its data";

/// Why the data is not deleted now.
#[derive(Debug)]
enum NotWiped {
    /// For people: why, and what to do.
    Refused(String),
    /// The Secret does not exist: why that prevents the deletion, and what to do.
    NoSecret(String),
    Api(ApiError),
}

impl From<ApiError> for NotWiped {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<RepositoryProblem> for NotWiped {
    fn from(problem: RepositoryProblem) -> Self {
        match problem {
            RepositoryProblem::Api(error) => Self::Api(error),
            other => Self::Refused(format!("the data is not deleted: {}; {HINT}", other.chain())),
        }
    }
}

impl From<NoAccess> for NotWiped {
    fn from(problem: NoAccess) -> Self {
        let message = format!("the data is not deleted: {problem}; {HINT}");
        match problem {
            NoAccess::Api(error) => Self::Api(error),
            NoAccess::NoSecret { .. } => Self::NoSecret(message),
            _ => Self::Refused(message),
        }
    }
}

impl From<ReservationError> for NotWiped {
    fn from(error: ReservationError) -> Self {
        match error {
            ReservationError::Api(error) => Self::Api(error),
            error @ ReservationError::Record { .. } => {
                Self::Refused(format!("the data is not deleted: {}", error.chain()))
            }
        }
    }
}

impl From<lifeboat_store::Error> for NotWiped {
    fn from(error: lifeboat_store::Error) -> Self {
        let message = lifeboat_transfer::repositories::storage_message(&error);
        Self::Refused(format!("the data is not deleted: {message}"))
    }
}

/// Reconciles a Repository that is being deleted.
pub(super) async fn reconcile(
    context: &Context,
    state: &Arc<State>,
    repository: &Repository,
) -> Result<Action, ApiError> {
    let uid = repository.uid().unwrap_or_default();
    let held = |finalizer: &str| repository.finalizers().iter().any(|own| own == finalizer);
    if !held(FINALIZER) && !held(UPSTREAM_FINALIZER) {
        state.memory.forget(&uid);
        return Ok(Action::await_change());
    }
    if !repository.spec.wipe_out && !state.deletions.is_running(&uid) {
        return let_go(context, &state.memory, repository).await;
    }
    start(context, state, repository.clone());
    Ok(Action::requeue(NEXT_TRY))
}

/// Reports in the status and an event why the data stays.
async fn refuse(context: &Context, repository: &Repository, message: &str) -> Result<(), ApiError> {
    let mut status = repository.status.clone().unwrap_or_default();
    ConditionType::DataWipedOut.no(message).set_in(&mut status.conditions, context.now());
    if Some(&status) != repository.status.as_ref() {
        context.events.warning(&repository.object_ref(&()), "DataNotDeleted", message).await;
    }
    object::write_status(context, repository, &status).await.map(drop)
}

/// Removes the finalizers, so that the object is deleted. Its repository can be reserved again.
async fn let_go(context: &Context, memory: &Memory, repository: &Repository) -> Result<Action, ApiError> {
    release(context, repository).await?;
    let left = repository.finalizers().iter().filter(|own| *own != FINALIZER && *own != UPSTREAM_FINALIZER);
    let left: Vec<&String> = left.collect();
    match object::merge(context, repository, json!({"metadata": {"finalizers": left}})).await {
        Err(error) if error.is_not_found() => {}
        other => _ = other?,
    }
    memory.forget(&repository.uid().unwrap_or_default());
    Ok(Action::await_change())
}

/// Removes the claim with which the repository was held for its deletion.
async fn release(context: &Context, repository: &Repository) -> Result<(), ApiError> {
    let Some(recorded) = recorded_root(repository) else { return Ok(()) };
    let (namespace, _) = object::parts(repository);
    let uid = repository.uid().unwrap_or_default();
    for id in ReservedId::both(namespace, &recorded.id) {
        let own = |claim: &Claim| claim.is_deletion() && claim.uid == uid;
        match reservations::release(context, &id, own).await {
            Err(ReservationError::Api(error)) => return Err(error),
            Err(error) => tracing::warn!(%error, "a record of reservations cannot be read"),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Deletes in the background: storage may be slow, and a repository may have millions of files.
fn start(context: &Context, state: &Arc<State>, repository: Repository) {
    let (context, memory) = (context.clone(), state.memory.clone());
    state.deletions.start(&repository.uid().unwrap_or_default(), |_| async move {
        let (namespace, name) = object::parts(&repository);
        let ended = Box::pin(worked_on(&context, &memory, &repository)).await;
        if let Err(error) = &ended {
            let message = error.chain();
            tracing::warn!(
                namespace,
                repository = name,
                message,
                "cannot delete the data of a Repository now; it is tried again"
            );
        }
        WorkEnd::of(&ended, ApiError::category)
    });
}

/// Deletes the data and releases the object, or reports why the data stays.
async fn worked_on(context: &Context, memory: &Memory, repository: &Repository) -> Result<(), ApiError> {
    let (message, has_keys) = match Box::pin(wiped(context, repository)).await {
        Ok(Some(left)) => return gone(context, memory, repository, &left).await,
        Ok(None) => return Ok(()),
        Err(NotWiped::Api(error)) => return Err(error),
        Err(NotWiped::Refused(message)) => (message, true),
        Err(NotWiped::NoSecret(message)) => (message, false),
    };
    let (namespace, name) = object::parts(repository);
    let Ok(now) = object::read(context, namespace, name).await else { return Ok(()) };
    if !has_keys && now.uid() == repository.uid() && ending::is_ending(context, &now).await? {
        return let_go(context, memory, &now).await.map(drop);
    }
    refuse(context, &now, &message).await
}

/// Deletes the data, if it may be deleted. Returns the other files that stay; None if the current object no longer
/// requests the deletion.
async fn wiped(context: &Context, repository: &Repository) -> Result<Option<Left>, NotWiped> {
    let (namespace, name) = object::parts(repository);
    let now = object::read(context, namespace, name).await?;
    if now.uid() != repository.uid() || !now.spec.wipe_out {
        return Ok(None);
    }
    let begun = if now.annotations().contains_key(WIPING) {
        hold(context, &now).await?;
        now
    } else {
        match judged(context, &now).await? {
            Judged::Nothing => return Ok(Some(Left::default())),
            Judged::Delete { digest } => {
                // The repository is reserved before the deletion is recorded: a recorded deletion is not
                // decided again, and an invoker may have reserved the repository since the decision.
                hold(context, &now).await?;
                let patch = json!({"metadata": {"annotations": {WIPING: digest}}});
                object::merge(context, &now, patch).await?
            }
        }
    };
    let noted = begun.annotations().get(WIPING).cloned().unwrap_or_default();
    let access = access_of(context, &begun).await?.access;
    files::delete(access.store()?, &noted).await.map(Some)
}

/// Reserves the repository for its deletion, so that no invoker starts to use it.
async fn hold(context: &Context, repository: &Repository) -> Result<(), NotWiped> {
    let (namespace, name) = object::parts(repository);
    let Some(recorded) = recorded_root(repository) else { return Ok(()) };
    let access = access_of(context, repository).await?.access;
    let own = RepositoryName { namespace: namespace.to_owned(), name: name.to_owned() };
    let claim = Claim::of_deletion(own, &repository.uid().unwrap_or_default(), context.now());
    let id = ReservedId::new(&access, namespace, &recorded.id);
    if reservations::read(context, &id).await?.all().any(|known| known.uid == claim.uid) {
        return Ok(());
    }
    if reservations::claim_deletion(context, &id, &claim).await? {
        return Ok(());
    }
    let message =
        "the data is not deleted: another object has reserved the repository; delete or change it first";
    Err(NotWiped::Refused(message.to_owned()))
}

/// The decision about the data.
enum Judged {
    /// There is no data.
    Nothing,
    Delete {
        /// The digest of the repository's config.
        digest: String,
    },
}

/// Gathers the facts, and decides.
async fn judged(context: &Context, repository: &Repository) -> Result<Judged, NotWiped> {
    let (namespace, name) = object::parts(repository);
    let RepositoryAccess { backend, access } = access_of(context, repository).await?;
    // The repository is opened anew, because storage may hold another one now.
    context.repositories.close(&key_of(namespace, name));
    let digest = config_digest(access.store()?).await?;
    let opened = match look::open(context, &access).await {
        Ok(opened) => Some(opened),
        Err(problem) if problem.is_missing() => None,
        Err(problem) => return Err(problem.into()),
    };
    let recorded = recorded_root(repository);
    let (mut users, mut others, mut locks, mut other_clusters) = (Vec::new(), Vec::new(), Vec::new(), 0);
    if let (Some(opened), Some(recorded)) = (&opened, &recorded) {
        users = users::of(context, repository, &recorded.id).await?;
        others = users::others(context, repository, &recorded.id).await?;
        let left = remove_stale_locks(opened, &[]).await.map_err(RepositoryProblem::from)?;
        locks = left.kept.into_iter().map(|kept| kept.holder.host).collect();
        locks.extend(left.unreadable.iter().map(|_| "an unknown process".to_owned()));
        let cluster = context.repositories.cluster(context).await?;
        let states = state::read_all(opened).await.map_err(RepositoryProblem::from)?;
        other_clusters = states.iter().filter(|state| state.cluster != cluster).count();
    }
    let found = opened.as_ref().map(|opened| opened.config().id.as_str());
    tracing::info!(namespace, repository = name, ?found, "a Repository with wipeOut is being deleted");
    let decided = decide(&WipeFacts {
        recorded: recorded.as_ref(),
        location: &record::location(&backend),
        found,
        users: &users,
        others: &others,
        namespace,
        locks: &locks,
        other_clusters,
    });
    match decided {
        WipeOut::Nothing => Ok(Judged::Nothing),
        WipeOut::Refused(refused) => Err(NotWiped::Refused(refused.to_string())),
        WipeOut::Delete => same_config(&access, digest).await,
    }
}

/// Checks that the config in storage was the same before and after the repository was opened.
async fn same_config(access: &Access, before: Option<String>) -> Result<Judged, NotWiped> {
    match (before, config_digest(access.store()?).await?) {
        (Some(before), Some(after)) if before == after => Ok(Judged::Delete { digest: after }),
        _ => {
            let message = "the data is not deleted: the repository was exchanged while it was looked at; it is looked at again";
            Err(NotWiped::Refused(message.to_owned()))
        }
    }
}

/// The data is deleted, so the object is released. The other files that stay are named in an event, which outlives
/// the object.
async fn gone(
    context: &Context,
    memory: &Memory,
    repository: &Repository,
    left: &Left,
) -> Result<(), ApiError> {
    let (namespace, name) = object::parts(repository);
    let attempt = format!("read Repository {namespace}/{name}");
    let found = object::api(context, namespace).get_opt(name).await.attempt(attempt)?;
    let Some(now) = found.filter(|now| now.uid() == repository.uid()) else { return Ok(()) };
    tracing::info!(namespace, repository = name, %left, "the data of a Repository was deleted with it");
    let now = if left.is_nothing() {
        now
    } else {
        let message = left.to_string();
        context.events.warning(&now.object_ref(&()), "OtherFilesLeft", &message).await;
        let mut status = now.status.clone().unwrap_or_default();
        ConditionType::DataWipedOut.yes(message).set_in(&mut status.conditions, context.now());
        object::write_status(context, &now, &status).await?
    };
    let_go(context, memory, &now).await.map(drop)
}
