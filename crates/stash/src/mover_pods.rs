//! The settings of a mover's pod in a tenant's namespace: tries the pod by a dry run, because only the API server knows what the
//! namespace admits, and mounts the volume of the repository, if it is on one. Called before each mover is sent.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DynamicObject;
use lifeboat_api::stash::{Repository, RuntimeSettings};
use lifeboat_cluster::jobs::Jobs;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::backend::{self, OpenedBy};
use lifeboat_plan::stash::mover_pod::{MoverPod, MoverPodError, settings};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, PodSettings, job};
use lifeboat_transfer::MoverSettings;
use serde_json::Value;

use crate::repository_key::parts_of_text;

/// The mover that is about to be sent.
pub(crate) struct PodRequest<'a> {
    /// The Job as it will be made, but for its pod's settings.
    pub(crate) job: &'a MoverJob,
    pub(crate) runtime: Option<&'a RuntimeSettings>,
    /// The pod whose data is moved.
    pub(crate) target: Option<&'a Value>,
}

/// The settings of the pod. The inner error says why no mover can run there.
pub(crate) async fn pod_settings(
    core: &Core,
    movers: &MoverSettings,
    request: &PodRequest<'_>,
) -> Result<Result<PodSettings, MoverPodError>, ApiError> {
    pod_settings_on(core, movers.pod(&core.namespace), request).await
}

/// The settings of a pod that has more than other movers, as for a task: `base` are those before the namespace has its say.
pub(crate) async fn pod_settings_on(
    core: &Core,
    base: PodSettings,
    request: &PodRequest<'_>,
) -> Result<Result<PodSettings, MoverPodError>, ApiError> {
    let repository = repository_of(core, request.job).await?;
    if matches!(request.job.place, MoverPlace::NodeDirectory { .. }) {
        // In the movers' own namespace, where everything is allowed that the administrator allowed.
        let only_there = match &repository {
            Some(repository) => opened_by_movers_only(core, repository).await?,
            None => None,
        };
        return Ok(only_there.map_or(Ok(base), |reason| Err(MoverPodError::RepositoryElsewhere { reason })));
    }
    let base = with_repository_volume(base, repository.as_ref());
    let namespace = namespace(core, &request.job.namespace).await?;
    let pod = MoverPod {
        base: &base,
        place: &request.job.place,
        target: request.target,
        container: None,
        runtime: request.runtime,
        namespace: &namespace,
    };
    let tried = match settings(&pod, None) {
        Ok(tried) => tried,
        Err(error) => return Ok(Err(error)),
    };
    let wanted = MoverJob { pod: tried, ..request.job.clone() };
    let answer = match job::dry_run(&wanted) {
        Ok(manifest) => Some(Jobs::new(&core.client, &wanted.namespace).dry_run(&manifest).await?),
        // The rights that the labels of the namespace leave are known without a try.
        Err(_) => None,
    };
    Ok(settings(&pod, answer.as_ref()))
}

/// The Repository that a mover works on; None if it works on none, or the Repository is gone.
async fn repository_of(core: &Core, job: &MoverJob) -> Result<Option<Repository>, ApiError> {
    let Some((namespace, name)) = parts_of_text(&job.repository) else { return Ok(None) };
    let api: Api<Repository> = Api::namespaced(core.client.clone(), namespace);
    api.get_opt(name).await.attempt(format!("read Repository {namespace}/{name}"))
}

fn with_repository_volume(base: PodSettings, repository: Option<&Repository>) -> PodSettings {
    match repository.and_then(|repository| repository.spec.backend.local.as_ref()) {
        Some(local) => PodSettings { repository_volume: serde_json::to_value(&local.volume).ok(), ..base },
        None => base,
    }
}

/// Why only pods of its own namespace open a Repository; None if its keys open it from anywhere.
async fn opened_by_movers_only(core: &Core, repository: &Repository) -> Result<Option<String>, ApiError> {
    let namespace = repository.metadata.namespace.clone().unwrap_or_default();
    let name = &repository.spec.backend.storage_secret_name;
    let api: Api<Secret> = Api::namespaced(core.client.clone(), &namespace);
    let secret = api.get_opt(name).await.attempt(format!("read Secret {namespace}/{name}"))?;
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    // A Secret that opens nothing is reported where the repository is opened.
    let opened = backend::access(&repository.spec.backend, &data).ok();
    Ok(opened.and_then(|opened| match opened.opened_by {
        OpenedBy::Server => None,
        OpenedBy::Movers(reason) => Some(reason.to_string()),
    }))
}

async fn namespace(core: &Core, name: &str) -> Result<Value, ApiError> {
    let resource = objects::resource("", "v1", "Namespace", "namespaces");
    let api: Api<DynamicObject> = Api::all_with(core.client.clone(), &resource);
    let found = api.get_opt(name).await.attempt(format!("read Namespace {name}"))?;
    Ok(found.as_ref().map(objects::to_json).unwrap_or_default())
}
