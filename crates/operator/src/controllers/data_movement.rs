//! DataUpload and DataDownload: every open object that is for Lifeboat's own mover gets a task that brings it to its end
//! ([`crate::data_movement`]). What a server leaves open the next one takes up again; objects for other data movers are left
//! to those.

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{DataDownload, DataMovePhase, DataUpload};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::pod_volumes::status;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::pod_volumes::{Fresh, fresh};
use crate::context::Context;
use crate::data_movement::{downloading, sweep, uploading};
use crate::dynamic;
use crate::pod_volumes::Desk;
use crate::pod_volumes::carriers::Carriers;

/// How often objects are looked for that are gone, and the pause after trouble with the API.
const LOOK: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
enum Kind {
    Upload,
    Download,
}

struct State {
    kind: Kind,
    resource: ApiResource,
    carriers: Carriers,
    desk: Desk,
}

pub(crate) async fn run(context: &Context, resting: &CancellationToken) {
    tokio::join!(
        run_kind::<DataUpload>(context, resting, Kind::Upload, "data-upload"),
        run_kind::<DataDownload>(context, resting, Kind::Download, "data-download"),
        clear(context, resting),
    );
}

/// Takes away what earlier terms left.
async fn clear(context: &Context, resting: &CancellationToken) {
    let swept = resting.run_until_cancelled(sweep::sweep(&Desk::new(context))).await;
    if let Some(Err(error)) = swept {
        tracing::warn!(error = error.chain(), "cannot look for what data movements left");
    }
}

async fn run_kind<K: Resource<DynamicType = ()>>(
    context: &Context,
    resting: &CancellationToken,
    kind: Kind,
    name: &'static str,
) {
    let resource = objects::resource_of::<K>();
    let controller = dynamic::controller(context, &resource);
    let there = controller.store();
    let controller = controller.graceful_shutdown_on(resting.clone().cancelled_owned());
    let state = Arc::new(State { kind, resource, carriers: Carriers::default(), desk: Desk::new(context) });
    tokio::select! {
        () = dynamic::drive(name, controller, context.clone(), state.clone(), reconcile) => {}
        () = look(&state, &there) => {}
    }
    state.carriers.leave().await;
}

/// Ends the work on objects that are gone: no reconcile tells of them.
async fn look(state: &State, there: &Store<DynamicObject>) {
    if there.wait_until_ready().await.is_err() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK).await;
        let uids: Vec<String> = there.state().iter().filter_map(|object| object.uid()).collect();
        state.carriers.cancel_others(|uid| uids.iter().any(|known| known == uid));
    }
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let phase = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let uid = object.uid().unwrap_or_default();
    if DataMovePhase::from(phase).is_terminal() {
        return Ok(Action::await_change());
    }
    let desk = state.desk.clone();
    match state.kind {
        Kind::Upload => {
            let Some(typed) = read::<DataUpload>(&object, &context, &state).await? else {
                return Ok(Action::await_change());
            };
            if !uploading::is_ours(&typed) {
                return Ok(Action::await_change());
            }
            state.carriers.start(&uid, |cancel| async move {
                loop {
                    let ended = match fresh(&desk.context, &typed).await {
                        Ok(Fresh::Ended) => return,
                        Ok(Fresh::Open(object)) => uploading::run(&desk, &object, &cancel).await,
                        Err(error) => Err(error),
                    };
                    let Err(error) = ended else { return };
                    trouble(&typed.name_any(), &error).await;
                }
            });
        }
        Kind::Download => {
            let Some(typed) = read::<DataDownload>(&object, &context, &state).await? else {
                return Ok(Action::await_change());
            };
            if !downloading::is_ours(&typed) {
                return Ok(Action::await_change());
            }
            state.carriers.start(&uid, |cancel| async move {
                loop {
                    let ended = match fresh(&desk.context, &typed).await {
                        Ok(Fresh::Ended) => return,
                        Ok(Fresh::Open(object)) => downloading::run(&desk, &object, &cancel).await,
                        Err(error) => Err(error),
                    };
                    let Err(error) = ended else { return };
                    trouble(&typed.name_any(), &error).await;
                }
            });
        }
    }
    if object.metadata.deletion_timestamp.is_some() || object.data["spec"]["cancel"] == true {
        state.carriers.cancel(&uid);
    }
    Ok(Action::await_change())
}

async fn trouble(name: &str, error: &ApiError) {
    tracing::warn!(object = name, error = error.chain(), "cannot go on with a data movement yet");
    tokio::time::sleep(LOOK).await;
}

/// The typed form; one that cannot be read ends at once, with what is wrong.
async fn read<K: DeserializeOwned>(
    object: &DynamicObject,
    context: &Context,
    state: &State,
) -> Result<Option<K>, ApiError> {
    let error = match objects::typed::<K>(object) {
        Ok(typed) => return Ok(Some(typed)),
        Err(error) => error,
    };
    let api = objects::namespaced(&context.client, &context.settings.namespace, &state.resource);
    let words = format!("the object cannot be read: {error}");
    match objects::merge(&api, object, status::failed(&words, context.now())).await {
        Ok(_) => Ok(None),
        Err(error) if error.is_invalid() => {
            context.refused.tell(&context.events, object, &state.resource, &words, &error).await;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
