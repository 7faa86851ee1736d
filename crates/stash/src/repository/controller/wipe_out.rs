//! Deletes the data of a Repository with it. A finalizer holds the object until the data is gone, or until it is clear that it stays: then
//! the status says why. Nothing is deleted unless the repository in the backend is the one on record and this Repository alone uses it.
//!
//! Before the first file is deleted, a digest of the repository's config is noted; the config itself is deleted last. So a server that
//! continues after a crash knows that the files are those of the same repository, although its keys are gone.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::stash::{Backend, Repository};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::repository::wipe_out::{
    FINALIZER, UPSTREAM_FINALIZER, WIPING, WipeFacts, WipeOut, decide, is_own_file,
};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_repository::lock::remove_stale_locks;
use lifeboat_store::Store;
use lifeboat_transfer::repositories::RepositoryProblem;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::host::{Found, NoAccess, access_of};
use super::super::opened::recorded;
use super::super::reservations::{self, ReservationError, ReservedId};
use super::super::{key_of, look, object, state};
use super::{Memory, State};
use crate::context::Context;

/// How often a deletion that is refused or failed is tried again.
const NEXT_TRY: Duration = Duration::from_mins(1);
/// How many files one request deletes at most.
const BATCH: usize = 1000;

/// Why the data is not deleted now.
#[derive(Debug)]
enum NotWiped {
    /// For people: why, and what to do.
    Refused(String),
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
            other => Self::Refused(format!("the data is not deleted: {}", other.chain())),
        }
    }
}

impl From<lifeboat_store::Error> for NotWiped {
    fn from(error: lifeboat_store::Error) -> Self {
        let message = lifeboat_transfer::repositories::storage_message(&error);
        Self::Refused(format!("the data is not deleted: {message}"))
    }
}

/// Works on a Repository that is being deleted.
pub(super) async fn reconcile(
    context: &Context,
    state: &Arc<State>,
    repository: &Repository,
) -> Result<Action, ApiError> {
    let (namespace, name) = object::parts(repository);
    let uid = repository.uid().unwrap_or_default();
    context.repositories.close(&key_of(namespace, name));
    let held = |finalizer: &str| repository.finalizers().iter().any(|own| own == finalizer);
    if !held(FINALIZER) && !held(UPSTREAM_FINALIZER) {
        state.memory.forget(&uid);
        return Ok(Action::await_change());
    }
    if !repository.spec.wipe_out {
        return let_go(context, &state.memory, repository).await;
    }
    if repository.annotations().contains_key(WIPING) {
        start(context, state, repository.clone());
        return Ok(Action::requeue(NEXT_TRY));
    }
    match judged(context, repository).await {
        Ok(WipeOut::Nothing) => let_go(context, &state.memory, repository).await,
        Ok(WipeOut::Delete) => {
            match begin(context, repository).await {
                Ok(begun) => start(context, state, begun),
                Err(NotWiped::Api(error)) => return Err(error),
                Err(NotWiped::Refused(message)) => refuse(context, repository, &message).await?,
            }
            Ok(Action::requeue(NEXT_TRY))
        }
        Ok(WipeOut::Refused(refused)) => {
            refuse(context, repository, &refused.to_string()).await?;
            Ok(Action::requeue(NEXT_TRY))
        }
        Err(NotWiped::Refused(message)) => {
            refuse(context, repository, &message).await?;
            Ok(Action::requeue(NEXT_TRY))
        }
        Err(NotWiped::Api(error)) => Err(error),
    }
}

/// The status and an event say why the data stays.
async fn refuse(context: &Context, repository: &Repository, message: &str) -> Result<(), ApiError> {
    let mut status = repository.status.clone().unwrap_or_default();
    ConditionType::DataWipedOut.no(message).set_in(&mut status.conditions, context.now());
    if Some(&status) != repository.status.as_ref() {
        context.events.warning(&repository.object_ref(&()), "DataNotDeleted", message).await;
    }
    object::write_status(context, repository, &status).await.map(drop)
}

