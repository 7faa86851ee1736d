//! Finds other users of the repository whose data is to be deleted. Every object that may use it counts.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use lifeboat_api::stash::{Backend, Repository};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::backend::{Place, place};
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::reservation::Claim;

use super::super::super::claims::release_gone;
use super::super::super::reservations::{self, ReservedId};
use super::super::super::{object, used_by};
use super::NotWiped;
use crate::context::Context;

/// The objects that use the repository: those that have reserved it or wait for it, and those that name its Repository. Names of other
/// namespaces are not shown.
pub(super) async fn of(
    context: &Context,
    repository: &Repository,
    id: &str,
) -> Result<Vec<String>, NotWiped> {
    let (namespace, _) = object::parts(repository);
    let uid = repository.uid().unwrap_or_default();
    let mut users = BTreeSet::new();
    let mut add = |kind: &str, of: &str, name: &str| {
        users.insert(if of == namespace {
            format!("{kind} {name}")
        } else {
            "an object of another namespace".to_owned()
        });
    };
    for reserved in ReservedId::both(namespace, id) {
        release_gone(context, &reserved).await?;
        let record = reservations::read(context, &reserved).await?;
        let others = record.all().filter(|claim: &&Claim| claim.uid != uid);
        others.for_each(|claim| add(claim.kind.as_str(), &claim.namespace, &claim.name));
    }
    let named = used_by::users(context, repository, true).await?;
    named.iter().filter(|user| !user.is_over()).for_each(|user| add(&user.kind, &user.namespace, &user.name));
    Ok(users.into_iter().collect())
}

/// Other Repositories that have recorded this ID, or that have the same storage.
pub(super) async fn others(context: &Context, own: &Repository, id: &str) -> Result<Vec<String>, ApiError> {
    let resource = objects::resource_of::<Repository>();
    let mut others = Vec::new();
    for api in context.served.scope().apis(&context.client, &resource) {
        let listed = api.list(&ListParams::default()).await.attempt("list Repositories")?;
        for other in listed.items.iter().filter(|other| other.uid() != own.uid()) {
            if is_same(context, other, own, id).await? {
                others.push(format!("{}/{}", other.namespace().unwrap_or_default(), other.name_any()));
            }
        }
    }
    Ok(others)
}

async fn is_same(
    context: &Context,
    other: &DynamicObject,
    own: &Repository,
    id: &str,
) -> Result<bool, ApiError> {
    if other.annotations().get(record::ID).is_some_and(|other| other == id) {
        return Ok(true);
    }
    let Ok(backend) = serde_json::from_value::<Backend>(other.data["spec"]["backend"].clone()) else {
        return Ok(false);
    };
    let (Some(there), Some(here)) = (place(&backend, None), place(&own.spec.backend, None)) else {
        return Ok(false);
    };
    if !there.may_be(&here) || !here.has_account() {
        return Ok(there.may_be(&here));
    }
    // Few are left for which Secrets have to be read.
    let there = place_of(context, &other.namespace().unwrap_or_default(), &backend).await?;
    let here = place_of(context, object::parts(own).0, &own.spec.backend).await?;
    Ok(there.is_some_and(|there| here.is_some_and(|here| there.may_be(&here))))
}

/// The place of a backend of a namespace, with the account that its Secret names.
async fn place_of(context: &Context, namespace: &str, backend: &Backend) -> Result<Option<Place>, ApiError> {
    let (api, name): (Api<Secret>, _) =
        (Api::namespaced(context.client.clone(), namespace), &backend.storage_secret_name);
    let secret = api.get_opt(name).await.attempt(format!("read Secret {namespace}/{name}"))?;
    let data = secret.map(|secret| secret.data.unwrap_or_default());
    Ok(place(backend, data.as_ref()))
}
