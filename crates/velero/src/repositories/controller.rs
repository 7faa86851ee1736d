//! BackupRepository: shows whether a repository of volume data can be used, and maintains it. Maintenance runs in a
//! mover: one at a time for each repository, with its number recorded before it starts, so that the next leader
//! continues with the same Job.

mod maintain;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::{BackupRepository, DataUpload, PodVolumeBackup};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::{LongWork, WorkEnd};
use lifeboat_plan::transfer::repository_notes::{dead_owners, looked_for, unlocked};
use lifeboat_plan::velero::backup_repository::{Due, TaskOwner, due, given_up, is_restic};
use lifeboat_transfer::maintenance::MaintenanceError;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::repositories::{self, Access, RepositoryKey, RepositoryProblem, object};
use crate::typed::{Typed, readable};
use crate::{dynamic, locations};

/// How often a repository that cannot be used is checked again, and one that can be.
const NEXT_TRY: Duration = Duration::from_mins(1);
const NEXT_CHECK: Duration = Duration::from_mins(5);

/// The name of maintenances in metrics.
const MAINTENANCE: &str = "backup-repository-maintenance";

struct State {
    resource: ApiResource,
    /// Maintenance takes hours; checks of repositories do not wait for it.
    maintenances: LongWork,
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<BackupRepository>();
    let watches = context.watches(&resource).until(shutdown);
    let maintenances = LongWork::new(&context.core.metrics, MAINTENANCE);
    let state = Arc::new(State { resource, maintenances });
    dynamic::drive("backup-repository", watches, context.clone(), state.clone(), reconcile).await;
    state.maintenances.leave().await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let value = objects::to_json(&object);
    let key = &repositories::key_of(&value);
    if object.metadata.deletion_timestamp.is_some() {
        context.repositories.close(key);
        return Ok(Action::await_change());
    }
    if !is_restic(&value) {
        let message = "Lifeboat keeps volume data in restic's format only; this repository is Velero's own, and nothing is \
                     done with it";
        object::show(&context, &object, Some(message)).await?;
        return Ok(Action::await_change());
    }
    match is_usable(&context, key, &value).await {
        Ok(()) => object::show(&context, &object, None).await?,
        Err(RepositoryProblem::Api(error)) => return Err(error),
        Err(problem) => {
            context.repositories.close(key);
            object::show(&context, &object, Some(&problem.chain())).await?;
            return Ok(Action::requeue(NEXT_TRY));
        }
    }
    let is_unlocked = remove_locks(&context, &object, key).await?;
    let is_settled = forget_late(&context, &object, key).await?;
    let next_check = if is_unlocked && is_settled { NEXT_CHECK } else { NEXT_TRY };
    let (begun, number) = match due(&value, context.movers.settings().maintenance_frequency, context.now()) {
        Due::In(pause) => return Ok(Action::requeue(pause.min(next_check))),
        Due::Now(number) => (maintain::begin(&context, &state.resource, &object, number).await?, number),
        Due::GoOn(number) => ((*object).clone(), number),
    };
    let uid = begun.uid().unwrap_or_default();
    let resource = state.resource.clone();
    state.maintenances.start(&uid, |_| async move {
        let ended = maintain::carry_out(&context, &resource, &begun, number).await;
        match ended {
            Ok(ended) => WorkEnd::of(&ended, MaintenanceError::category),
            Err(error) => {
                let (repository, message) = (begun.name_any(), error.chain());
                tracing::warn!(repository, message, "cannot continue a maintenance; trying again later");
                WorkEnd::Failed(error.category())
            }
        }
    });
    Ok(Action::requeue(next_check))
}

/// Removes locks of dead movers that could not be removed when they died. False if they still cannot be.
async fn remove_locks(
    context: &Context,
    object: &DynamicObject,
    key: &RepositoryKey,
) -> Result<bool, ApiError> {
    let owners = dead_owners(&objects::to_json(object));
    if owners.is_empty() {
        return Ok(true);
    }
    match repositories::remove_locks(context, key, &owners).await {
        Ok(()) => object::change(context, object, unlocked(&owners)).await.map(|()| true),
        Err(RepositoryProblem::Api(error)) => Err(error),
        Err(problem) => {
            let (category, message) = (problem.category(), problem.chain());
            let repository = object.name_any();
            tracing::warn!(repository, category, message, "locks of dead movers are left for now");
            Ok(false)
        }
    }
}

/// Forgets snapshots that movers stored after they were given up. False if more may follow.
async fn forget_late(
    context: &Context,
    object: &DynamicObject,
    key: &RepositoryKey,
) -> Result<bool, ApiError> {
    let value = objects::to_json(object);
    if given_up(&value, &[]).is_nothing() {
        return Ok(true);
    }
    let mut owners = Vec::new();
    let copies = context.objects::<PodVolumeBackup>();
    owners.extend(all::<PodVolumeBackup>(&copies).await?.iter().map(TaskOwner::from));
    let uploads = context.objects::<DataUpload>();
    owners.extend(all::<DataUpload>(&uploads).await?.iter().map(TaskOwner::from));
    let (found, looked) = (given_up(&value, &owners), context.now());
    match repositories::forget_tasks(context, key, &found.unwanted).await {
        Ok(()) => {}
        Err(RepositoryProblem::Api(error)) => return Err(error),
        Err(problem) => {
            let (category, message) = (problem.category(), problem.chain());
            let repository = object.name_any();
            tracing::warn!(repository, category, message, "a late snapshot may be left for now");
            return Ok(false);
        }
    }
    if let Some(patch) = looked_for(&value, &found, looked) {
        object::change(context, object, patch).await?;
    }
    Ok(false)
}

/// All objects of a kind. One that cannot be read is left out: nothing is known about its tasks, and nothing of them is
/// deleted.
async fn all<K: Typed>(api: &Api<DynamicObject>) -> Result<Vec<K>, ApiError> {
    let listed = api.list(&ListParams::default()).await.attempt("list the copies of volumes")?;
    Ok(listed.items.iter().filter_map(|object| readable(&objects::to_json(object))).collect())
}

/// Whether the repository opens. A repository that was never written to is created with the first volume.
async fn is_usable(context: &Context, key: &RepositoryKey, object: &Value) -> Result<(), RepositoryProblem> {
    let is_new = matches!(object["status"]["phase"].as_str(), None | Some("" | "New"));
    let access = repositories::access(context, key).await?;
    // Storage that cannot be reached is reported by its location; reported here too, the phase would flap.
    let found = locations::find(context, key.storage().as_str()).await?;
    if found.phase() != Some(&lifeboat_api::velero::BackupStorageLocationPhase::Available) {
        let message = format!("its location '{}' is not available", key.storage());
        return Err(RepositoryProblem::Unusable(message));
    }
    match check(context, &access).await {
        Err(problem) if problem.is_missing() && is_new => {
            context.repositories.close(key);
            repositories::ensure(context, key).await.map(drop)
        }
        other => other,
    }
}

/// Opens the repository and checks that its config exists in storage: it may be deleted since it was opened.
async fn check(context: &Context, access: &Access) -> Result<(), RepositoryProblem> {
    let repository = repositories::open(context, access).await?;
    let there = repository.store().exists("config").await;
    if there.map_err(lifeboat_repository::Error::store("check that the repository exists"))? {
        return Ok(());
    }
    Err(lifeboat_repository::Error::NoRepository { location: access.identifier.clone() }.into())
}
