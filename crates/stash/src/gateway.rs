//! Which movers get the keys of their Repository, and which reach it through the gateway. A Secret in a tenant's namespace can be read
//! by everyone who reads Secrets there, so keys go only into the Repository's own namespace and into that of Lifeboat's movers. Called by
//! sessions for each mover.

use std::sync::Arc;

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::reservation::RepositoryName;
use lifeboat_transfer::gateway::{GatewayPass, Rights};
use lifeboat_transfer::repositories::RepositoryKey;

use crate::context::Context;
use crate::invokers::{not_allowed, read_repository};
use crate::repository::{TenantRepositories, parts_of};
use crate::repository_key::STORAGE;

/// Lets the gateway open the Repositories of this API.
pub(crate) fn serve_repositories(context: &Context) {
    context.gateway.add_source(STORAGE, Arc::new(TenantRepositories(context.clone())));
}

/// Why a mover in a namespace may not use a Repository.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPass {
    #[error("Repository {namespace}/{name} does not exist; create it, or correct spec.repository")]
    Gone { namespace: String, name: String },
    /// By its usagePolicy.
    #[error("{0}")]
    NotAllowed(String),
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// How a mover in a namespace reaches a Repository: None if it gets the keys.
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
    // The password of the repository goes along, so the policy decides about the namespace of the mover, too.
    match not_allowed(context, namespace, &found).await? {
        Some(refusal) => Err(NoPass::NotAllowed(refusal)),
        None => Ok(Some(context.gateway.pass(rights))),
    }
}

#[cfg(test)]
mod tests;
