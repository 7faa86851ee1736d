//! The built-in restore item actions, in the order in which they run. Each changes one aspect of an item that is not
//! valid in another cluster or at a later time; names and behaviour are those of stock Velero.

mod config;
mod pods;
mod rights;
mod secrets;
mod services;
mod volumes;
mod workloads;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::actions::{ActionError, AppliesTo, Lookup, RestoreInput, RestoreItemAction, RestoreOutcome};

/// All built-in restore item actions.
pub fn actions() -> Vec<Arc<dyn RestoreItemAction>> {
    vec![
        Arc::new(Pure::new("velero.io/job", &["jobs"], workloads::job)),
        Arc::new(Pure::new("velero.io/pod", &["pods"], pods::pod)),
        Arc::new(config::PodVolumeRestore),
        Arc::new(Pure::new("velero.io/init-restore-hook", &["pods"], pods::init_hooks)),
        Arc::new(Pure::new("velero.io/service", &["services"], services::service)),
        Arc::new(Pure::new("velero.io/service-account", &["serviceaccounts"], rights::service_account)),
        Arc::new(Pure::new("velero.io/add-pvc-from-pod", &["pods"], pods::claims)),
        Arc::new(config::ChangeStorageClass),
        Arc::new(config::ChangeImageName),
        Arc::new(Pure::new("velero.io/role-bindings", &["rolebindings"], rights::binding)),
        Arc::new(Pure::new("velero.io/cluster-role-bindings", &["clusterrolebindings"], rights::binding)),
        Arc::new(Pure::new(
            "velero.io/crd-preserve-fields",
            &["customresourcedefinitions.apiextensions.k8s.io"],
            rights::definition,
        )),
        Arc::new(Pure::new("velero.io/pvc", &["persistentvolumeclaims"], volumes::claim)),
        Arc::new(
            Pure::new("velero.io/apiservice", &["apiservices"], left_out)
                .with_selector("kube-aggregator.kubernetes.io/automanaged"),
        ),
        Arc::new(Pure::new(
            "velero.io/admission-webhook-configuration",
            &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            rights::webhooks,
        )),
        Arc::new(secrets::ServiceAccountTokens),
        Arc::new(Pure::new("velero.io/dataupload", &["datauploads.velero.io"], left_out)),
    ]
}

type Run = fn(RestoreInput<'_>) -> Result<RestoreOutcome, ActionError>;

/// An action that does not read the cluster.
struct Pure {
    name: &'static str,
    types: &'static [&'static str],
    selector: &'static str,
    run: Run,
}

impl Pure {
    fn new(name: &'static str, types: &'static [&'static str], run: Run) -> Self {
        Self { name, types, selector: "", run }
    }

    fn with_selector(mut self, selector: &'static str) -> Self {
        self.selector = selector;
        self
    }
}

#[async_trait]
impl RestoreItemAction for Pure {
    fn name(&self) -> &str {
        self.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo { selector: self.selector.to_owned(), ..AppliesTo::resources(self.types) })
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        _cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        (self.run)(input)
    }
}

/// Skips items that the cluster creates by itself, or that only recorded where data was.
#[allow(clippy::unnecessary_wraps)] // the form of all actions
fn left_out(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    Ok(RestoreOutcome::skipped(input.item))
}

/// The text at this JSON pointer, or an empty string.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Removes a field of the object at `pointer`.
fn remove(object: &mut Value, pointer: &str, field: &str) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.remove(field);
    }
}

/// The items of a list, mutable.
fn items<'a>(object: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Keeps the matching items of a list, and removes the list if it is empty then.
fn retain(object: &mut Value, pointer: &str, field: &str, keep: impl FnMut(&Value) -> bool) {
    let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
    let Some(list) = fields.get_mut(field).and_then(Value::as_array_mut) else { return };
    list.retain(keep);
    if list.is_empty() {
        fields.remove(field);
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
