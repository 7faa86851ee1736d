//! Ends new objects of kinds that this version does not serve, with the words of `plan::unsupported`: an object that
//! nobody works on would be silent data loss.

use std::sync::Arc;

use futures::future::join_all;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::unsupported::{GROUP, KINDS, UnsupportedKind, end, message};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, VERSION};
use crate::dynamic;

struct Kind {
    kind: UnsupportedKind,
    resource: ApiResource,
}

pub(crate) async fn run(context: &Context, resting: &CancellationToken) {
    join_all(KINDS.iter().map(|kind| run_kind(context, resting, *kind))).await;
}

async fn run_kind(context: &Context, resting: &CancellationToken, kind: UnsupportedKind) {
    let resource = objects::resource(GROUP, kind.version, kind.kind, kind.plural);
    let controller =
        dynamic::controller(context, &resource).graceful_shutdown_on(resting.clone().cancelled_owned());
    let state = Arc::new(Kind { kind, resource });
    dynamic::drive("unsupported", controller, context.clone(), state, reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<Kind>,
) -> Result<Action, ApiError> {
    let Some(patch) = end(&state.kind, &objects::to_json(&object), VERSION, context.now()) else {
        return Ok(Action::await_change());
    };
    let api = objects::namespaced(&context.client, &context.settings.namespace, &state.resource);
    let words = message(&state.kind, VERSION);
    match objects::merge(&api, &object, patch).await {
        Ok(_) => {}
        Err(error) if error.is_invalid() => {
            return Ok(context.refused.tell(&context.events, &object, &state.resource, &words, &error).await);
        }
        Err(error) => return Err(error),
    }
    context.events.warning(&object.object_ref(&state.resource), "NotSupported", &words).await;
    Ok(Action::await_change())
}
