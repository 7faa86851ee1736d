//! Making a mover: its Secret, then its Job, then the tie between them, each safe to repeat. Called by `movers`.

use std::time::Duration;

use k8s_openapi::ByteString;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::Jobs;
use lifeboat_mover::task::{self, Task};
use lifeboat_plan::movers::verdict::{Dead, DeathCause};
use lifeboat_plan::movers::{Errand, Place, job as plan};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::{Assignment, Movers};
use crate::repositories::{Key, RepositoryProblem};
use crate::settings::MoverSettings;

/// How often it is tried to read what opens a repository.
const TRIES: u32 = 10;

/// What the settings do not allow, before anything is made.
pub(super) fn refused(settings: &MoverSettings, errand: &Errand) -> Option<Dead> {
    if settings.image.is_empty() {
        let words = "the server does not know the image of movers: run `lifeboat install` again, or give the server \
                     --mover-image";
        return Some(Dead::new(DeathCause::Refused, words));
    }
    match &errand.place {
        Place::NodeDirectory { node, .. } if !settings.node_access => {
            let words = format!(
                "the volume can only be reached through a directory of node {node}, and access to nodes is off: allow it \
                 with `lifeboat install --node-access` (chart: nodeAccess)"
            );
            Some(Dead::new(DeathCause::Refused, words))
        }
        _ => None,
    }
}

impl Movers {
    /// Makes Secret and Job. The inner error is a refusal that will not pass by itself.
    pub(super) async fn make(
        &self,
        jobs: &Jobs,
        assignment: &Assignment,
    ) -> Result<Result<Value, Dead>, ApiError> {
        let terms = self.terms();
        let key = match key(assignment, self.look).await? {
            Ok(key) => key,
            Err(refused) => return Ok(Err(refused)),
        };
        // A Secret that is left from a try that was interrupted may have old credentials.
        if let Err(error) = jobs.put_secret(&secret(assignment, key, &terms)).await {
            return refusal(&self.settings, error).map(Err);
        }
        match jobs.create(&plan::job(&assignment.errand, &terms)).await {
            Ok(job) => Ok(Ok(job)),
            Err(error) => refusal(&self.settings, error).map(Err),
        }
    }

    /// Ties the Secret to its Job. One that a Job which has not ended lacks is made.
    pub(super) async fn complete(
        &self,
        jobs: &Jobs,
        assignment: &Assignment,
        job: &Value,
    ) -> Result<(), ApiError> {
        if plan::read(job).is_some_and(|made| made.finished) {
            return Ok(());
        }
        let terms = self.terms();
        let owners = plan::owner_reference(job);
        let name = plan::name(&assignment.errand.uid);
        match jobs.own_secret(&name, &owners).await {
            Err(error) if error.is_not_found() => {
                // Without it the pod waits for its Secret in vain, and that is said of it.
                let Ok(key) = key(assignment, Duration::ZERO).await? else { return Ok(()) };
                let mut secret = secret(assignment, key, &terms);
                secret["metadata"]["ownerReferences"] = owners;
                jobs.ensure_secret(&secret).await
            }
            other => other,
        }
    }

    fn terms(&self) -> plan::Terms {
        let settings = &self.settings;
        plan::Terms {
            namespace: settings.namespace.clone(),
            server: self.core.namespace.clone(),
            image: settings.image.clone(),
            cpu_request: settings.cpu_request.clone(),
            memory_request: settings.memory_request.clone(),
            memory_limit: settings.memory_limit.clone(),
            priority_class: settings.priority_class.clone(),
            task_directory: task::DIRECTORY.to_owned(),
            pod_uid_variable: task::POD_UID.to_owned(),
        }
    }
}

/// What opens the repository, as it is now. The inner error says why nothing does.
async fn key(assignment: &Assignment, pace: Duration) -> Result<Result<Key, Dead>, ApiError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match assignment.keys.read().await {
            Ok(key) => return Ok(Ok(key)),
            Err(RepositoryProblem::Api(error)) => return Err(error),
            // A Secret that is being exchanged is missing for a moment.
            Err(_) if tries < TRIES => sleep(pace).await,
            Err(problem) => {
                let words = format!(
                    "its repository {} cannot be used: {}",
                    assignment.errand.repository,
                    problem.chain()
                );
                return Ok(Err(Dead::new(DeathCause::Refused, words)));
            }
        }
    }
}

fn secret(assignment: &Assignment, key: Key, terms: &plan::Terms) -> Value {
    let bytes = |content: Vec<u8>| serde_json::to_value(ByteString(content)).unwrap_or_default();
    let mut data: Map<String, Value> = key
        .files
        .iter()
        .map(|(name, content)| (name.clone(), bytes(content.expose_secret().to_vec())))
        .collect();
    let task = Task { repository: key.repository, ..assignment.task.clone() };
    // A task is plain data, which always has a JSON form.
    data.insert(task::FILE.to_owned(), bytes(serde_json::to_vec(&task).unwrap_or_default()));
    let mut secret = plan::secret(&assignment.errand, terms);
    secret["data"] = Value::Object(data);
    secret
}

/// Whether the API server will never take it.
fn refusal(settings: &MoverSettings, error: ApiError) -> Result<Dead, ApiError> {
    let next = match error.code() {
        Some(404) => format!("namespace {} is missing: run `lifeboat install` again", settings.namespace),
        Some(403) => format!(
            "see the quota and the policies of namespace {}, and the rights of the server (`lifeboat install` again)",
            settings.namespace
        ),
        Some(400 | 422) => "see the server's flags --mover-…".to_owned(),
        _ => return Err(error),
    };
    Ok(Dead::new(DeathCause::Refused, format!("{}; {next}", error.chain())))
}
