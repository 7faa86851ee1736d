//! Errors in resource modifiers, with upstream's messages where it has them. Shown in the Restore's status.

use super::OperationError;
use crate::glob::GlobError;
use crate::selector::SelectorError;

#[derive(Debug, thiserror::Error)]
pub enum ModifierError {
    #[error("failed to decode yaml data into resource modifiers, err: {0}")]
    Yaml(serde_saphyr::Error),
    #[error("unsupported resource modifier version {0}; write version: v1")]
    Version(String),
    #[error("resource modifier rules cannot be empty")]
    NoRules,
    #[error("conditions.groupResource cannot be empty")]
    NoType,
    #[error("only one of patches, mergePatches, strategicPatches can be specified")]
    SeveralPatches,
    #[error("no patch data found")]
    NoPatch,
    #[error("path is required for match rule")]
    NoMatchPath,
    /// An invalid pattern for a namespace or a type.
    #[error(transparent)]
    Pattern(#[from] GlobError),
    #[error("error in matching regex {0}")]
    Name(#[from] regex::Error),
    #[error("error in creating label selector {0}")]
    Selector(#[from] SelectorError),
    #[error("error in converting YAML to JSON {0}")]
    PatchData(serde_saphyr::Error),
    #[error(transparent)]
    Operation(#[from] OperationError),
}
