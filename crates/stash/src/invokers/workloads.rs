//! Finds the workloads of a Restic: those of its namespace that its selector matches, of all kinds.

use std::collections::BTreeMap;

use kube::api::ListParams;
use lifeboat_api::common::LabelSelector;
use lifeboat_api::stash::TargetRef;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::restic::{WORKLOADS, selected};
use serde_json::Value;

use crate::context::Context;
use crate::target::resource;

/// The workloads; none if the selector is not valid, which the validation of the Restic reports.
pub(super) async fn find(
    context: &Context,
    namespace: &str,
    selector: &LabelSelector,
) -> Result<Vec<TargetRef>, ApiError> {
    let mut all: BTreeMap<TargetKind, Vec<Value>> = BTreeMap::new();
    for kind in WORKLOADS {
        let api = objects::namespaced(&context.client, namespace, &resource(kind));
        let listed = match api.list_metadata(&ListParams::default()).await {
            // Most clusters do not have DeploymentConfigs.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed.attempt(format!("list objects of kind {kind} in namespace {namespace}"))?,
        };
        // Metadata is plain data, which always has a JSON form.
        let metadata = listed.items.iter().map(|item| serde_json::to_value(item).unwrap_or_default());
        all.insert(kind, metadata.collect());
    }
    Ok(selected(selector, &all).unwrap_or_default())
}
