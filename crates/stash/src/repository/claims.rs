//! Finds and removes claims that are no longer valid: of an invoker that was deleted, that now uses another
//! Repository, or whose Repository now stands for another repository; and of a Repository whose data was to be
//! deleted. Each claim is compared with its current object.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use lifeboat_api::stash::{BackupBatch, BackupConfiguration, InvokerKind, Repository, Restic};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::reservation::{Claim, RepositoryName};

use super::object;
use super::opened::to_json;
use super::reservations::{self, ReservationError, ReservedId};

/// The resource of a kind of invokers; None for a kind that this version does not know.
pub(crate) fn invoker_resource(kind: &InvokerKind) -> Option<ApiResource> {
    match kind {
        InvokerKind::BackupConfiguration => Some(objects::resource_of::<BackupConfiguration>()),
        InvokerKind::BackupBatch => Some(objects::resource_of::<BackupBatch>()),
        InvokerKind::Restic => Some(objects::resource_of::<Restic>()),
        InvokerKind::Other(_) => None,
    }
}

/// Removes the claims of objects that no longer exist. A record that cannot be read is ignored here; the next caller
/// that claims the repository reports the error.
pub(crate) async fn release_gone(core: &Core, id: &ReservedId) -> Result<(), ApiError> {
    let record = match reservations::read(core, id).await {
        Ok(record) => record,
        Err(ReservationError::Api(error)) => return Err(error),
        Err(ReservationError::Record { .. }) => return Ok(()),
    };
    let mut gone = BTreeSet::new();
    for claim in record.all() {
        if !still_claims(core, id, claim).await? {
            gone.insert(claim.uid.clone());
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    match reservations::release(core, id, |claim| gone.contains(&claim.uid)).await {
        Err(ReservationError::Api(error)) => Err(error),
        _ => Ok(()),
    }
}

async fn still_claims(core: &Core, id: &ReservedId, claim: &Claim) -> Result<bool, ApiError> {
    if claim.is_deletion() {
        let repository = repository(core, &claim.repository).await?;
        let is_same = |found: &Repository| found.metadata.uid.as_deref() == Some(claim.uid.as_str());
        return Ok(
            repository.is_some_and(|found| is_same(&found) && found.metadata.deletion_timestamp.is_some())
        );
    }
    let Some(resource) = invoker_resource(&claim.kind) else { return Ok(true) };
    let api = objects::namespaced(&core.client, &claim.namespace, &resource);
    let attempt = format!("read {} {}/{}", claim.kind, claim.namespace, claim.name);
    let found = api.get_opt(&claim.name).await.attempt(attempt)?;
    let Some(found) = found.filter(|found| found.uid().as_deref() == Some(claim.uid.as_str())) else {
        return Ok(false);
    };
    // An invoker whose changed spec no server has processed yet keeps its claim: its new Repository may be for the
    // same bucket, and then the claim is kept for it.
    if found.data["status"]["observedGeneration"].as_i64() != found.metadata.generation {
        return Ok(true);
    }
    Ok(uses(&found, &claim.repository) && stands_for(core, &claim.repository, id).await?)
}

/// Whether an invoker writes into this Repository.
fn uses(invoker: &DynamicObject, repository: &RepositoryName) -> bool {
    // Other drivers write to no repository, even if the spec names one.
    if invoker.data["spec"]["driver"] == "VolumeSnapshotter" {
        return false;
    }
    let of = |field: &str| invoker.data["spec"]["repository"][field].as_str().unwrap_or_default();
    let own = invoker.namespace().unwrap_or_default();
    let namespace = if of("namespace").is_empty() { own.as_str() } else { of("namespace") };
    of("name") == repository.name && namespace == repository.namespace
}

/// Whether a Repository stands for this repository, according to its record.
async fn stands_for(core: &Core, name: &RepositoryName, id: &ReservedId) -> Result<bool, ApiError> {
    let Some(repository) = repository(core, name).await? else { return Ok(false) };
    let of_directories = record::recorded_ids(&to_json(&repository));
    let is_of = |recorded: &String| ReservedId::both(&name.namespace, recorded).contains(id);
    if of_directories.iter().any(is_of) {
        return Ok(true);
    }
    Ok(repository.annotations().get(record::ID).is_none_or(is_of))
}

async fn repository(core: &Core, name: &RepositoryName) -> Result<Option<Repository>, ApiError> {
    let attempt = format!("read Repository {}/{}", name.namespace, name.name);
    object::api(core, &name.namespace).get_opt(&name.name).await.attempt(attempt)
}
