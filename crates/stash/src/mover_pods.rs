//! Determines the settings of a mover's pod in a tenant's namespace: sends a dry run of the pod, because only the API
//! server knows what the namespace admits, and adds the volume of the repository, if the repository is on a volume of
//! that namespace. Called before each mover is started.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DynamicObject;
use lifeboat_api::stash::{Repository, RuntimeSettings};
use lifeboat_cluster::jobs::Jobs;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::backend::{self, OpenedBy};
use lifeboat_plan::stash::mover_pod::{MoverPod, MoverPodError, settings, settled};
use lifeboat_plan::transfer::movers::{DryRun, MoverJob, MoverPlace, PodSettings, job};
use lifeboat_transfer::MoverSettings;
use serde_json::Value;

use crate::repository_key::parts_of_text;

/// The mover that is about to be started.
pub(crate) struct PodRequest<'a> {
    /// The Job that will be created, without the settings of its pod.
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

/// The settings of a pod with additions, such as those of a task. `base`: the settings before they are adapted to the
/// namespace.
pub(crate) async fn pod_settings_on(
    core: &Core,
    base: PodSettings,
    request: &PodRequest<'_>,
) -> Result<Result<PodSettings, MoverPodError>, ApiError> {
    let repository = repository_of(core, request.job).await?;
    if matches!(request.job.place, MoverPlace::NodeDirectory { .. }) {
        // The pod runs in the movers' own namespace, whose permissions the administrator has chosen at install.
        let only_there = match &repository {
            Some(repository) => opened_by_movers_only(core, repository).await?,
            None => None,
        };
        return Ok(only_there.map_or(Ok(base), |reason| Err(MoverPodError::RepositoryElsewhere { reason })));
    }
    let base = with_repository_volume(base, request.job, repository.as_ref());
    let namespace = namespace(core, request.job.namespace.as_str()).await?;
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
    let answer = answer_to(core, &tried, request.job).await?;
    let chosen = match settings(&pod, answer.as_ref()) {
        Ok(chosen) => chosen,
        Err(error) => return Ok(Err(error)),
    };
    // The answer to the first pod does not apply to the changed one, because Pod Security is evaluated before quotas.
    let last = if chosen == tried { answer } else { answer_to(core, &chosen, request.job).await? };
    Ok(match last {
        Some(answer) => settled(&pod, chosen, &answer),
        None => Ok(chosen),
    })
}

/// The API server's answer to a dry run of a pod with these settings; None if no such pod can be created, which its
/// Job reports later.
async fn answer_to(core: &Core, settings: &PodSettings, job: &MoverJob) -> Result<Option<DryRun>, ApiError> {
    let wanted = MoverJob { pod: settings.clone(), ..job.clone() };
    match job::dry_run(&wanted) {
        Ok(manifest) => Jobs::new(&core.client, wanted.namespace.as_str()).dry_run(&manifest).await.map(Some),
        // The rights that follow from the labels of the namespace are known without a dry run.
        Err(_) => Ok(None),
    }
}

/// The Repository that a mover works on; None if it works on none, or the Repository no longer exists.
async fn repository_of(core: &Core, job: &MoverJob) -> Result<Option<Repository>, ApiError> {
    let Some((namespace, name)) = parts_of_text(&job.repository) else { return Ok(None) };
    let api: Api<Repository> = Api::namespaced(core.client.clone(), namespace);
    api.get_opt(name).await.attempt(format!("read Repository {namespace}/{name}"))
}

/// The author of a Repository says which volume is mounted in its own namespace; what the same names stand for in another namespace belongs
/// to others.
fn with_repository_volume(base: PodSettings, job: &MoverJob, repository: Option<&Repository>) -> PodSettings {
    let own = repository
        .filter(|repository| repository.metadata.namespace.as_deref() == Some(job.namespace.as_str()));
    match own.and_then(|repository| repository.spec.backend.local.as_ref()) {
        Some(local) => PodSettings { repository_volume: serde_json::to_value(&local.volume).ok(), ..base },
        None => base,
    }
}

