//! What is done with each item between reading it and creating its object, and after that. The pipeline calls it for
//! every item; Velero's is `VeleroHandler` in crate `velero`.

use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_cluster::write::Target;
use lifeboat_plan::items::sanitise::Taken;
use serde_json::Value;

use super::item::WorkItem;
use super::run::Run;
use crate::outcome::{ItemOutcome, Notes};

/// An object that is ready to be created.
pub struct Transformed {
    pub object: Value,
    /// What is written after the object was created.
    pub taken: Taken,
}

/// Changes items, and is called with their results.
#[async_trait]
pub trait ItemHandler: Send + Sync {
    /// Turns the item from the source into the object that is to be created. An error ends the item.
    async fn transform(
        &self,
        run: &Arc<Run>,
        item: &WorkItem,
        original: Value,
        notes: &mut Notes,
    ) -> Result<Transformed, ItemOutcome>;

    /// Sets the object's namespace, and labels it as created by this restore. Called after resource modifiers.
    fn mark(&self, object: &mut Value, namespace: Option<&str>);

    /// Whether an object in the cluster was created by this restore: by an earlier attempt, or by a request whose
    /// answer was lost.
    fn is_ours(&self, found: &Value) -> bool;

    /// Called when the object exists and was created by this restore. A later attempt may call it again.
    async fn created(&self, item: &WorkItem, target: &Target, object: &Value, notes: &mut Notes);

    /// Called when an object with this name exists that this restore did not create.
    fn met_another(&self, item: &WorkItem, target: &Target, notes: &mut Notes);
}
