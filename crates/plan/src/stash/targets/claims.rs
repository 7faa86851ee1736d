//! Claims of targets: their names, and those that a restore makes from templates.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::stash::hosts::TargetKind;

/// The variable in the claim templates of a restore.
pub const POD_ORDINAL: &str = "${POD_ORDINAL}";

/// A claim to make.
#[derive(Clone, Debug, PartialEq)]
pub struct NewClaim {
    pub name: String,
    /// The whole object, with its namespace.
    pub object: Value,
}

/// Why claims cannot be made from templates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("target.volumeClaimTemplates[{place}] has no metadata.name; the restore has to find the claim again")]
    NoName { place: usize },
    #[error(
        "target.volumeClaimTemplates[{place}] is named {name:?}, and target.replicas is {replicas}: all replicas would get one claim; \
         put ${{POD_ORDINAL}} into the name"
    )]
    SameName { place: usize, name: String, replicas: u32 },
    #[error("target.volumeClaimTemplates[{place}]: {name:?} has a variable that is not known; expected only ${{POD_ORDINAL}}")]
    Variable { place: usize, name: String },
    #[error("target.volumeClaimTemplates[{place}] is for namespace {namespace:?}; claims are made in the namespace of the restore, {own:?}")]
    Namespace { place: usize, namespace: String, own: String },
    #[error(
        "target.volumeMounts: no claim template has volume {volume:?}; the templates have {available} (the name without \
         -${{POD_ORDINAL}})"
    )]
    NoTemplate { volume: String, available: String },
}

/// The claims of a target that have to be read: those of its template, of its pods and of its claim templates.
pub fn claims_of(kind: TargetKind, object: &Value, pods: &[Value]) -> BTreeSet<String> {
    let _ = (kind, object, pods);
    unimplemented!()
}
