//! VolumeSnapshotLocation: shows whether snapshots can be taken there. Its plugin is started and configured once for
//! each state of the location and its Secret; one that fails is tried again. Upstream's status has only a phase, so
//! problems are reported by an event and an annotation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::velero::VolumeSnapshotLocation;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::locked;
use lifeboat_plan::velero::location::UNAVAILABLE_BECAUSE;
use lifeboat_plugin::host::{ServerLog, Session};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;
use crate::locations::Secrets;
use crate::snapshot_locations::{self, SnapshotterError};

/// How long the plugin may take to be configured: a user waits for the result.
const PATIENCE: Duration = Duration::from_mins(1);
/// When a plugin that could not be configured is tried again: a cloud may become available without a change of the
/// object.
const NEXT_TRY: Duration = Duration::from_mins(5);

/// Which state of each location was checked, by UID, and what was wrong with it.
struct State {
    resource: ApiResource,
    judged: Mutex<BTreeMap<String, CheckedState>>,
    /// When a plugin that could not be configured is tried again with the same settings.
    again: Duration,
}

#[derive(Clone)]
struct CheckedState {
    inputs: String,
    problem: Option<String>,
    tried: Instant,
}

impl CheckedState {
    /// Whether its plugin need not be tried again with these settings. A plugin's message may differ each time, and
    /// writing it triggers the next reconcile at once.
    fn holds(&self, inputs: &str, again: Duration) -> bool {
        self.inputs == inputs && (self.problem.is_none() || self.tried.elapsed() < again)
    }

    fn is_same_result(&self, other: &Self) -> bool {
        (&self.inputs, &self.problem) == (&other.inputs, &other.problem)
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<VolumeSnapshotLocation>();
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &context.namespace);
    let kind = resource.clone();
    // After new credentials, the locations that name the Secret are checked again.
    let watches = context
        .watches(&resource)
        .triggered_by(&secrets, move |secret, locations| {
            let (name, kind) = (secret.name_any(), kind.clone());
            let named = |location: &Arc<DynamicObject>| {
                location.data.pointer("/spec/credential/name").and_then(Value::as_str) == Some(&name)
            };
            let found: Vec<_> = locations.state().into_iter().filter(named).collect();
            found.into_iter().map(move |location| ObjectRef::from_obj_with(location.as_ref(), kind.clone()))
        })
        .until(shutdown);
    let state = Arc::new(State { resource, judged: Mutex::default(), again: NEXT_TRY });
    dynamic::drive("volume-snapshot-location", watches, context.clone(), state, reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let session = context.plugins.session(Arc::new(ServerLog));
    let action = judge(&context, &state, &object, &session).await;
    session.close().await;
    action
}

async fn judge(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    session: &Session,
) -> Result<Action, ApiError> {
    let uid = object.uid().unwrap_or_default();
    if object.metadata.deletion_timestamp.is_some() {
        locked(&state.judged).remove(&uid);
        return Ok(Action::await_change());
    }
    let location = snapshot_locations::read(object);
    let secrets = match &location {
        Ok(location) => snapshot_locations::secrets(context, location).await?,
        Err(_) => Secrets::new(),
    };
    let inputs = inputs(object, &secrets);
    let before = locked(&state.judged).get(&uid).cloned();
    // The result was just written, or was overwritten: the plugin is not tried again for that.
    let known = before.as_ref().filter(|judged| judged.holds(&inputs, state.again));
    let tried = known.map_or_else(Instant::now, |known| known.tried);
    let problem = match (known, location) {
        (Some(known), _) => known.problem.clone(),
        (None, Ok(location)) => {
            try_out(context, session, &location, &secrets).await.err().map(|error| error.chain())
        }
        (None, Err(error)) => Some(error.chain()),
    };
    let judged = CheckedState { inputs, problem, tried };
    let is_new = !before.as_ref().is_some_and(|before| before.is_same_result(&judged));
    let again = if judged.problem.is_some() { Action::requeue(NEXT_TRY) } else { Action::await_change() };
    if (is_new || !is_shown(object, judged.problem.as_deref()))
        && let Some(action) = write(context, state, object, judged.problem.as_deref(), is_new).await?
    {
        return Ok(action);
    }
    locked(&state.judged).insert(uid, judged);
    Ok(again)
}

/// Everything that a result depends on.
fn inputs(object: &DynamicObject, secrets: &Secrets) -> String {
    let versions: Vec<_> =
        secrets.iter().map(|(name, secret)| (name, secret.as_ref().map(|secret| &secret.version))).collect();
    format!("{:?} {versions:?}", object.data.get("spec"))
}

/// Opens the location and configures its plugin.
async fn try_out(
    context: &Context,
    session: &Session,
    location: &VolumeSnapshotLocation,
    secrets: &Secrets,
) -> Result<(), SnapshotterError> {
    let opened = snapshot_locations::open_with(context, session, location, secrets)?;
    let unusable = |message: String| SnapshotterError::unusable(&location.name_any(), &message);
    // The first call of a plugin configures it, whatever the call is.
    match timeout(PATIENCE, opened.snapshotter.reports_progress()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(unusable(format!(
            "the plugin rejects its settings: {error}; correct spec.config or the credentials"
        ))),
        Err(_elapsed) => {
            Err(unusable(format!("its plugin did not accept its settings within {} s", PATIENCE.as_secs())))
        }
    }
}

fn is_shown(object: &DynamicObject, problem: Option<&str>) -> bool {
    let shown = object.data.pointer("/status/phase").and_then(Value::as_str);
    let message = object.annotations().get(UNAVAILABLE_BECAUSE).map(String::as_str);
    shown == Some(phase(problem)) && message == problem
}

fn phase(problem: Option<&str>) -> &'static str {
    if problem.is_some() { "Unavailable" } else { "Available" }
}

