//! Reads what a restore needs before its members are processed: the Repository and the Secret of its backend.

use lifeboat_cluster::ApiError;
use lifeboat_plan::install::policies::REPOSITORY;
use lifeboat_plan::stash::invoker::{Gathered, Presence, ValidDriver, ValidRestore};

use crate::context::Context;
use crate::invokers::{about_repository, backend_secret, not_allowed, read_repository};
use crate::policies::Standing;

/// Reads both, unless the restore may not have been checked when it was created.
pub(super) async fn gather(
    context: &Context,
    namespace: &str,
    standing: Standing,
    valid: Option<&ValidRestore>,
) -> Result<Gathered, ApiError> {
    let mut gathered = Gathered::default();
    match standing {
        Standing::Checked => {}
        Standing::NotNow(reason) => return Ok(Gathered { unenforced: Some(reason), ..gathered }),
        Standing::Never(reason) => return Ok(Gathered { refusal: Some(reason), ..gathered }),
    }
    let Some(ValidDriver::Restic(name)) = valid.map(|valid| &valid.driver) else { return Ok(gathered) };
    if let Some(refusal) = context.policies.refusal(REPOSITORY) {
        return Ok(Gathered { unenforced: Some(about_repository(&refusal)), ..gathered });
    }
    let Some(repository) = read_repository(context, name).await? else {
        let (namespace, name) = (&name.namespace, &name.name);
        let message =
            format!("Repository {namespace}/{name} does not exist; create it, or correct spec.repository");
        gathered.repository = Some(Presence::No(message));
        return Ok(gathered);
    };
    if let Some(refusal) = not_allowed(context, namespace, &repository).await? {
        gathered.repository = Some(Presence::No(refusal));
        return Ok(gathered);
    }
    gathered.repository = Some(Presence::Yes);
    gathered.secret = Some(backend_secret(context, &repository).await?);
    Ok(gathered)
}

/// The missing object; None if nothing is missing.
pub(super) fn missing(gathered: &Gathered) -> Option<&str> {
    if gathered.unenforced.is_some() {
        return gathered.unenforced.as_deref();
    }
    [&gathered.repository, &gathered.secret].into_iter().flatten().find_map(|found| match found {
        Presence::Yes => None,
        Presence::No(message) | Presence::Unknown(message) => Some(message.as_str()),
    })
}
