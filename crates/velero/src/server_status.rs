//! ServerStatusRequest: answers with the server's version and its plugins, and removes answered requests. One
//! decision (`plan::velero::server_status`), one write: there is nothing to gather or to validate.

use std::sync::Arc;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_api::velero::ServerStatusRequest;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::velero::server_status::{KEEP, RequestPlan, plan};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, VERSION};
use crate::dynamic;

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<ServerStatusRequest>();
    let watches = context.watches(&resource).until(shutdown);
    dynamic::drive("server-status-request", watches, context.clone(), Arc::new(resource), reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    resource: Arc<ApiResource>,
) -> Result<Action, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    match plan(&objects::to_json(&object), VERSION, &context.listed_plugins(), context.now()) {
        RequestPlan::Answer(status) => match objects::merge(&api, &object, status).await {
            Ok(_) => Ok(Action::requeue(KEEP)),
            Err(error) if error.is_invalid() => {
                let message = "the request cannot be answered";
                Ok(context.refused.report(&context.events, &object, &resource, message, &error).await)
            }
            Err(error) => Err(error),
        },
        RequestPlan::KeepFor(rest) => Ok(Action::requeue(rest)),
        RequestPlan::Delete => {
            objects::delete(&api, &object).await?;
            Ok(Action::await_change())
        }
    }
}
