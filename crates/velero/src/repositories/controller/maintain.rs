//! The maintenance of a BackupRepository, which [`lifeboat_transfer::maintenance`] carries out: where its number and its end
//! are recorded. Its movers run where those of volumes do.

use async_trait::async_trait;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::common::NamespaceName;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_plan::transfer::repository_notes::{MaintenanceRun, take_off};
use lifeboat_plan::velero::backup_repository;
use lifeboat_repository::repository::Repository;
use lifeboat_transfer::maintenance::{Maintenance, MaintenanceEnd, MaintenanceError, MaintenanceRecord};
use serde_json::Value;

use crate::context::Context;
use crate::repositories::{self, Access, RepositoryProblem, object};

/// The run with this number: every maintenance of a BackupRepository prunes and checks.
fn run(number: u64) -> MaintenanceRun {
    MaintenanceRun { number, prune: true, check: true }
}

/// Records that the maintenance with this number starts.
pub(super) async fn begin(
    context: &Context,
    resource: &ApiResource,
    object: &DynamicObject,
    number: u64,
) -> Result<DynamicObject, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, resource);
    objects::merge(&api, object, run(number).begin()).await
}

/// Runs the maintenance to its end and records the end, which is returned; after an error of the API it continues later.
pub(super) async fn carry_out(
    context: &Context,
    resource: &ApiResource,
    object: &DynamicObject,
    number: u64,
) -> Result<Result<(), MaintenanceError>, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, resource);
    let maintenance = Maintenance {
        core: context,
        movers: &context.movers,
        repositories: &context.repositories,
        host: repositories::host(context),
        record: &Record { context, api, object },
        key: repositories::key_of(&object.data),
        owner: Owner {
            kind: "BackupRepository".to_owned(),
            namespace: NamespaceName::new(&context.core.namespace),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        },
        reference: object.object_ref(resource),
        namespace: NamespaceName::new(&context.movers.settings().namespace),
    };
    Ok(match maintenance.carry_out(run(number)).await? {
        Some(MaintenanceEnd::Failed(error)) => Err(error),
        Some(MaintenanceEnd::Done(_)) | None => Ok(()),
    })
}

/// The BackupRepository of a maintenance.
struct Record<'a> {
    context: &'a Context,
    api: Api<DynamicObject>,
    object: &'a DynamicObject,
}

#[async_trait]
impl MaintenanceRecord for Record<'_> {
    async fn object(&self) -> Result<Option<Value>, ApiError> {
        let name = self.object.name_any();
        let found = self.api.get_opt(&name).await.attempt(format!("read BackupRepository {name}"))?;
        Ok(found.as_ref().map(objects::to_json))
    }

    async fn open(&self, access: &Access) -> Result<Repository, RepositoryProblem> {
        repositories::open(self.context, access).await
    }

    async fn annotate(&self, patch: Value) -> Result<(), ApiError> {
        object::change(self.context, self.object, patch).await
    }

    async fn record_end(
        &self,
        object: &Value,
        run: MaintenanceRun,
        end: Option<&MaintenanceEnd>,
    ) -> Result<(), ApiError> {
        let now = self.context.now();
        let ended = |end: &MaintenanceEnd| {
            let begun = run.begun().unwrap_or(now);
            backup_repository::ended(object, begun, end.problem().as_deref(), now)
        };
        let patch = end.map_or_else(take_off, ended);
        // With the version that was read: the list of runs is written as a whole.
        let object = serde_json::from_value::<DynamicObject>(object.clone());
        let object = object.map_err(kube::Error::SerdeError).attempt("read a BackupRepository")?;
        objects::merge(&self.api, &object, patch).await.map(drop)
    }
}