/// Removes the finalizers: the object goes.
async fn let_go(context: &Context, memory: &Memory, repository: &Repository) -> Result<Action, ApiError> {
    let left = repository.finalizers().iter().filter(|own| *own != FINALIZER && *own != UPSTREAM_FINALIZER);
    let left: Vec<&String> = left.collect();
    match object::merge(context, repository, json!({"metadata": {"finalizers": left}})).await {
        Err(error) if error.is_not_found() => {}
        other => _ = other?,
    }
    memory.forget(&repository.uid().unwrap_or_default());
    Ok(Action::await_change())
}

/// Gathers what is known, and decides.
async fn judged(context: &Context, repository: &Repository) -> Result<WipeOut, NotWiped> {
    let (namespace, name) = object::parts(repository);
    let Found { backend, access } = match access_of(context, repository).await {
        Ok(found) => found,
        Err(NoAccess::Api(error)) => return Err(error.into()),
        Err(problem) => {
            let hint = "correct it, or set wipeOut to false to delete the object without its data";
            return Err(NotWiped::Refused(format!("the data is not deleted: {problem}; {hint}")));
        }
    };
    access.store()?;
    let opened = match look::open(context, &access).await {
        Ok(opened) => Some(opened),
        Err(problem) if problem.is_missing() => None,
        Err(problem) => return Err(problem.into()),
    };
    let recorded = recorded(repository);
    let (mut users, mut others, mut locks, mut other_clusters) = (Vec::new(), Vec::new(), Vec::new(), 0);
    if let (Some(opened), Some(recorded)) = (&opened, &recorded) {
        users = users_of(context, namespace, &ReservedId::new(&access, namespace, &recorded.id)).await?;
        others = others_of(context, repository, &recorded.id).await?;
        let left = remove_stale_locks(opened, &[]).await.map_err(RepositoryProblem::from)?;
        locks = left.kept.into_iter().map(|kept| kept.holder.host).collect();
        locks.extend(left.unreadable.iter().map(|_| "an unknown process".to_owned()));
        let cluster = context.repositories.cluster(context).await?;
        let states = state::read_all(opened).await.map_err(RepositoryProblem::from)?;
        other_clusters = states.iter().filter(|state| state.cluster != cluster).count();
    }
    let found = opened.as_ref().map(|opened| opened.config().id.as_str());
    tracing::info!(namespace, repository = name, ?found, "a Repository with wipeOut is being deleted");
    Ok(decide(&WipeFacts {
        recorded: recorded.as_ref(),
        location: &record::location(&backend),
        found,
        users: &users,
        others: &others,
        namespace,
        locks: &locks,
        other_clusters,
    }))
}

/// The objects that use the repository. Names of other namespaces are not shown.
async fn users_of(context: &Context, namespace: &str, id: &ReservedId) -> Result<Vec<String>, NotWiped> {
    let record = match reservations::read(context, id).await {
        Ok(record) => record,
        Err(ReservationError::Api(error)) => return Err(error.into()),
        Err(error) => return Err(NotWiped::Refused(format!("the data is not deleted: {}", error.chain()))),
    };
    let claims = record.holders().iter().chain(record.waiting());
    let shown = |claim: &lifeboat_plan::stash::reservation::Claim| {
        if claim.namespace == namespace {
            format!("{} {}", claim.kind, claim.name)
        } else {
            "an object of another namespace".to_owned()
        }
    };
    Ok(claims.map(shown).collect())
}

/// Other Repositories with this ID on record, or with the same storage.
async fn others_of(context: &Context, own: &Repository, id: &str) -> Result<Vec<String>, ApiError> {
    let resource = objects::resource_of::<Repository>();
    let mut others = Vec::new();
    for api in context.served.scope().apis(&context.client, &resource) {
        let listed = api.list(&ListParams::default()).await.attempt("list Repositories")?;
        let same = listed.items.iter().filter(|other| other.uid() != own.uid() && is_same(other, own, id));
        others.extend(
            same.map(|other| format!("{}/{}", other.namespace().unwrap_or_default(), other.name_any())),
        );
    }
    Ok(others)
}

