//! Claims of targets: the existing ones, and those that a restore creates from templates.

use std::collections::BTreeSet;

use lifeboat_api::stash::{ClaimTemplate, RestoreTarget};
use serde_json::{Value, json};

use super::pods::pod_template;
use crate::json::text;
use crate::stash::hosts::{HostOf, TargetKind};
use crate::transfer::directory::claim_of;

/// The variable in the claim templates of a restore: the ordinal of the replica.
pub const POD_ORDINAL: &str = "${POD_ORDINAL}";

/// A claim to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewClaim {
    pub name: String,
    /// The whole object, with its namespace.
    pub object: Value,
}

/// Why claims cannot be created from the templates of a restore.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error(
        "target.volumeClaimTemplates[{place}] has no metadata.name; give it one, because the restore has to find its claim again"
    )]
    NoName { place: usize },
    #[error(
        "target.volumeClaimTemplates[{place}] is named {name:?}, and target.replicas is {replicas}: all replicas would get one claim; put \
         ${{POD_ORDINAL}} into the name"
    )]
    SameName { place: usize, name: String, replicas: u32 },
    #[error(
        "target.volumeClaimTemplates[{place}] has {value:?}, with a variable that is not known; expected no other than ${{POD_ORDINAL}}"
    )]
    Variable { place: usize, value: String },
    #[error(
        "target.volumeClaimTemplates[{place}] is for namespace {namespace:?}; expected none or {own:?}, the namespace of the restore"
    )]
    Namespace { place: usize, namespace: String, own: String },
    #[error(
        "target.volumeMounts names volume {volume:?}, which no claim template has; expected one of {available} (a template's name without \
         \"-${{POD_ORDINAL}}\")"
    )]
    NoTemplate { volume: String, available: String },
}

/// The claims of a target among those of its namespace. `pods`: its own.
pub fn claims_of(kind: TargetKind, object: &Value, pods: &[&Value], existing: &[String]) -> BTreeSet<String> {
    if kind == TargetKind::Claim {
        return BTreeSet::from([text(object, "/metadata/name").to_owned()]);
    }
    let of_pods = pods.iter().flat_map(|pod| {
        volumes(pod).iter().filter_map(move |volume| claim_of(text(pod, "/metadata/name"), volume))
    });
    let template = pod_template(object).map(volumes).unwrap_or_default();
    let of_template =
        template.iter().map(|volume| text(volume, "/persistentVolumeClaim/claimName").to_owned());
    let names: BTreeSet<String> = of_pods.chain(of_template).collect();
    let of_templates = |claim: &String| {
        let mut own = templates(object).map(|template| text(template, "/metadata/name"));
        kind == TargetKind::StatefulSet && own.any(|template| ordinal_of(object, template, claim).is_some())
    };
    existing.iter().filter(|claim| names.contains(*claim) || of_templates(claim)).cloned().collect()
}

/// The volumes of a pod or pod template.
pub(super) fn volumes(pod: &Value) -> &[Value] {
    pod.pointer("/spec/volumes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The claim templates of a StatefulSet.
pub(super) fn templates(stateful_set: &Value) -> impl Iterator<Item = &Value> {
    stateful_set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).into_iter().flatten()
}

/// The name of a StatefulSet's claim.
pub(super) fn stateful_name(stateful_set: &Value, template: &str, ordinal: u32) -> String {
    format!("{template}-{}-{ordinal}", text(stateful_set, "/metadata/name"))
}

/// The ordinal in the name of a StatefulSet's claim; None for other claims.
pub(super) fn ordinal_of(stateful_set: &Value, template: &str, claim: &str) -> Option<u32> {
    let prefix = format!("{template}-{}-", text(stateful_set, "/metadata/name"));
    let ordinal: u32 = claim.strip_prefix(&prefix)?.parse().ok()?;
    (stateful_name(stateful_set, template, ordinal) == claim).then_some(ordinal)
}

/// The claim that the StatefulSet's controller would create, with the labels of the template and of the selector.
pub(super) fn of_stateful_set(stateful_set: &Value, template: &Value, ordinal: u32) -> NewClaim {
    let name = stateful_name(stateful_set, text(template, "/metadata/name"), ordinal);
    let mut labels = template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    let selected = stateful_set.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    for (label, value) in selected.into_iter().flatten() {
        labels[label] = value.clone();
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": text(stateful_set, "/metadata/namespace"), "labels": labels},
        "spec": template["spec"],
    });
    if let Some(annotations) = template.pointer("/metadata/annotations") {
        object["metadata"]["annotations"] = annotations.clone();
    }
    NewClaim { name, object }
}

/// A claim of a restore's template, and the volume that mounts name it by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TemplateClaim {
    pub(super) volume: String,
    pub(super) claim: NewClaim,
}

/// The claims of one host of a restore into claim templates.
pub(super) fn of_templates(
    target: &RestoreTarget,
    namespace: &str,
    of: &HostOf,
) -> Result<Vec<TemplateClaim>, TemplateError> {
    let ordinal = if let HostOf::Ordinal(ordinal) = of { *ordinal } else { 0 };
    let replicas = target.replicas.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(1);
    let templates = target.volume_claim_templates.iter().enumerate();
    templates.map(|(place, template)| of_template(place, template, namespace, ordinal, replicas)).collect()
}

fn of_template(
    place: usize,
    template: &ClaimTemplate,
    namespace: &str,
    ordinal: u32,
    replicas: u32,
) -> Result<TemplateClaim, TemplateError> {
    let metadata = template.metadata.clone().unwrap_or_default();
    let written = metadata.name.filter(|name| !name.is_empty()).ok_or(TemplateError::NoName { place })?;
    if replicas > 1 && !written.contains(POD_ORDINAL) {
        return Err(TemplateError::SameName { place, name: written, replicas });
    }
    if let Some(other) = metadata.namespace.filter(|other| !other.is_empty() && other != namespace) {
        return Err(TemplateError::Namespace { place, namespace: other, own: namespace.to_owned() });
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": written, "namespace": namespace},
        "spec": template.spec,
    });
    for (field, value) in [("labels", json!(metadata.labels)), ("annotations", json!(metadata.annotations))] {
        if !value.is_null() {
            object["metadata"][field] = value;
        }
    }
    if let Some(owners) = metadata.owner_references {
        object["metadata"]["ownerReferences"] = json!(owners);
    }
    resolve(&mut object, ordinal).map_err(|value| TemplateError::Variable { place, value })?;
    let volume = written.strip_suffix(&format!("-{POD_ORDINAL}")).unwrap_or(&written).to_owned();
    Ok(TemplateClaim { volume, claim: NewClaim { name: text(&object, "/metadata/name").to_owned(), object } })
}

/// Puts the ordinal into all texts; the text that has another variable, if one does.
fn resolve(value: &mut Value, ordinal: u32) -> Result<(), String> {
    match value {
        Value::String(written) => {
            let resolved = written.replace(POD_ORDINAL, &ordinal.to_string());
            if resolved.contains("${") {
                return Err(written.clone());
            }
            *written = resolved;
            Ok(())
        }
        Value::Array(values) => values.iter_mut().try_for_each(|value| resolve(value, ordinal)),
        Value::Object(fields) => fields.values_mut().try_for_each(|value| resolve(value, ordinal)),
        _ => Ok(()),
    }
}
