//! ServerStatusRequest: answers which server runs, and removes answered requests. One decision
//! (`plan::server_status`), one write: there is nothing to gather or to validate.

use std::sync::Arc;

use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::server_status::{KEEP, RequestPlan, plan};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, VERSION};
use crate::dynamic;

pub(crate) async fn run(context: &Context, resting: &CancellationToken) {
    let resource = objects::resource("velero.io", "v1", "ServerStatusRequest", "serverstatusrequests");
    let controller =
        dynamic::controller(context, &resource).graceful_shutdown_on(resting.clone().cancelled_owned());
    dynamic::drive("server-status-request", controller, context.clone(), Arc::new(resource), reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    resource: Arc<ApiResource>,
) -> Result<Action, ApiError> {
    let api = objects::namespaced(&context.client, &context.settings.namespace, &resource);
    match plan(&objects::to_json(&object), VERSION, context.now()) {
        RequestPlan::Answer(status) => {
            objects::merge(&api, &object, status).await?;
            Ok(Action::requeue(KEEP))
        }
        RequestPlan::KeepFor(rest) => Ok(Action::requeue(rest)),
        RequestPlan::Delete => {
            let same = Preconditions { uid: object.uid(), resource_version: None };
            let params = DeleteParams::default().preconditions(same);
            match api.delete(&object.name_any(), &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => {
                    deleted.attempt(format!("delete ServerStatusRequest {}", object.name_any()))?;
                }
            }
            Ok(Action::await_change())
        }
    }
}
