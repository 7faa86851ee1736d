//! The settings of a mover's pod in a tenant's namespace: tries the pod by a dry run, because only the API server knows what the
//! namespace admits. Called before each mover is sent.

use kube::Api;
use kube::api::DynamicObject;
use lifeboat_api::stash::RuntimeSettings;
use lifeboat_cluster::jobs::Jobs;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::mover_pod::{MoverPod, MoverPodError, settings};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, PodSettings, job};
use lifeboat_transfer::MoverSettings;
use serde_json::Value;

/// The mover that is about to be sent.
pub(super) struct PodRequest<'a> {
    /// The Job as it will be made, but for its pod's settings.
    pub(super) job: &'a MoverJob,
    pub(super) runtime: Option<&'a RuntimeSettings>,
    /// The pod whose data is moved.
    pub(super) target: Option<&'a Value>,
}

/// The settings of the pod. The inner error says why no mover can run there.
pub(super) async fn pod_settings(
    core: &Core,
    movers: &MoverSettings,
    request: &PodRequest<'_>,
) -> Result<Result<PodSettings, MoverPodError>, ApiError> {
    pod_settings_on(core, movers.pod(&core.namespace), request).await
}

/// The settings of a pod that has more than other movers, as for a task: `base` are those before the namespace has its say.
pub(super) async fn pod_settings_on(
    core: &Core,
    base: PodSettings,
    request: &PodRequest<'_>,
) -> Result<Result<PodSettings, MoverPodError>, ApiError> {
    if matches!(request.job.place, MoverPlace::NodeDirectory { .. }) {
        // In the movers' own namespace, where everything is allowed that the administrator allowed.
        return Ok(Ok(base));
    }
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

async fn namespace(core: &Core, name: &str) -> Result<Value, ApiError> {
    let resource = objects::resource("", "v1", "Namespace", "namespaces");
    let api: Api<DynamicObject> = Api::all_with(core.client.clone(), &resource);
    let found = api.get_opt(name).await.attempt(format!("read Namespace {name}"))?;
    Ok(found.as_ref().map(objects::to_json).unwrap_or_default())
}
