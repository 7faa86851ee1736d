//! Actions of which a test notes whether they did anything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::velero::Restore;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, Lookup, OperationProgress, RestoreInput, RestoreItemAction, RestoreOutcome,
};

/// The names of all actions of a restore, and of those that changed, refused or skipped an item or asked for others.
#[derive(Default)]
pub(in super::super) struct Effective {
    all: Mutex<BTreeSet<String>>,
    effective: Mutex<BTreeSet<String>>,
}

impl Effective {
    pub(super) fn names(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        (self.all.lock().unwrap().clone(), self.effective.lock().unwrap().clone())
    }

    /// The action, watched.
    pub(in super::super) fn watch(
        self: &Arc<Self>,
        action: Arc<dyn RestoreItemAction>,
    ) -> Arc<dyn RestoreItemAction> {
        self.all.lock().unwrap().insert(action.name().to_owned());
        Arc::new(Watched { action, notes: self.clone() })
    }
}

struct Watched {
    action: Arc<dyn RestoreItemAction>,
    notes: Arc<Effective>,
}

#[async_trait]
impl RestoreItemAction for Watched {
    fn name(&self) -> &str {
        self.action.name()
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        self.action.applies_to().await
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let before = input.item.clone();
        let outcome = self.action.execute(input, cluster).await;
        let acted = outcome
            .as_ref()
            .is_ok_and(|made| made.skip || made.item != before || !made.additional_items.is_empty());
        if acted || outcome.is_err() {
            self.notes.effective.lock().unwrap().insert(self.name().to_owned());
        }
        outcome
    }

    async fn are_ready(
        &self,
        items: &[ItemId],
        restore: &Restore,
        cluster: &dyn Lookup,
        limit: Duration,
    ) -> Result<bool, ActionError> {
        self.action.are_ready(items, restore, cluster, limit).await
    }

    fn may_operate(&self) -> bool {
        self.action.may_operate()
    }

    fn restores_volume_data(&self) -> bool {
        self.action.restores_volume_data()
    }

    async fn progress(&self, operation: &str, restore: &Restore) -> Result<OperationProgress, ActionError> {
        self.action.progress(operation, restore).await
    }

    async fn cancel(&self, operation: &str, restore: &Restore) -> Result<(), ActionError> {
        self.action.cancel(operation, restore).await
    }
}
