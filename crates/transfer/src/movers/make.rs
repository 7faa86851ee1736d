//! Creates a mover: its Secret, then its Job, then the owner reference between them. Each step can be repeated.
//! Called by `movers`.

use std::time::Duration;

use k8s_openapi::ByteString;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::Jobs;
use lifeboat_mover::task::{self, Task};
use lifeboat_plan::transfer::movers::verdict::{Dead, DeathCause};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, job as plan};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::{MoverRequest, Movers};
use crate::repositories::{Key, RepositoryProblem};
use crate::settings::MoverSettings;

/// How often reading the repository's credentials is tried.
const TRIES: u32 = 10;

/// Why the settings do not allow this mover, checked before anything is created.
pub(super) fn refused(settings: &MoverSettings, job: &MoverJob) -> Option<Dead> {
    if job.pod.image.is_empty() {
        let message = "the server does not know the image of movers: run `lifeboat install` again, or give the server \
                     --mover-image";
        return Some(Dead::new(DeathCause::Refused, message));
    }
    match &job.place {
        MoverPlace::NodeDirectory { node, .. } if !settings.node_access => {
            let message = format!(
                "the volume can only be reached through a directory of node {node}, and access to nodes is off: allow it \
                 with `lifeboat install --node-access` (chart: nodeAccess)"
            );
            Some(Dead::new(DeathCause::Refused, message))
        }
        _ => None,
    }
}

impl Movers {
    /// Creates Secret and Job. The inner error is a refusal that repeating does not help.
    pub(super) async fn make(
        &self,
        jobs: &Jobs,
        request: &MoverRequest,
    ) -> Result<Result<Value, Dead>, ApiError> {
        let job = match plan::job(&request.job) {
            Ok(job) => job,
            Err(refused) => return Ok(Err(Dead::new(DeathCause::Refused, refused.to_string()))),
        };
        let key = match key(request, self.look).await? {
            Ok(key) => key,
            Err(refused) => return Ok(Err(refused)),
        };
        // A Secret that an interrupted try left may hold old credentials.
        if let Err(error) = jobs.put_secret(&secret(request, key)).await {
            return refusal(request.job.namespace.as_str(), error).map(Err);
        }
        match jobs.create(&job).await {
            Ok(job) => Ok(Ok(job)),
            Err(error) => refusal(request.job.namespace.as_str(), error).map(Err),
        }
    }
}

/// Makes the Job the owner of its Secret. A missing Secret of a Job that has not ended is created.
pub(super) async fn complete(jobs: &Jobs, request: &MoverRequest, job: &Value) -> Result<(), ApiError> {
    if plan::read(job).is_some_and(|made| made.finished) {
        return Ok(());
    }
    let owners = plan::owner_reference(job);
    match jobs.own_secret(&plan::name(&request.job.task), &owners).await {
        Err(error) if error.is_not_found() => {
            // Without a key the pod waits for its Secret in vain; the verdict about the pod reports that.
            let Ok(key) = key(request, Duration::ZERO).await? else { return Ok(()) };
            let mut secret = secret(request, key);
            secret["metadata"]["ownerReferences"] = owners;
            jobs.ensure_secret(&secret).await
        }
        other => other,
    }
}

/// Reads the repository's credentials as they are now. The inner error is the reason why there are none.
async fn key(request: &MoverRequest, pace: Duration) -> Result<Result<Key, Dead>, ApiError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match request.keys.read().await {
            Ok(key) => return Ok(Ok(key)),
            Err(RepositoryProblem::Api(error)) => return Err(error),
            // A Secret that is being replaced is missing for a moment.
            Err(_) if tries < TRIES => sleep(pace).await,
            Err(problem) => {
                let message =
                    format!("its repository {} cannot be used: {}", request.job.repository, problem.chain());
                return Ok(Err(Dead::new(DeathCause::Refused, message)));
            }
        }
    }
}

fn secret(request: &MoverRequest, key: Key) -> Value {
    let bytes = |content: Vec<u8>| serde_json::to_value(ByteString(content)).unwrap_or_default();
    let mut data: Map<String, Value> = key
        .files
        .iter()
        .map(|(name, content)| (name.clone(), bytes(content.expose_secret().to_vec())))
        .collect();
    let task = Task { repository: key.repository, ..request.task.clone() };
    // A task is plain data and always serialises.
    data.insert(task::FILE.to_owned(), bytes(serde_json::to_vec(&task).unwrap_or_default()));
    let mut secret = plan::secret(&request.job);
    secret["data"] = Value::Object(data);
    secret
}

/// Whether the API server refuses the object for good; then with advice.
fn refusal(namespace: &str, error: ApiError) -> Result<Dead, ApiError> {
    let next = match error.code() {
        Some(404) => format!("namespace {namespace} is missing: run `lifeboat install` again"),
        Some(403) => format!(
            "check the quota and the policies of namespace {namespace}, and the server's permissions (run `lifeboat install` again)"
        ),
        Some(400 | 422) => "check the server's flags --mover-…".to_owned(),
        _ => return Err(error),
    };
    Ok(Dead::new(DeathCause::Refused, format!("{}; {next}", error.chain())))
}
