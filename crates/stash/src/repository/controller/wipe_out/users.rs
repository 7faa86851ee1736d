//! Finds other users of the repository whose data is to be deleted. Every object that may use it counts.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_api::stash::{Backend, Repository};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::backend::place;
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
        let same = listed.items.iter().filter(|other| other.uid() != own.uid() && is_same(other, own, id));
        others.extend(
            same.map(|other| format!("{}/{}", other.namespace().unwrap_or_default(), other.name_any())),
        );
    }
    Ok(others)
}

fn is_same(other: &DynamicObject, own: &Repository, id: &str) -> bool {
    let backend = serde_json::from_value::<Backend>(other.data["spec"]["backend"].clone()).ok();
    let is_there = |backend: &Backend| place(backend).is_some() && place(backend) == place(&own.spec.backend);
    other.annotations().get(record::ID).is_some_and(|other| other == id)
        || backend.is_some_and(|backend| is_there(&backend))
}
