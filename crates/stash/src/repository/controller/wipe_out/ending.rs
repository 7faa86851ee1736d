//! The end of a Repository whose namespace is being deleted. Kubernetes deletes the Secrets of a namespace in any order, and refuses new
//! ones, so a Repository that waited for its Secret would hold the namespace for ever.

use kube::api::DynamicObject;
use kube::{Api, Resource};
use lifeboat_api::stash::Repository;
use lifeboat_cluster::write::is_terminating;
use lifeboat_cluster::{ApiError, Attempt, objects};

use super::super::super::object;
use crate::context::Context;

/// Whether the namespace of a Repository is being deleted. An event says then that the data stays: at the namespace, because new
/// objects in it are refused, also events.
pub(super) async fn is_ending(context: &Context, repository: &Repository) -> Result<bool, ApiError> {
    let (namespace, name) = object::parts(repository);
    let resource = objects::resource("", "v1", "Namespace", "namespaces");
    let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
    let found = api.get_opt(namespace).await.attempt(format!("read Namespace {namespace}"))?;
    let Some(found) = found.filter(|found| is_terminating(&objects::to_json(found))) else {
        return Ok(false);
    };
    let secret = &repository.spec.backend.storage_secret_name;
    let message = format!(
        "the data of Repository {name} is not deleted, although it has wipeOut: Secret {secret} went first with the namespace; delete the \
         data in the storage"
    );
    tracing::warn!(namespace, repository = name, message, "a Repository goes without its data");
    context.events.warning(&found.object_ref(&resource), "DataNotDeleted", &message).await;
    Ok(true)
}
