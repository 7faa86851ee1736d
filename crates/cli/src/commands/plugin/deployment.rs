//! The server's Deployment for the plugin commands: reads it, changes its init containers, waits for the rollout.

use std::time::Duration;

use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use lifeboat_cluster::wait::{Look, until};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::install::DEPLOYMENT;
use lifeboat_plan::plugin_images::{self, ContainerProblem, ProblemKind};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::settings::Settings;

pub(super) fn api(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = objects::resource("apps", "v1", "Deployment", "deployments");
    objects::namespaced(client, namespace, &resource)
}

pub(super) async fn read(client: &Client, settings: &Settings) -> Result<DynamicObject, CliError> {
    let namespace = &settings.namespace;
    let found = api(client, namespace)
        .get_opt(DEPLOYMENT)
        .await
        .attempt(format!("read Deployment {namespace}/{DEPLOYMENT}"))?;
    found.ok_or_else(|| {
        CliError::not_found(format!("there is no Deployment {DEPLOYMENT} in namespace {namespace}")).help(
            "install Lifeboat with `lifeboat install`, or name its namespace with -n; a server outside of the cluster \
             finds plugins in the directory of --plugin-dir",
        )
    })
}

/// Changes init containers; fails if the Deployment was changed in the meantime.
pub(super) async fn change(
    client: &Client,
    settings: &Settings,
    object: &DynamicObject,
    container: &Value,
) -> Result<(), CliError> {
    let patch = json!({"spec": {"template": {"spec": {"initContainers": [container]}}}});
    objects::merge_lists(&api(client, &settings.namespace), object, patch).await?;
    Ok(())
}

/// The reasons why pods of the server do not start.
pub(super) async fn problems(
    client: &Client,
    namespace: &str,
    deployment: &Value,
) -> Result<Vec<ContainerProblem>, ApiError> {
    let pods = objects::namespaced(client, namespace, &objects::resource("", "v1", "Pod", "pods"));
    let listed = pods
        .list(&ListParams::default().labels("app.kubernetes.io/name=lifeboat,component=velero"))
        .await
        .attempt("list the server's pods")?;
    let pods: Vec<Value> = listed.items.iter().map(objects::to_json).collect();
    Ok(plugin_images::problems(deployment, &pods))
}

/// Waits until all servers run with the current spec of the Deployment. A failing init container ends the wait: the
/// kubelet starts it again, but it hardly ever succeeds later.
pub(super) async fn wait(client: &Client, settings: &Settings, limit: Duration) -> Result<(), CliError> {
    let (namespace, api) = (&settings.namespace, api(client, &settings.namespace));
    let ended = until("the new server", limit, async || {
        let found = api.get(DEPLOYMENT).await.attempt(format!("read Deployment {DEPLOYMENT}"))?;
        let found = objects::to_json(&found);
        if let Some(seen) = not_rolled_out(&found) {
            // A failed image pull is still waited for: registries are sometimes unavailable.
            let problems = problems(client, namespace, &found).await?;
            return Ok(match problems.into_iter().min_by_key(|problem| problem.kind == ProblemKind::Image) {
                Some(problem) if problem.kind != ProblemKind::Image => Look::Done(Err(problem)),
                Some(problem) => Look::NotYet(problem.message),
                None => Look::NotYet(seen),
            });
        }
        Ok(Look::Done(Ok(())))
    })
    .await
    .map_err(|error| {
        CliError::from(error).help(format!(
            "`kubectl -n {namespace} describe pods` shows more; the old server keeps running meanwhile"
        ))
    })?;
    ended.map_err(|problem| CliError::ended(problem.message))
}

/// None if all replicas are updated and ready; otherwise what is missing.
fn not_rolled_out(deployment: &Value) -> Option<String> {
    let number = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1);
    let of = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    let current = of("observedGeneration") >= number("/metadata/generation").unwrap_or(0);
    let ready = if current { of("readyReplicas").min(of("updatedReplicas")) } else { 0 };
    let done = current && ready >= wanted && of("replicas") == wanted;
    (!done).then(|| format!("{ready} of {wanted} new replicas ready"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::done(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}), None)]
    #[case::not_seen(json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}),
        Some("0 of 2 new replicas ready"))]
    #[case::half(json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3}),
        Some("1 of 2 new replicas ready"))]
    #[case::old_one_is_left(json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 3}),
        Some("2 of 2 new replicas ready"))]
    #[case::nothing_yet(json!({}), Some("0 of 2 new replicas ready"))]
    fn a_rollout_is_done_when_all_are_new_and_ready(#[case] status: Value, #[case] expected: Option<&str>) {
        let deployment = json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        assert_eq!(not_rolled_out(&deployment).as_deref(), expected);
    }
}
