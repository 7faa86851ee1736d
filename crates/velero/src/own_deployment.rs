//! The server's own Deployment: completes init containers that stock `velero plugin add` put there, so that a namespace that
//! enforces `restricted` takes the next pods, and tells by events what keeps plugins from being used. What is wrong and what
//! is missing is decided in `plan::plugin_images`; the Deployment rolls with maxUnavailable 0, so an old server is there to
//! do it. A server that runs outside of the cluster has no Deployment, and nothing to do here.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, watcher};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::locked;
use lifeboat_plan::install::{DEPLOYMENT, labels};
use lifeboat_plan::plugin_images::{self, Completion};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;

/// So often the same containers are completed: whoever takes it away again (a GitOps tool) would make new servers for ever.
const MOST_COMPLETIONS: u32 = 3;

/// What was told of the present generation of the Deployment: a new one is told anew.
struct State {
    deployments: ApiResource,
    pods: ApiResource,
    told: Mutex<Told>,
    /// How often each container was completed by this server, by name and image.
    completed: Mutex<BTreeMap<(String, String), u32>>,
}

#[derive(Default)]
struct Told {
    generation: Option<i64>,
    /// Programs that cannot be used are told once, however often the Deployment changes.
    problems: bool,
    what: BTreeSet<String>,
}

impl State {
    fn new() -> Self {
        Self {
            deployments: objects::resource("apps", "v1", "Deployment", "deployments"),
            pods: objects::resource("", "v1", "Pod", "pods"),
            told: Mutex::default(),
            completed: Mutex::default(),
        }
    }

    fn is_news(&self, generation: Option<i64>, what: String) -> bool {
        let mut told = locked(&self.told);
        if told.generation != generation {
            told.generation = generation;
            told.what.clear();
        }
        told.what.insert(what)
    }

    /// The containers that were completed so often that somebody must be taking it away.
    fn contested(&self, completion: &Completion) -> Vec<(String, String)> {
        let counts = locked(&self.completed);
        let often = |one: &&(String, String)| counts.get(one).is_some_and(|count| *count >= MOST_COMPLETIONS);
        completion.completed.iter().filter(often).cloned().collect()
    }

    fn count(&self, completion: &Completion) {
        let mut counts = locked(&self.completed);
        for one in &completion.completed {
            *counts.entry(one.clone()).or_default() += 1;
        }
    }

    fn first_time(&self) -> bool {
        let mut told = locked(&self.told);
        !std::mem::replace(&mut told.problems, true)
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let state = Arc::new(State::new());
    let namespace = &context.namespace;
    let deployments = objects::namespaced(&context.client, namespace, &state.deployments);
    let pods = objects::namespaced(&context.client, namespace, &state.pods);
    // The rights of a limited installation are for this one Deployment, so only it may be asked for.
    let only_ours = dynamic::watching().fields(&format!("metadata.name={DEPLOYMENT}"));
    let about = ObjectRef::new_with(DEPLOYMENT, state.deployments.clone()).within(namespace);
    let controller = Controller::new_with(deployments, only_ours, state.deployments.clone())
        .with_config(controller::Config::default().concurrency(1))
        .watches_with(pods, state.pods.clone(), its_pods(), move |_| Some(about.clone()))
        .graceful_shutdown_on(shutdown.clone().cancelled_owned());
    dynamic::drive("own-deployment", controller, context.clone(), state, reconcile).await;
}

fn its_pods() -> watcher::Config {
    dynamic::watching().labels(&selector())
}

/// The labels of the server's pods.
fn selector() -> String {
    let labels = labels();
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.join(",")
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let about = object.object_ref(&state.deployments);
    tell_problems(&context, &state, &about).await;
    let deployment = objects::to_json(&object);
    let completion = plugin_images::completion(&deployment);
    let contested = state.contested(&completion);
    tell_contested(&context, &state, &about, &contested).await;
    let completed = contested.is_empty() && complete(&context, &state, &object, &completion).await?;
    let generation = object.metadata.generation;
    if completed {
        state.count(&completion);
        for (container, image) in &completion.completed {
            let note = format!(
                "init container '{container}' (image {image}) got what Pod Security level 'restricted' asks for"
            );
            context.events.normal(&about, "PluginContainerCompleted", &note).await;
        }
        // That change brings the next reconcile.
        return Ok(Action::await_change());
    }
    for refusal in completion.refused {
        if state.is_news(generation, format!("refused/{}", refusal.container)) {
            context.events.warning(&about, "PluginNeedsRoot", &refusal.message).await;
        }
    }
    for trouble in plugin_images::troubles(&deployment, &pods(&context, &state).await?) {
        if state.is_news(generation, format!("{:?}/{}", trouble.kind, trouble.container)) {
            context.events.warning(&about, trouble.kind.reason(), &trouble.message).await;
        }
    }
    Ok(Action::await_change())
}

/// Told once for each container, however often it is taken away.
async fn tell_contested(
    context: &Context,
    state: &State,
    about: &ObjectReference,
    contested: &[(String, String)],
) {
    for (container, image) in contested {
        let told = {
            let mut counts = locked(&state.completed);
            let count = counts.entry((container.clone(), image.clone())).or_default();
            std::mem::replace(count, u32::MAX) == u32::MAX
        };
        if told {
            continue;
        }
        let note = format!(
            "init container '{container}' (image {image}) was completed {MOST_COMPLETIONS} times for Pod Security level \
             'restricted', and somebody took it away each time; it is left as it is now. Add the securityContext where the \
             Deployment is written (allowPrivilegeEscalation: false, capabilities: drop ALL)"
        );
        context.events.warning(about, "PluginContainerContested", &note).await;
    }
}

/// True where something was written.
async fn complete(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    completion: &Completion,
) -> Result<bool, ApiError> {
    let Some(patch) = &completion.patch else { return Ok(false) };
    let api = objects::namespaced(&context.client, &context.namespace, &state.deployments);
    objects::merge_lists(&api, object, patch.clone()).await?;
    tracing::info!(containers = ?completion.completed, "completed init containers of plugins");
    Ok(true)
}

async fn pods(context: &Context, state: &State) -> Result<Vec<Value>, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &state.pods);
    let listed =
        api.list(&ListParams::default().labels(&selector())).await.attempt("list the server's pods")?;
    Ok(listed.items.iter().map(objects::to_json).collect())
}

/// What this server found in its plugin directory and cannot use.
async fn tell_problems(context: &Context, state: &State, about: &ObjectReference) {
    if !state.first_time() {
        return;
    }
    for problem in context.plugins.problems() {
        let note = format!(
            "plugin program '{}' is not used: {}; `lifeboat plugin get` lists all",
            problem.path.display(),
            problem.message
        );
        context.events.warning(about, "PluginNotUsed", &note).await;
    }
}