fn is_same(other: &DynamicObject, own: &Repository, id: &str) -> bool {
    let storage = |backend: &Backend| Backend { storage_secret_name: String::new(), ..backend.clone() };
    let backend = serde_json::from_value::<Backend>(other.data["spec"]["backend"].clone()).ok();
    other.annotations().get(record::ID).is_some_and(|other| other == id)
        || backend.is_some_and(|backend| storage(&backend) == storage(&own.spec.backend))
}

/// Notes which repository is deleted, on the condition that the object did not change meanwhile.
async fn begin(context: &Context, repository: &Repository) -> Result<Repository, NotWiped> {
    let access = access_of(context, repository).await.map_err(RepositoryProblem::from)?.access;
    let digest = config_digest(access.store()?).await?.unwrap_or_default();
    let patch = json!({"metadata": {"annotations": {WIPING: digest}}});
    Ok(object::merge(context, repository, patch).await?)
}

/// A digest of the config as it is stored; None if there is none.
async fn config_digest(store: &Store) -> Result<Option<String>, lifeboat_store::Error> {
    match store.get("config").await {
        Ok(config) => {
            let digest = Sha256::digest(&config);
            Ok(Some(digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes in the background: a repository may have millions of files.
fn start(context: &Context, state: &Arc<State>, repository: Repository) {
    let (context, memory) = (context.clone(), state.memory.clone());
    state.deletions.start(&repository.uid().unwrap_or_default(), |_| async move {
        let (namespace, name) = object::parts(&repository);
        let ended = match deleted(&context, &repository).await {
            Ok(()) => gone(&context, &memory, &repository).await,
            Err(NotWiped::Api(error)) => Err(error),
            Err(NotWiped::Refused(message)) => match object::read(&context, namespace, name).await {
                Ok(repository) => refuse(&context, &repository, &message).await,
                Err(_gone) => Ok(()),
            },
        };
        if let Err(error) = ended {
            let message = error.chain();
            tracing::warn!(
                namespace,
                repository = name,
                message,
                "cannot delete the data of a Repository now; it is tried again"
            );
        }
    });
}

/// Deletes the files of the repository, its config last.
async fn deleted(context: &Context, repository: &Repository) -> Result<(), NotWiped> {
    let noted = repository.annotations().get(WIPING).cloned().unwrap_or_default();
    let access = access_of(context, repository).await.map_err(RepositoryProblem::from)?.access;
    let store = access.store()?;
    match config_digest(store).await? {
        // It goes last: everything else is gone.
        None => return Ok(()),
        Some(found) if found == noted => {}
        Some(_) => {
            let message = "the data is not deleted any further: the backend holds another repository now; set wipeOut to false to \
                           delete the object without it";
            return Err(NotWiped::Refused(message.to_owned()));
        }
    }
    let mut listing = store.list("");
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(info) = listing.try_next().await? {
        if is_own_file(&info.key) && info.key != "config" {
            batch.push(info.key);
        }
        if batch.len() == BATCH {
            store.delete_many(std::mem::take(&mut batch)).await?;
        }
    }
    store.delete_many(batch).await?;
    store.delete("config").await?;
    Ok(())
}

/// The data is gone: the object goes.
async fn gone(context: &Context, memory: &Memory, repository: &Repository) -> Result<(), ApiError> {
    let (namespace, name) = object::parts(repository);
    tracing::info!(namespace, repository = name, "the data of a Repository was deleted with it");
    match object::api(context, namespace)
        .get_opt(name)
        .await
        .attempt(format!("read Repository {namespace}/{name}"))?
    {
        Some(now) if now.uid() == repository.uid() => let_go(context, memory, &now).await.map(drop),
        _ => Ok(()),
    }
}
