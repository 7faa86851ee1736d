//! Asks the server for its version and plugins: creates a ServerStatusRequest, waits for its status and deletes it.
//! Called by `version` and `plugin …`.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ObjectMeta, PostParams};
use kube::{Api, Client};
use lifeboat_api::velero::ServerStatusRequest;
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{Attempt, objects};
use serde_json::{Value, json};

use crate::error::CliError;

/// The processed request.
pub(crate) async fn ask(client: &Client, namespace: &str, limit: Duration) -> Result<Value, CliError> {
    let resource = objects::resource_of::<ServerStatusRequest>();
    let api: Api<DynamicObject> = objects::namespaced(client, namespace, &resource);
    let mut request = DynamicObject::new("", &resource).data(json!({"spec": {}}));
    request.metadata = ObjectMeta { generate_name: Some("lifeboat-cli-".into()), ..ObjectMeta::default() };
    let made = api
        .create(&PostParams::default(), &request)
        .await
        .attempt(format!("ask the server in namespace {namespace} for its version"))?;
    let name = made.metadata.name.unwrap_or_default();
    let answer = until("the server's answer", limit, async || {
        let found = api.get(&name).await.attempt(format!("read ServerStatusRequest {name}"))?;
        let processed = found.data.pointer("/status/phase").and_then(Value::as_str) == Some("Processed");
        Ok(if processed { Look::Done(objects::to_json(&found)) } else { Look::NotYet("no answer".into()) })
    })
    .await;
    // The server deletes the request too, so a failure here does not matter.
    let _ = api.delete(&name, &DeleteParams::default()).await;
    answer.map_err(|error| {
        CliError::from(error)
            .help(format!("is the server running? `kubectl -n {namespace} get pods` shows its pods"))
    })
}