/// Why only pods of its own namespace can open a Repository; None if its keys can open it from any namespace.
async fn opened_by_movers_only(core: &Core, repository: &Repository) -> Result<Option<String>, ApiError> {
    let namespace = repository.metadata.namespace.clone().unwrap_or_default();
    let name = &repository.spec.backend.storage_secret_name;
    let api: Api<Secret> = Api::namespaced(core.client.clone(), &namespace);
    let secret = api.get_opt(name).await.attempt(format!("read Secret {namespace}/{name}"))?;
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    // An invalid Secret is reported when the repository is opened.
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lifeboat_api::common::{NamespaceName, TaskId};
    use lifeboat_cluster::testing::failure;
    use lifeboat_control::locked;
    use lifeboat_control::testing::ApiServer;
    use lifeboat_plan::transfer::movers::{MoverVolume, Owner, PodSecurity};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const POD_SECURITY: &str =
        "pods \"mover-x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true";
    const NO_LIMIT: &str =
        "pods \"mover-x\" is forbidden: failed quota: team: must specify limits.cpu for: mover";
    const RANGE: &str =
        "pods \"mover-x\" is forbidden: maximum memory usage per Container is 512Mi, but limit is 1Gi";

    /// A namespace that admits no root, and then refuses what is not root with this message.
    async fn asked(refusal: Option<&'static str>) -> (Result<PodSettings, MoverPodError>, Vec<Value>) {
        let (server, tried) = (ApiServer::default(), Arc::new(Mutex::new(Vec::new())));
        server.put("/api/v1/namespaces/shop", json!({"apiVersion": "v1", "kind": "Namespace"}));
        let pods = tried.clone();
        server.answer(move |_, asked| {
            asked.query.contains("dryRun").then(|| {
                locked(&pods).push(asked.body.clone());
                let user = &asked.body["spec"]["securityContext"]["runAsUser"];
                let refusal = if *user == 0 { Some(POD_SECURITY) } else { refusal };
                refusal.map_or_else(|| (201, asked.body.clone()), |message| failure(403, message))
            })
        });
        let (core, movers) = (server.core().await, MoverSettings::default());
        let volume = MoverVolume { claim: "data".into(), block: false, writable: false };
        let owner = Owner {
            kind: "X".into(),
            namespace: NamespaceName::new("shop"),
            name: "x".into(),
            uid: "u".into(),
        };
        let job = MoverJob {
            task: TaskId::new("t-1"),
            owner,
            place: MoverPlace::Volumes { volumes: vec![volume], node: None },
            repository: "r".into(),
            group: "g".into(),
            deadline_seconds: 1,
            namespace: NamespaceName::new("shop"),
            pod: movers.pod("lifeboat"),
        };
        let target =
            json!({"spec": {"containers": [{"name": "app", "securityContext": {"runAsUser": 999}}]}});
        let request = PodRequest { job: &job, runtime: None, target: Some(&target) };
        let settings = pod_settings(&core, &movers, &request).await.unwrap();
        (settings, locked(&tried).clone())
    }

    #[rstest]
    #[case::admitted(None, Ok(None))]
    #[case::a_quota_behind_pod_security(Some(NO_LIMIT), Ok(Some("2")))]
    #[case::a_limit_range(Some(RANGE), Err("set runtimeSettings.container.resources"))]
    #[tokio::test]
    async fn a_pod_without_root_is_tried_as_well(
        #[case] refusal: Option<&'static str>,
        #[case] expected: Result<Option<&str>, &str>,
    ) {
        let (settings, tried) = asked(refusal).await;
        let users: Vec<_> = tried.iter().map(|pod| &pod["spec"]["securityContext"]["runAsUser"]).collect();
        assert_eq!(users, [&json!(0), &json!(999)]);
        match (settings, expected) {
            (Ok(settings), Ok(limit)) => {
                assert_eq!(
                    (settings.security, settings.cpu_limit.as_deref()),
                    (PodSecurity::Restricted, limit)
                );
            }
            (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{error}"),
            (settings, expected) => panic!("{settings:?} is not {expected:?}"),
        }
    }
}
