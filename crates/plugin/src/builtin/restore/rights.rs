//! Actions for service accounts, role bindings, custom resource definitions and webhooks.

use serde_json::{Value, json};

use crate::actions::{ActionError, RestoreInput, RestoreOutcome};

use super::{items, text};

/// Removes the token secret that the old cluster created; the new cluster creates another one.
#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn service_account(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut account = input.item;
    let token = format!("{}-token-", text(&account, "/metadata/name"));
    let is_token = |secret: &Value| secret["name"].as_str().is_some_and(|name| name.starts_with(&token));
    if let Some(secrets) = account["secrets"].as_array_mut()
        && let Some(last) = secrets.iter().rposition(is_token)
    {
        secrets.remove(last);
    }
    if account["secrets"].as_array().is_none_or(Vec::is_empty)
        && let Some(fields) = account.as_object_mut()
    {
        fields.remove("secrets");
    }
    Ok(RestoreOutcome::item(account))
}

/// Applies the namespace mapping to the subjects of a binding.
#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn binding(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut binding = input.item;
    if let Some(mapping) = &input.restore.spec.namespace_mapping {
        for subject in items(&mut binding, "/subjects") {
            if let Some(target) = subject["namespace"].as_str().and_then(|namespace| mapping.get(namespace)) {
                subject["namespace"] = json!(target);
            }
        }
    }
    Ok(RestoreOutcome::item(binding))
}

/// Version v1beta1 of a custom resource definition had one field for keeping unknown fields; in v1 each version has it
/// in its schema.
#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn definition(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut definition = input.item;
    let old = definition["apiVersion"] == "apiextensions.k8s.io/v1"
        && definition.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
    if old {
        definition["spec"]["preserveUnknownFields"] = json!(false);
        for version in items(&mut definition, "/spec/versions") {
            if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema")
                && schema.is_object()
            {
                schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
            }
        }
    }
    Ok(RestoreOutcome::item(definition))
}

/// The v1 API of webhooks accepts only two values for side effects.
#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn webhooks(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut configuration = input.item;
    if configuration["apiVersion"] == "admissionregistration.k8s.io/v1" {
        for webhook in items(&mut configuration, "/webhooks") {
            if !matches!(text(webhook, "/sideEffects"), "None" | "NoneOnDryRun") {
                webhook["sideEffects"] = json!("None");
            }
        }
    }
    Ok(RestoreOutcome::item(configuration))
}
