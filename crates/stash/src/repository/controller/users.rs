//! The users of each repository, from the watch of the ConfigMaps, and their copy in the status of Repositories.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::reflector::ObjectRef;
use lifeboat_api::stash::{Repository, TypedObjectRef};
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::repository::status::{self, Observed};
use lifeboat_plan::stash::reservation::{self, Record, RepositoryName};

use super::super::claims::release_gone;
use super::super::object;
use super::super::opened::recorded_root;
use super::super::reservations::{self, ReservationError, ReservedId, record_of};
use crate::context::Context;
use crate::reserved::Records;

/// Who uses each repository. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Users(pub(super) Records);

impl Users {
    /// Called when a ConfigMap changed. Returns the Repositories whose users it lists.
    pub(super) fn changed(
        &self,
        map: &ConfigMap,
        known: &[Arc<DynamicObject>],
        resource: &ApiResource,
    ) -> Vec<ObjectRef<DynamicObject>> {
        let name = map.name_any();
        if !name.starts_with(&reservation::config_map_name("")) {
            return Vec::new();
        }
        // A ConfigMap is emptied before it is deleted.
        match record_of(map) {
            Ok(record) => self.0.set(&name, record),
            Err(error) => {
                tracing::warn!(config_map = name, %error, "a record of reservations cannot be read");
            }
        }
        let is_affected = |object: &&Arc<DynamicObject>| {
            let id = object.annotations().get(record::ID);
            let namespace = object.namespace().unwrap_or_default();
            id.is_some_and(|id| ReservedId::both(&namespace, id).iter().any(|id| id.config_map() == name))
        };
        let reference =
            |object: &Arc<DynamicObject>| ObjectRef::from_obj_with(object.as_ref(), resource.clone());
        known.iter().filter(is_affected).map(reference).collect()
    }

    /// Reads the users of a Repository's repository, after the claims of objects that no longer exist were removed.
    pub(super) async fn refresh(&self, context: &Context, repository: &Repository) -> Result<(), ApiError> {
        let Some(recorded) = recorded_root(repository) else { return Ok(()) };
        let (namespace, _) = object::parts(repository);
        for id in ReservedId::both(namespace, &recorded.id) {
            release_gone(context, &id).await?;
            match reservations::read(context, &id).await {
                Ok(record) => self.0.set(&id.config_map(), record),
                Err(ReservationError::Api(error)) => return Err(error),
                Err(error) => tracing::warn!(%error, "a record of reservations cannot be read"),
            }
        }
        Ok(())
    }

    /// The objects that use a Repository; None if no record of its repository was seen.
    fn of(&self, repository: &Repository) -> Option<Vec<TypedObjectRef>> {
        let (namespace, name) = object::parts(repository);
        let id = recorded_root(repository)?.id;
        let own = RepositoryName { namespace: namespace.to_owned(), name: name.to_owned() };
        let found: Vec<Record> =
            ReservedId::both(namespace, &id).iter().filter_map(|id| self.0.get(&id.config_map())).collect();
        (!found.is_empty()).then(|| found.into_iter().flat_map(|record| record.references(&own)).collect())
    }

    /// The users of a Repository, as an observation for its status.
    pub(super) fn observed(&self, repository: &Repository) -> Observed {
        Observed { references: self.of(repository), ..Observed::default() }
    }
}

/// Copies the users of a Repository into its status.
pub(super) async fn show(
    context: &Context,
    users: &Users,
    repository: Repository,
) -> Result<Repository, ApiError> {
    let old = repository.status.clone().unwrap_or_default();
    let new = status::status(&old, &users.observed(&repository), context.now());
    object::write_status(context, &repository, &new).await
}
