//! The maintenance of a Repository, which [`lifeboat_transfer::maintenance`] carries out: where its number and its end are
//! recorded. Its movers run in the Repository's own namespace, because its Secret must not leave that namespace.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use lifeboat_api::common::{NamespaceName, Time};
use lifeboat_api::stash::{Repository, RepositoryStatus};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::transfer::movers::{MoverJob, Owner, PodSettings};
use lifeboat_plan::transfer::repository_notes::{MaintenanceRun, take_off};
use lifeboat_repository::repository::Repository as OpenRepository;
use lifeboat_transfer::maintenance::{Maintenance, MaintenanceEnd, MaintenanceError, MaintenanceRecord};
use lifeboat_transfer::repositories::{Access, RepositoryProblem};
use serde_json::Value;

use super::super::opened::to_json;
use super::super::{TenantRepositories, key_of, look, object, used_by};
use crate::context::Context;
use crate::mover_pods::{PodRequest, pod_settings};

/// Records that a run starts.
pub(super) async fn begin(
    context: &Context,
    repository: &Repository,
    run: MaintenanceRun,
) -> Result<Repository, ApiError> {
    object::merge(context, repository, run.begin()).await
}

/// Runs a maintenance to its end and records the end, which is returned; after an error of the API it continues later.
pub(super) async fn carry_out(
    context: &Context,
    repository: &Repository,
    run: MaintenanceRun,
) -> Result<Result<(), MaintenanceError>, ApiError> {
    let (namespace, name) = object::parts(repository);
    let maintenance = Maintenance {
        core: context,
        movers: &context.movers,
        repositories: &context.repositories,
        host: Arc::new(TenantRepositories(context.clone())),
        record: &Record { context, repository },
        key: key_of(namespace, name),
        owner: Owner {
            kind: "Repository".to_owned(),
            namespace: NamespaceName::new(namespace),
            name: name.to_owned(),
            uid: repository.uid().unwrap_or_default(),
        },
        reference: repository.object_ref(&()),
        namespace: NamespaceName::new(namespace),
    };
    Ok(match maintenance.carry_out(run).await? {
        Some(MaintenanceEnd::Failed(error)) => Err(error),
        Some(MaintenanceEnd::Done(_)) | None => Ok(()),
    })
}

/// The Repository of a maintenance.
struct Record<'a> {
    context: &'a Context,
    repository: &'a Repository,
}

#[async_trait]
impl MaintenanceRecord for Record<'_> {
    async fn object(&self) -> Result<Option<Value>, ApiError> {
        let (namespace, name) = object::parts(self.repository);
        let found = object::api(self.context, namespace).get_opt(name).await;
        let found = found.attempt(format!("read Repository {namespace}/{name}"))?;
        Ok(found.as_ref().map(to_json))
    }

    async fn open(&self, access: &Access) -> Result<OpenRepository, RepositoryProblem> {
        look::open(self.context, access).await
    }

    async fn pod(&self, job: &MoverJob) -> Result<PodSettings, MaintenanceError> {
        let runtime = used_by::runtime_settings(self.context, self.repository).await?;
        let wanted = PodRequest { job, runtime: runtime.as_ref(), target: None };
        let settings = pod_settings(self.context, self.context.movers.settings(), &wanted).await?;
        settings.map_err(|refused| MaintenanceError::Pod(refused.to_string()))
    }

    async fn annotate(&self, patch: Value) -> Result<(), ApiError> {
        let (namespace, name) = object::parts(self.repository);
        object::annotate(self.context, namespace, name, patch).await
    }

    async fn record_end(
        &self,
        _object: &Value,
        run: MaintenanceRun,
        end: Option<&MaintenanceEnd>,
    ) -> Result<(), ApiError> {
        let (namespace, name) = object::parts(self.repository);
        if let Some(end) = end {
            let now = self.context.now();
            object::change_status(self.context, namespace, name, |repository| {
                with_end(repository.status.clone().unwrap_or_default(), run, end, now)
            })
            .await?;
        }
        // Not in one patch: the status is a subresource. A server that stops here finds the run in the status.
        self.annotate(take_off()).await
    }
}

fn with_end(
    mut status: RepositoryStatus,
    run: MaintenanceRun,
    end: &MaintenanceEnd,
    now: Timestamp,
) -> RepositoryStatus {
    if let MaintenanceEnd::Done(done) = end {
        let begun = run.begun().unwrap_or(now);
        if run.prune {
            status.last_prune_time = Some(Time(begun));
        }
        if run.check {
            status.last_check_time = Some(Time(begun));
            status.integrity = Some(done.problems.count == 0);
        }
    }
    let maintained = match end.problem() {
        None => ConditionType::RepositoryMaintained.yes(""),
        Some(problem) => ConditionType::RepositoryMaintained.no(problem),
    };
    maintained.set_in(&mut status.conditions, now);
    status
}
