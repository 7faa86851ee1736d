//! Decides which movers get the keys of their Repository, and which access it through the gateway. All users who may
//! read Secrets in a tenant's namespace can read the Secret of a mover there, so keys are given only to movers in the
//! Repository's own namespace and in that of Lifeboat's movers. Called by sessions for each mover.

use std::sync::Arc;

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::reservation::RepositoryName;
use lifeboat_transfer::gateway::{GatewayPass, Rights};
use lifeboat_transfer::repositories::RepositoryKey;

use crate::context::Context;
use crate::invokers::{not_allowed, read_repository};
use crate::repository::{TenantRepositories, parts_of};
use crate::repository_key::{STORAGE, directory_of};

/// Lets the gateway open the Repositories of this API.
pub(crate) fn serve_repositories(context: &Context) {
    context.gateway.add_source(STORAGE, Arc::new(TenantRepositories(context.clone())));
}

/// Why a mover in a namespace may not use a Repository.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPass {
    #[error("Repository {namespace}/{name} does not exist; create it, or correct spec.repository")]
    Gone { namespace: String, name: String },
    /// Its usagePolicy does not allow the namespace.
    #[error("{0}")]
    NotAllowed(String),
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// The access of a mover in a namespace to a Repository through the gateway; None if it gets the keys.
pub(crate) async fn pass(
    context: &Context,
    key: &RepositoryKey,
    namespace: &str,
    rights: Rights,
) -> Result<Option<GatewayPass>, NoPass> {
    let (own, name) = parts_of(key);
    if namespace == own || namespace == context.movers.settings().namespace {
        return Ok(None);
    }
    let repository = RepositoryName { namespace: own.to_owned(), name: name.to_owned() };
    let Some(found) = read_repository(context, &repository).await? else {
        return Err(NoPass::Gone { namespace: repository.namespace, name: repository.name });
    };
    // Only Restics have directories, and their authors were checked for the right to use the Repository.
    if directory_of(key).is_some() && found.spec.usage_policy.is_none() {
        return Ok(Some(context.gateway.pass(rights)));
    }
    // The mover gets the password of the repository, so the policy must allow the namespace of the mover, too.
    match not_allowed(context, namespace, &found).await? {
        Some(refusal) => Err(NoPass::NotAllowed(refusal)),
        None => Ok(Some(context.gateway.pass(rights))),
    }
}

#[cfg(test)]
mod tests;
