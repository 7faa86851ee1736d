//! The claims that a restore creates from its templates, each from a VolumeSnapshot, which [`super::selection`]
//! chooses.

use std::collections::BTreeSet;

use lifeboat_api::stash::{RestoreRule, RestoreTarget};
use serde_json::{Value, json};

use crate::json::text;
use crate::quantity::Quantity;
use crate::stash::hosts::HostName;
use crate::stash::targets::{NewClaim, POD_ORDINAL, TemplateError, template_claims};
use crate::transfer::snapshots::GROUP;

/// Label of a claim: the UID of the RestoreSession or RestoreBatch that created it.
pub const RESTORE: &str = "lifeboat.io/restore-session";

/// The most replicas of one restore: a status has an entry for each claim.
const MOST_REPLICAS: i32 = 1000;

/// A claim of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredClaim {
    pub claim: NewClaim,
    /// The replica that it is for.
    pub ordinal: u32,
    /// The VolumeSnapshot that its template names; None if the rules decide.
    pub named: Option<String>,
}

impl RestoredClaim {
    /// The host that the claim is.
    pub fn host(&self) -> HostName {
        HostName(self.claim.name.clone())
    }

    /// A text of a rule, for this claim.
    pub(super) fn resolved(&self, written: &str) -> String {
        written.replace(POD_ORDINAL, &self.ordinal.to_string())
    }
}

/// Why the claims of a restore cannot be created from snapshots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoredClaimError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("target.replicas {replicas} is too many; expected at most {MOST_REPLICAS}")]
    Replicas { replicas: i32 },
    #[error("two claims of target.volumeClaimTemplates are named {name:?}; give each a name of its own")]
    SameName { name: String },
    #[error(
        "claim {name}: spec.{field} has {found}; expected a VolumeSnapshot of the restore's namespace (apiGroup {GROUP}), or no data source"
    )]
    DataSource { name: String, field: &'static str, found: String },
    #[error(
        "claim {name}: spec.{field} chooses an existing volume, which has no data of a snapshot; remove it"
    )]
    Volume { name: String, field: &'static str },
    #[error(
        "rules: {field} chooses parts of a backup, and a VolumeSnapshot is restored whole; remove it, or use driver Restic"
    )]
    Parts { field: &'static str },
    #[error(
        "claim {name}: its template names VolumeSnapshot {named} as data source, and its rule has snapshots; remove one of the two"
    )]
    TwoSources { name: String, named: String },
}

/// The claims of a restore, in the order of ordinals and templates.
pub fn restored_claims(
    target: &RestoreTarget,
    namespace: &str,
) -> Result<Vec<RestoredClaim>, RestoredClaimError> {
    if let Some(replicas) = target.replicas.filter(|replicas| *replicas > MOST_REPLICAS) {
        return Err(RestoredClaimError::Replicas { replicas });
    }
    let mut names = BTreeSet::new();
    let mut claims = Vec::new();
    for (ordinal, claim) in template_claims(target, namespace)? {
        if !names.insert(claim.name.clone()) {
            return Err(RestoredClaimError::SameName { name: claim.name });
        }
        let snapshot = data_source(&claim, namespace)?;
        claims.push(RestoredClaim { claim, ordinal, named: snapshot });
    }
    Ok(claims)
}

/// The VolumeSnapshot that a template names, as upstream's manifests do.
fn data_source(claim: &NewClaim, namespace: &str) -> Result<Option<String>, RestoredClaimError> {
    let (name, spec) = (&claim.name, &claim.object["spec"]);
    for field in ["volumeName", "selector"] {
        if !matches!(&spec[field], Value::Null) && spec[field] != "" {
            return Err(RestoredClaimError::Volume { name: name.clone(), field });
        }
    }
    for field in ["dataSourceRef", "dataSource"] {
        let source = &spec[field];
        if source.is_null() {
            continue;
        }
        let elsewhere = source["namespace"].as_str().filter(|own| !own.is_empty() && *own != namespace);
        let is_snapshot = source["apiGroup"] == GROUP && source["kind"] == "VolumeSnapshot";
        let snapshot = text(source, "/name");
        if !is_snapshot || elsewhere.is_some() || snapshot.is_empty() {
            let found = source.to_string();
            return Err(RestoredClaimError::DataSource { name: name.clone(), field, found });
        }
        return Ok(Some(snapshot.to_owned()));
    }
    Ok(None)
}

/// Refuses rules that choose parts of a snapshot.
pub fn check_rules(rules: &[RestoreRule]) -> Result<(), RestoredClaimError> {
    let is_set = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    for rule in rules {
        for (field, list) in [("paths", &rule.paths), ("include", &rule.include), ("exclude", &rule.exclude)]
        {
            if is_set(list) {
                return Err(RestoredClaimError::Parts { field });
            }
        }
    }
    Ok(())
}

/// The claim as a restore makes it: it says by which restore it was made.
pub fn labelled(claim: &NewClaim, restore: &str) -> Value {
    let mut object = claim.object.clone();
    if !object["metadata"]["labels"].is_object() {
        object["metadata"]["labels"] = json!({});
    }
    object["metadata"]["labels"][RESTORE] = json!(restore);
    object
}

/// The claim to create from a VolumeSnapshot: as in its template, but at least as large as the snapshot requires.
pub fn claim_from(claim: &NewClaim, snapshot: &Value, restore: &str) -> Value {
    let mut object = labelled(claim, restore);
    if !object["spec"].is_object() {
        object["spec"] = json!({});
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("dataSourceRef");
    }
    object["spec"]["dataSource"] =
        json!({"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": text(snapshot, "/metadata/name")});
    let needed = text(snapshot, "/status/restoreSize");
    let asked = object.pointer("/spec/resources/requests/storage").and_then(Value::as_str);
    let least = Quantity::parse(needed).filter(|least| *least > Quantity::ZERO);
    if asked.and_then(Quantity::parse) < least {
        object["spec"]["resources"]["requests"]["storage"] = json!(needed);
    }
    object
}

/// Whether this restore created a claim.
pub fn is_of_restore(claim: &Value, restore: &str) -> bool {
    claim["metadata"]["labels"][RESTORE] == *restore
}
