//! One inspection of a Repository: opens it, in the server or with a mover, and writes the result into its status,
//! its Snapshot objects and the metrics. An inspection waits for the tenant's storage, so no reconcile waits for it.

use kube::Resource;
use lifeboat_api::stash::Repository;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::backend::BackendAccess;
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::repository::status::{self, Observed};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation, Truth};
use lifeboat_transfer::repositories::{Access, RepositoryProblem};

use super::super::host::{NoAccess, RepositoryAccess, access_of};
use super::super::opened::{recorded_root, verified, with_secret};
use super::super::{by_mover, look, object, shown, used_by};
use super::users::Users;
use crate::context::Context;
use crate::looks::Looked;

const SECRET: ConditionType = ConditionType::BackendSecretFound;
const REACHABLE: ConditionType = ConditionType::RepositoryReachable;

/// What was found.
struct ObservedRepository {
    /// Whether the admission policies are in force: only then the spec counts as checked.
    is_checked: bool,
    conditions: Vec<Observation>,
    found: Option<(BackendAccess, Looked)>,
}

/// The Secret opens the backend; the result of the inspection.
fn secret_and(reachable: Observation) -> ObservedRepository {
    ObservedRepository { is_checked: true, conditions: vec![SECRET.yes(""), reachable], found: None }
}

/// Inspects a Repository as it was when the inspection became due.
pub(super) async fn observe(
    context: &Context,
    users: &Users,
    repository: &Repository,
) -> Result<(), ApiError> {
    let ObservedRepository { is_checked, conditions, found } = Box::pin(seen(context, repository)).await?;
    let (namespace, name) = object::parts(repository);
    // The record may have been written just now, and the users are found by it.
    let Ok(now) = object::read(context, namespace, name).await else { return Ok(()) };
    if now.metadata.uid != repository.metadata.uid {
        return Ok(());
    }
    users.refresh(context, &now).await?;
    let observed = Observed {
        // A spec that was changed in the meantime is processed again.
        generation: repository.metadata.generation.filter(|_| is_checked),
        conditions,
        ..users.observed(&now)
    };
    if let Some((backend, looked)) = found {
        return shown::with(context, &now, &backend, &looked, &observed, |_| {}).await;
    }
    let at = context.now();
    object::change_status(context, namespace, name, |repository| {
        status::status(&repository.status.clone().unwrap_or_default(), &observed, at)
    })
    .await?;
    tell(context, &now, &observed.conditions).await;
    Ok(())
}

/// Writes an event about a repository that could be reached, as far as its status says, and cannot be any more. `before`: the
/// object before `observed` was written.
pub(super) async fn tell(context: &Context, before: &Repository, observed: &[Observation]) {
    let known = before.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let lost = observed.iter().find(|found| found.kind == REACHABLE && found.truth == Truth::False);
    if let Some(lost) = lost.filter(|_| !REACHABLE.is_false(known)) {
        context.events.warning(&before.object_ref(&()), "RepositoryNotReachable", &lost.message).await;
    }
}

async fn seen(context: &Context, repository: &Repository) -> Result<ObservedRepository, ApiError> {
    let found = match access_of(context, repository).await {
        Ok(found) => found,
        Err(NoAccess::Api(error)) => return Err(error),
        Err(NoAccess::Unchecked(refusal)) => {
            let conditions = vec![REACHABLE.no(refusal)];
            return Ok(ObservedRepository { is_checked: false, conditions, found: None });
        }
        Err(problem) => {
            let message = problem.to_string();
            let secret = match &problem {
                NoAccess::NoSecret { .. } => SECRET.no(message.clone()),
                _ => SECRET.yes(""),
            };
            let conditions = vec![secret, REACHABLE.no(message)];
            return Ok(ObservedRepository { is_checked: true, conditions, found: None });
        }
    };
    let location = record::location(&found.backend);
    let is_by_mover = !found.access.is_opened_by_server();
    if is_by_mover && let Some(reason) = no_mover(context, repository, &found.access, &location).await? {
        return Ok(secret_and(REACHABLE.observed(Truth::Unknown, reason)));
    }
    let no = |message: String| {
        if is_by_mover { Observation::not_opened_by_mover(message) } else { REACHABLE.no(message) }
    };
    let RepositoryAccess { backend, access } = found;
    let looked = if is_by_mover {
        by_mover::look_anew(context, &access.key).await
    } else {
        look::look(context, &access, true).await
    };
    let looked = match looked {
        Ok(looked) => looked,
        Err(RepositoryProblem::Api(error)) => return Err(error),
        Err(problem @ RepositoryProblem::MoversOnly(_)) => {
            return Ok(secret_and(REACHABLE.observed(Truth::Unknown, problem.chain())));
        }
        Err(problem) if problem.is_missing() => {
            return Ok(secret_and(match record::may_create(recorded_root(repository).as_ref(), &location) {
                Ok(()) => REACHABLE.yes("the backend answers; the repository is made by its first invoker"),
                Err(vanished) => no(vanished.to_string()),
            }));
        }
        Err(problem) => {
            context.repositories.close(&access.key);
            return Ok(secret_and(no(with_secret(problem, repository).chain())));
        }
    };
    match verified(context, repository, &access.key, &location, &looked.id).await {
        Ok(()) => {
            let conditions = vec![SECRET.yes(""), REACHABLE.yes("")];
            Ok(ObservedRepository { is_checked: true, conditions, found: Some((backend, looked)) })
        }
        Err(RepositoryProblem::Api(error)) => Err(error),
        Err(problem) => Ok(secret_and(no(problem.chain()))),
    }
}

/// Why no mover is started to inspect a repository that only movers open; None if one is started. If no object uses
/// the Repository, no runtimeSettings for the mover exist, and an inspection is not needed.
async fn no_mover(
    context: &Context,
    repository: &Repository,
    access: &Access,
    location: &str,
) -> Result<Option<String>, ApiError> {
    let reason = access.store().err().map(|problem| problem.chain()).unwrap_or_default();
    if recorded_root(repository).is_none_or(|recorded| recorded.location != location) {
        return Ok(Some(format!(
            "{reason}; a mover opens it when the first BackupConfiguration or BackupBatch uses it"
        )));
    }
    let users = used_by::users(context, repository, false).await?;
    let has_users = users.iter().any(|user| !user.is_over());
    Ok((!has_users).then(|| format!("{reason}; movers look at it while objects of its namespace use it")))
}
