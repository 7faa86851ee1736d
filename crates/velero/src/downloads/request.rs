//! DownloadRequest: a client asks for a link to one file. The link is signed by storage or, with `--download-url`,
//! leads to this server. Requests are deleted when their link has expired; a request that can never be answered is
//! deleted at once, because the kind has no field for a message and upstream's clients would wait.

mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_api::velero::DownloadRequest;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::unreadable;
use lifeboat_plan::time;
use lifeboat_plan::velero::download::{Grant, LINK_LIFE, RequestPlan, plan, seal};
use lifeboat_store::Retry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::locations;
use crate::{downloads, dynamic};

/// When a request is tried again that could not be answered.
const NEXT_TRY: Duration = Duration::from_secs(5);

/// Why there is no link.
#[derive(Debug)]
enum NoLink {
    /// The request can never be answered.
    Never(String),
    /// The request may be answered later.
    NotYet(String),
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<DownloadRequest>();
    let watches = context.watches(&resource).until(shutdown);
    dynamic::drive("download-request", watches, context.clone(), Arc::new(resource), reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    resource: Arc<ApiResource>,
) -> Result<Action, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    match plan(&objects::to_json(&object), context.now()) {
        RequestPlan::KeepFor(rest) => return Ok(Action::requeue(rest)),
        RequestPlan::Remove => {
            objects::delete(&api, &object).await?;
            return Ok(Action::await_change());
        }
        RequestPlan::Answer => {}
    }
    let expiration = context.now() + LINK_LIFE;
    match link(&context, &object, expiration.as_second()).await {
        Ok(url) => {
            let status = json!({
                "phase": "Processed", "downloadURL": url, "expiration": time::seconds(expiration),
            });
            match objects::merge(&api, &object, json!({"status": status})).await {
                Ok(_) => Ok(Action::requeue(LINK_LIFE)),
                Err(error) if error.is_not_found() => Ok(Action::await_change()),
                Err(error) => Err(error),
            }
        }
        Err(NoLink::Never(message)) => {
            context.events.warning(&object.object_ref(&resource), "NoLink", &message).await;
            objects::delete(&api, &object).await?;
            Ok(Action::await_change())
        }
        Err(NoLink::NotYet(message)) => {
            tracing::warn!(request = object.metadata.name, message, "cannot answer a download request yet");
            Ok(Action::requeue(NEXT_TRY))
        }
    }
}

async fn link(context: &Context, object: &DynamicObject, expires: i64) -> Result<String, NoLink> {
    let request: DownloadRequest = objects::typed(object)
        .map_err(|error| NoLink::Never(unreadable::message(error, "create the request again")))?;
    let target = target::find(context, &request.spec.target).await?;
    let settings = &context.settings.storage;
    if let Some(downloads) = &settings.downloads {
        let secret =
            downloads::sealing_secret(context).await.map_err(|error| NoLink::NotYet(error.chain()))?;
        let token = seal(&Grant { location: target.location, key: target.key, expires }, &secret);
        return Ok(format!("{}/download/{token}", downloads.url.as_str().trim_end_matches('/')));
    }
    let location = locations::open(context, &target.location).await.map_err(|error| match error.retry() {
        Retry::Never => NoLink::Never(error.to_string()),
        Retry::Later | Retry::Now => NoLink::NotYet(error.to_string()),
    })?;
    let signed = location.store.signed_url(&target.key, LINK_LIFE).await;
    signed.map(String::from).map_err(|error| {
        let message = locations::message(&error);
        match error.retry() {
            Retry::Later | Retry::Now => NoLink::NotYet(message),
            Retry::Never => NoLink::Never(format!(
                "{message}; or start the server with --download-url, which then serves files itself"
            )),
        }
    })
}
