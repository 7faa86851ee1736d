//! The server's own Deployment: adds security settings to init containers that upstream's `velero plugin add` put
//! there, so that a namespace that enforces `restricted` accepts the next pods, and reports by events why plugins are
//! not used. `plan::plugin_images` decides what is wrong and missing; the Deployment rolls with maxUnavailable 0, so
//! an old server still runs and can do it. A server outside of the cluster has no Deployment and does nothing here.

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

/// How often the same containers are completed: if a GitOps tool reverted it each time, new servers would be rolled
/// out for ever.
const MOST_COMPLETIONS: u32 = 3;

/// What was reported about the current generation of the Deployment: a new generation is reported again.
struct State {
    deployments: ApiResource,
    pods: ApiResource,
    reported: Mutex<Reported>,
    /// How often this server completed each container, by name and image.
    completed: Mutex<BTreeMap<(String, String), u32>>,
}

#[derive(Default)]
struct Reported {
    generation: Option<i64>,
    /// Programs that cannot be used are reported once, however often the Deployment changes.
    problems: bool,
    what: BTreeSet<String>,
}

impl State {
    fn new() -> Self {
        Self {
            deployments: objects::resource("apps", "v1", "Deployment", "deployments"),
            pods: objects::resource("", "v1", "Pod", "pods"),
            reported: Mutex::default(),
            completed: Mutex::default(),
        }
    }

    fn is_unreported(&self, generation: Option<i64>, what: String) -> bool {
        let mut reported = locked(&self.reported);
        if reported.generation != generation {
            reported.generation = generation;
            reported.what.clear();
        }
        reported.what.insert(what)
    }

    /// The containers that were completed so often that something must be reverting it.
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
        let mut reported = locked(&self.reported);
        !std::mem::replace(&mut reported.problems, true)
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let state = Arc::new(State::new());
    let namespace = &context.namespace;
    let deployments = objects::namespaced(&context.client, namespace, &state.deployments);
    let pods = objects::namespaced(&context.client, namespace, &state.pods);
    // The permissions of a limited installation cover only this Deployment, so only it is watched.
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

/// The selector of the server's pods.
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
    report_problems(&context, &state, &about).await;
    let deployment = objects::to_json(&object);
    let completion = plugin_images::completion(&deployment);
    let contested = state.contested(&completion);
    report_contested(&context, &state, &about, &contested).await;
    let completed = contested.is_empty() && complete(&context, &state, &object, &completion).await?;
    let generation = object.metadata.generation;
    if completed {
        state.count(&completion);
        for (container, image) in &completion.completed {
            let note = format!(
                "init container '{container}' (image {image}) got the settings that Pod Security level 'restricted' requires"
            );
            context.events.normal(&about, "PluginContainerCompleted", &note).await;
        }
        // The change triggers the next reconcile.
        return Ok(Action::await_change());
    }
    for refusal in completion.refused {
        if state.is_unreported(generation, format!("refused/{}", refusal.container)) {
            context.events.warning(&about, "PluginNeedsRoot", &refusal.message).await;
        }
    }
    for problem in plugin_images::problems(&deployment, &pods(&context, &state).await?) {
        if state.is_unreported(generation, format!("{:?}/{}", problem.kind, problem.container)) {
            context.events.warning(&about, problem.kind.reason(), &problem.message).await;
        }
    }
    Ok(Action::await_change())
}

/// Reports each contested container once, however often it is reverted.
async fn report_contested(
    context: &Context,
    state: &State,
    about: &ObjectReference,
    contested: &[(String, String)],
) {
    for (container, image) in contested {
        let reported = {
            let mut counts = locked(&state.completed);
            let count = counts.entry((container.clone(), image.clone())).or_default();
            std::mem::replace(count, u32::MAX) == u32::MAX
        };
        if reported {
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

/// Completes the containers. True if the Deployment was changed.
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

/// Reports the programs in the plugin directory that this server cannot use.
async fn report_problems(context: &Context, state: &State, about: &ObjectReference) {
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
