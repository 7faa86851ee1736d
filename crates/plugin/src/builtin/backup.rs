//! Built-in actions of backups: the additional items of pods, claims and service accounts, and the items of one block.
//! Velero's `velero.io/crd-remap-version` is not needed: every supported cluster serves only version v1 of custom
//! resource definitions.

mod cache;
mod claim;
mod pod;
mod service_account;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use lifeboat_api::catalogue::GroupResource;
use serde_json::Value;

pub use claim::{ClaimAction, ClaimBlock};
pub use pod::{PodAction, PodBlock};
pub use service_account::{ServiceAccountAction, ServiceAccountBlock};

use crate::actions::{BackupItemAction, ItemBlockAction};

/// The backup item actions, in the order in which they run.
pub fn actions() -> Vec<Arc<dyn BackupItemAction>> {
    vec![Arc::new(ClaimAction), Arc::new(PodAction), Arc::new(ServiceAccountAction::default())]
}

/// The item block actions.
pub fn blocks() -> Vec<Arc<dyn ItemBlockAction>> {
    vec![Arc::new(ClaimBlock::default()), Arc::new(PodBlock), Arc::new(ServiceAccountBlock::default())]
}

fn core(resource: &str) -> GroupResource {
    GroupResource::new("", resource)
}

fn text<'a>(item: &'a Value, pointer: &str) -> &'a str {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
