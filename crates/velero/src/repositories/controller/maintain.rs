//! One maintenance of a repository: a mover prunes and checks it. Its number is recorded in an annotation before the
//! Job is created and removed by the patch that records the end; the Job is deleted after that.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::common::TaskId;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_mover::report::{LogLine, Outcome, TaskResult};
use lifeboat_mover::task::{Limits, LockTerms, MaintainWork, Task, TaskWork};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner, SCRATCH};
use lifeboat_plan::velero::backup_repository::{self, EMPTIED, MAINTENANCE};
use lifeboat_repository::files::FileKind;
use lifeboat_transfer::movers::{MoverEnd, MoverObserver, MoverRequest};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::repositories::{self, Access, RepositoryProblem};

/// A lock that blocks the maintenance may be orphaned; it counts as stale after thirty minutes.
const LOCK_WAIT: Duration = Duration::from_mins(35);

/// Records that the maintenance with this number starts.
pub(super) async fn begin(
    context: &Context,
    resource: &ApiResource,
    object: &DynamicObject,
    number: u64,
) -> Result<DynamicObject, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, resource);
    let patch = json!({"metadata": {"annotations": {MAINTENANCE: number.to_string()}}});
    objects::merge(&api, object, patch).await
}

/// The object as it is now; None if the end of this maintenance is already recorded, because the watch lags behind.
async fn under_way(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    run: &TaskId,
) -> Result<Option<DynamicObject>, ApiError> {
    let name = object.name_any();
    let found = api.get_opt(&name).await.attempt(format!("read BackupRepository {name}"))?;
    Ok(found.filter(|found| backup_repository::is_under_way(&objects::to_json(found), run)))
}

/// Runs the maintenance to its end and records the end.
pub(super) async fn carry_out(
    context: &Context,
    resource: &ApiResource,
    object: &DynamicObject,
    number: u64,
) -> Result<(), ApiError> {
    let task = backup_repository::task(&object.uid().unwrap_or_default(), number);
    let begun = Timestamp::from_second(i64::try_from(number).unwrap_or_default()).unwrap_or(context.now());
    let api = objects::namespaced(&context.client, &context.namespace, resource);
    let Some(object) = &under_way(&api, object, &task).await? else { return Ok(()) };
    let outcome = match request(context, object, &task).await {
        Ok(request) => {
            let ended = context.movers.carry_out(request, &Quiet, &CancellationToken::new()).await?;
            match ended {
                MoverEnd::Left => return Ok(()),
                MoverEnd::Reported { result, dead_owner } => {
                    let reported = reported(result);
                    if reported.is_err() {
                        unlock(context, object, dead_owner.as_deref()).await;
                    }
                    reported
                }
                MoverEnd::Died(death) => {
                    unlock(context, object, death.dead_owner.as_deref()).await;
                    Err(death.message)
                }
                MoverEnd::Cancelled { .. } => Err("it was cancelled".to_owned()),
            }
        }
        Err(message) => Err(message),
    };
    // The state may have been written by others in the meantime.
    if let Some(object) = under_way(&api, object, &task).await? {
        let failure = outcome.as_ref().err().map(String::as_str);
        let patch = backup_repository::ended(&objects::to_json(&object), begun, failure, context.now());
        objects::merge(&api, &object, patch).await?;
    }
    let reference = object.object_ref(resource);
    match &outcome {
        Ok(result) => tracing::info!(repository = object.name_any(), result, "maintenance ended"),
        Err(message) => context.events.warning(&reference, "MaintenanceFailed", message).await,
    }
    context.movers.clear(&context.movers.settings().namespace, &task).await
}

/// Removes the locks of a mover whose container has ended for certain.
async fn unlock(context: &Context, object: &DynamicObject, owner: Option<&str>) {
    if let Some(owner) = owner {
        repositories::unlock(context, &repositories::key_of(&object.data), owner).await;
    }
}

fn reported(result: TaskResult) -> Result<String, String> {
    match result.outcome {
        Outcome::Maintained(done) if done.problems.count == 0 => {
            Ok(format!("{} bytes freed, {} packs deleted", done.bytes_freed, done.packs_deleted))
        }
        Outcome::Maintained(done) => Err(format!(
            "the check found {} problems: {}; see docs/repository.md for repairs",
            done.problems.count,
            done.problems.first.join("; ")
        )),
        Outcome::Failed(failure) => Err(failure.message),
        _ => Err("the mover reported the result of another kind of task".to_owned()),
    }
}

async fn request(context: &Context, object: &DynamicObject, task: &TaskId) -> Result<MoverRequest, String> {
    let key = repositories::key_of(&object.data);
    let access = repositories::access(context, &key).await.map_err(|problem| problem.chain())?;
    let cluster = context.repositories.cluster(context).await.map_err(|error| error.chain())?;
    let settings = context.movers.settings();
    let work = TaskWork::Maintain(MaintainWork {
        prune: true,
        check: true,
        empty_is_meant: object.annotations().contains_key(EMPTIED) && is_empty(context, &access).await?,
    });
    let lock = LockTerms { cluster, dead_owners: Vec::new(), wait_seconds: LOCK_WAIT.as_secs() };
    let limits = Limits { scratch: Some(SCRATCH.into()), ..Limits::default() };
    let job = MoverJob {
        task: task.clone(),
        owner: Owner {
            kind: "BackupRepository".to_owned(),
            namespace: context.core.namespace.clone(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        },
        place: MoverPlace::Anywhere,
        repository: access.key.to_string(),
        group: "maintenance".to_owned(),
        deadline_seconds: settings.copy_timeout.as_secs(),
        namespace: settings.namespace.clone(),
        pod: settings.pod(&context.namespace),
    };
    let task = Task { limits, ..Task::single(task.as_str(), work, access.task.clone(), lock) };
    Ok(MoverRequest { job, task, keys: repositories::keys(context, &access.key) })
}

/// Whether the repository has no snapshot. A copy that was running when the last one was forgotten may have stored
/// one.
async fn is_empty(context: &Context, access: &Access) -> Result<bool, String> {
    let look = async {
        let listed = repositories::open(context, access).await?.list(FileKind::Snapshot).await?;
        if !listed.is_empty() {
            repositories::is_not_empty(context, access).await?;
        }
        Ok::<_, RepositoryProblem>(listed.is_empty())
    };
    look.await.map_err(|problem| problem.chain())
}

/// A maintenance does not record its progress; its Job shows it.
struct Quiet;

#[async_trait]
impl MoverObserver for Quiet {
    async fn queued(&self, _message: &str) {}
    async fn preparing(&self, _message: &str) {}
    async fn running(&self, _node: &str) {}
    async fn line(&self, _line: &LogLine) {}
}
