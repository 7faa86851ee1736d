//! One look at a Repository: opens it, and writes what was found into its status, its Snapshot objects and the metrics.

use lifeboat_api::stash::Repository;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::backend::BackendAccess;
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::repository::status::{self, Content, Observed};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation, Truth};
use lifeboat_transfer::repositories::RepositoryProblem;

use super::super::host::{Found, NoAccess, access_of};
use super::super::opened::{recorded, verified};
use super::super::session_end::show_metrics;
use super::super::{Looked, look, object, snapshot_objects};
use super::users::Users;
use crate::context::Context;

const SECRET: ConditionType = ConditionType::BackendSecretFound;
const REACHABLE: ConditionType = ConditionType::RepositoryReachable;

/// What was found.
struct Seen {
    conditions: Vec<Observation>,
    found: Option<(BackendAccess, Looked)>,
}

/// Looks at a Repository. Gives the object as it is then.
pub(super) async fn observe(
    context: &Context,
    users: &Users,
    repository: Repository,
) -> Result<Repository, ApiError> {
    let Seen { conditions, found } = Box::pin(seen(context, &repository)).await?;
    let seen_content = found.as_ref().map(|(_, looked)| Content::of(&looked.snapshots, looked.bytes));
    // The record may have been written just now: the users are known by it.
    let (namespace, name) = object::parts(&repository);
    let Ok(repository) = object::read(context, namespace, name).await else { return Ok(repository) };
    let observation = Observed {
        generation: repository.metadata.generation,
        conditions,
        content: seen_content,
        ..users.observed(&repository)
    };
    let status = status::status(&repository.status.clone().unwrap_or_default(), &observation, context.now());
    let repository = object::write_status(context, &repository, &status).await?;
    if let Some((backend, looked)) = found {
        show_metrics(context, &repository, &backend, &status, looked.bytes);
        snapshot_objects::show(context, &repository, &looked.snapshots).await?;
    }
    Ok(repository)
}

async fn seen(context: &Context, repository: &Repository) -> Result<Seen, ApiError> {
    let conditions = |secret: Observation, reachable: Observation| Seen {
        conditions: vec![secret, reachable],
        found: None,
    };
    let Found { backend, access } = match access_of(context, repository).await {
        Ok(found) => found,
        Err(NoAccess::Api(error)) => return Err(error),
        Err(problem) => {
            let message = problem.to_string();
            let secret = match &problem {
                NoAccess::NoSecret { .. } => SECRET.no(message.clone()),
                _ => SECRET.yes(""),
            };
            return Ok(conditions(secret, REACHABLE.no(message)));
        }
    };
    if !access.is_opened_by_server() {
        let reason = access.store().err().map(|problem| problem.chain()).unwrap_or_default();
        let message = format!("{reason}; sessions look at it with their movers");
        return Ok(conditions(SECRET.yes(""), REACHABLE.observed(Truth::Unknown, message)));
    }
    let location = record::location(&backend);
    let looked = match look::look(context, &access, true).await {
        Ok(looked) => looked,
        Err(RepositoryProblem::Api(error)) => return Err(error),
        Err(problem) if problem.is_missing() => {
            let reachable = match record::may_create(recorded(repository).as_ref(), &location) {
                Ok(()) => REACHABLE.yes("the backend answers; the repository is made by its first invoker"),
                Err(vanished) => REACHABLE.no(vanished.to_string()),
            };
            return Ok(conditions(SECRET.yes(""), reachable));
        }
        Err(problem) => {
            context.repositories.close(&access.key);
            return Ok(conditions(SECRET.yes(""), REACHABLE.no(problem.chain())));
        }
    };
    match verified(context, repository, &location, &looked.id).await {
        Ok(()) => {
            let conditions = vec![SECRET.yes(""), REACHABLE.yes("")];
            Ok(Seen { conditions, found: Some((backend, looked)) })
        }
        Err(RepositoryProblem::Api(error)) => Err(error),
        Err(problem) => Ok(conditions(SECRET.yes(""), REACHABLE.no(problem.chain()))),
    }
}
