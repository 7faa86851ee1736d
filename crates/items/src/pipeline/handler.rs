//! What is done to each item between reading it and creating its object, and after that. The pipeline calls it for every item;
//! Velero's is `VeleroHandler` in crate `velero`.

use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_cluster::write::Target;
use lifeboat_plan::items::sanitise::Taken;
use serde_json::Value;

use super::item::WorkItem;
use super::run::Run;
use crate::outcome::{ItemOutcome, Notes};

/// An object as it is to be created.
pub struct Transformed {
    pub object: Value,
    /// What is written after the object was created.
    pub taken: Taken,
}

/// Changes items, and follows what becomes of them.
#[async_trait]
pub trait ItemHandler: Send + Sync {
    /// From the item as the source has it to the object that is to be created. The error is the end of the item.
    async fn transform(
        &self,
        run: &Arc<Run>,
        item: &WorkItem,
        original: Value,
        notes: &mut Notes,
    ) -> Result<Transformed, ItemOutcome>;

    /// Puts the object into its namespace, and marks it as made by this restore. Called after resource modifiers.
    fn mark(&self, object: &mut Value, namespace: Option<&str>);

    /// Whether an object in the cluster was made by this restore: by an earlier attempt, or by a request without an answer.
    fn is_ours(&self, found: &Value) -> bool;

    /// The object is in the cluster, and this restore made it. May be called again by a later attempt.
    async fn created(&self, item: &WorkItem, target: &Target, object: &Value, notes: &mut Notes);

    /// An object of this name is in the cluster that this restore did not make.
    fn met_another(&self, item: &WorkItem, target: &Target, notes: &mut Notes);
}