/// Writes the status; returns an action if the object cannot be written.
async fn write(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    problem: Option<&str>,
    is_new: bool,
) -> Result<Option<Action>, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &state.resource);
    let was = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().to_owned();
    let patch = json!({
        "metadata": {"annotations": {UNAVAILABLE_BECAUSE: problem}},
        "status": {"phase": phase(problem)},
    });
    match objects::merge(&api, object, patch).await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(Some(Action::await_change())),
        Err(error) if error.is_invalid() => {
            let message = problem.unwrap_or("the location can be used, but its status cannot be written");
            return Ok(Some(
                context.refused.report(&context.events, object, &state.resource, message, &error).await,
            ));
        }
        Err(error) => return Err(error),
    }
    let about = object.object_ref(&state.resource);
    match problem {
        Some(message) if is_new => context.events.warning(&about, "Unavailable", message).await,
        None if was == "Unavailable" => {
            context.events.normal(&about, "Available", "snapshots can be taken here").await;
        }
        _ => {}
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use lifeboat_plugin::volume::VolumeSnapshotter;

    use super::*;
    use crate::testing::Cluster;
    use crate::testing::volumes::{FakeSnapshotter, at_once, failing, never};

    fn state() -> State {
        let resource = objects::resource_of::<VolumeSnapshotLocation>();
        State { resource, judged: Mutex::default(), again: Duration::ZERO }
    }

    async fn cluster() -> Cluster {
        let cluster = Cluster::new().await;
        cluster.put(
            "volumesnapshotlocations",
            &json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": {"name": "main"},
                "spec": {"provider": "fake"}}),
        );
        cluster
    }

    async fn look(cluster: &mut Cluster, state: &State, fake: Option<FakeSnapshotter>) -> (Value, Action) {
        let fake =
            fake.map(|fake| ("velero.io/fake".to_owned(), Arc::new(fake) as Arc<dyn VolumeSnapshotter>));
        cluster.context.snapshotters = fake.into_iter().collect();
        let object = cluster.get("volumesnapshotlocations", "main").unwrap();
        let object = serde_json::from_value(object).unwrap();
        let session = cluster.context.plugins.session(Arc::new(ServerLog));
        let action = judge(&cluster.context, state, &object, &session).await.unwrap();
        (cluster.get("volumesnapshotlocations", "main").unwrap(), action)
    }

    #[tokio::test]
    async fn a_location_whose_plugin_takes_its_settings_is_available_and_asked_once() {
        let (mut cluster, state) = (cluster().await, state());
        let asked = Arc::new(Mutex::new(0));
        let counted = asked.clone();
        let init = at_once(move |()| {
            *counted.lock().unwrap() += 1;
            Ok(false)
        });
        let fake = FakeSnapshotter { init: Some(init), ..FakeSnapshotter::default() };
        for _ in 0..3 {
            let (written, action) = look(&mut cluster, &state, Some(fake.clone())).await;
            assert_eq!(written["status"]["phase"], "Available");
            assert_eq!(action, Action::await_change());
        }
        assert_eq!(*asked.lock().unwrap(), 1);
        assert!(cluster.events().is_empty());
    }

    #[tokio::test]
    async fn what_is_wrong_is_told_once_and_tried_again() {
        let (mut cluster, state) = (cluster().await, state());
        let broken = FakeSnapshotter { init: Some(failing("no region")), ..FakeSnapshotter::default() };
        for _ in 0..2 {
            let (written, action) = look(&mut cluster, &state, Some(broken.clone())).await;
            assert_eq!(written["status"]["phase"], "Unavailable");
            let message = written["metadata"]["annotations"][UNAVAILABLE_BECAUSE].as_str().unwrap();
            assert!(message.contains("no region"), "{message}");
            assert_eq!(action, Action::requeue(NEXT_TRY));
        }
        assert_eq!(cluster.events(), ["Unavailable"]);
        let (written, _) = look(&mut cluster, &state, Some(FakeSnapshotter::default())).await;
        assert_eq!(written["status"]["phase"], "Available");
        assert!(written["metadata"]["annotations"][UNAVAILABLE_BECAUSE].is_null());
        assert_eq!(cluster.events(), ["Unavailable", "Available"]);
    }

    #[tokio::test]
    async fn words_that_change_do_not_have_the_plugin_asked_at_once() {
        let mut cluster = cluster().await;
        let state = State { again: NEXT_TRY, ..state() };
        let asked = Arc::new(Mutex::new(0));
        let counted = asked.clone();
        let init = at_once(move |()| {
            *counted.lock().unwrap() += 1;
            Err(lifeboat_plugin::ActionError::Failed(format!("request {}", counted.lock().unwrap())))
        });
        let fake = FakeSnapshotter { init: Some(init), ..FakeSnapshotter::default() };
        for _ in 0..3 {
            look(&mut cluster, &state, Some(fake.clone())).await;
        }
        assert_eq!((*asked.lock().unwrap(), cluster.events().len()), (1, 1));
    }

    #[tokio::test]
    async fn a_provider_without_a_plugin_is_named() {
        let (mut cluster, state) = (cluster().await, state());
        let (written, _) = look(&mut cluster, &state, None).await;
        let message = written["metadata"]["annotations"][UNAVAILABLE_BECAUSE].as_str().unwrap();
        assert!(message.contains("velero.io/fake") && message.contains("lifeboat plugin get"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_is_not_waited_for_for_ever() {
        let client = lifeboat_control::testing::ApiServer::default().client().await;
        let mut context = crate::testing::context(client);
        let hanging = FakeSnapshotter { init: Some(never()), ..FakeSnapshotter::default() };
        context.snapshotters.insert("velero.io/fake".to_owned(), Arc::new(hanging));
        let spec = lifeboat_api::velero::VolumeSnapshotLocationSpec {
            provider: "fake".into(),
            ..Default::default()
        };
        let location = VolumeSnapshotLocation::new("main", spec);
        let session = context.plugins.session(Arc::new(ServerLog));
        let error = try_out(&context, &session, &location, &Secrets::new()).await.unwrap_err();
        assert!(error.chain().contains("within 60 s"), "{}", error.chain());
    }
}
