//! What a restore needs before its members are looked at: the Repository and the Secret of its backend.

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::invoker::{Found, Gathered, ValidDriver, ValidRestore};

use crate::context::Context;
use crate::invokers::{backend_secret, not_allowed, read_repository};

/// Reads both.
pub(super) async fn gather(
    context: &Context,
    namespace: &str,
    valid: Option<&ValidRestore>,
) -> Result<Gathered, ApiError> {
    let mut gathered = Gathered::default();
    let Some(ValidDriver::Restic(name)) = valid.map(|valid| &valid.driver) else { return Ok(gathered) };
    let Some(repository) = read_repository(context, name).await? else {
        let (namespace, name) = (&name.namespace, &name.name);
        let message =
            format!("Repository {namespace}/{name} does not exist; create it, or correct spec.repository");
        gathered.repository = Some(Found::No(message));
        return Ok(gathered);
    };
    if let Some(refusal) = not_allowed(context, namespace, &repository).await? {
        gathered.repository = Some(Found::No(refusal));
        return Ok(gathered);
    }
    gathered.repository = Some(Found::Yes);
    gathered.secret = Some(backend_secret(context, &repository).await?);
    Ok(gathered)
}

/// What is missing; None if all is there.
pub(super) fn missing(gathered: &Gathered) -> Option<&str> {
    [&gathered.repository, &gathered.secret].into_iter().flatten().find_map(|found| match found {
        Found::Yes => None,
        Found::No(message) | Found::Unknown(message) => Some(message.as_str()),
    })
}
