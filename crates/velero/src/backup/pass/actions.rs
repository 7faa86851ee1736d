//! Which actions apply to which items of a backup, by type.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::BackupOperation;
use lifeboat_cluster::list::ItemMeta;
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::velero::csi::{CLAIM_BACKUPPER, SNAPSHOT_BACKUPPER};
use lifeboat_plugin::actions::{BackupItemAction, ItemBlockAction};

use crate::applying::{AppliesQuery, Applying, applying};
use crate::backup::journal::{Journal, OperationEntry};

/// How long an action may take to cancel an operation.
const CANCEL: Duration = Duration::from_secs(10);

/// Actions whose operations the next attempt adopts: their objects have the same name in each attempt.
pub(crate) const ADOPTED: [&str; 2] = [SNAPSHOT_BACKUPPER, CLAIM_BACKUPPER];

/// How long an operation may take, and one call of an action, which may start an operation.
pub(crate) fn longest(backup: &Backup) -> Duration {
    let given = GoDuration::set(backup.spec.item_operation_timeout);
    let nanos = given.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
    nanos.map_or(Duration::from_hours(4), Duration::from_nanos)
}

/// Actions of one kind, by the types they apply to.
pub(super) struct Resolved<A: ?Sized> {
    actions: Vec<Applying<A>>,
    by_type: BTreeMap<GroupResource, Vec<usize>>,
}

pub(super) type ResolvedActions = Resolved<dyn BackupItemAction>;
pub(super) type ResolvedBlocks = Resolved<dyn ItemBlockAction>;

impl<A: AppliesQuery + ?Sized> Resolved<A> {
    /// Asks them; gives also why some are left out.
    pub(super) async fn new(actions: &[Arc<A>], catalogue: &Catalogue) -> (Self, Vec<String>) {
        let (actions, left_out) = applying(actions, catalogue).await;
        let mut by_type: BTreeMap<GroupResource, Vec<usize>> = BTreeMap::new();
        for kind in catalogue.types() {
            let fitting = actions.iter().enumerate().filter(|(_, one)| one.applies.is_for_type(&kind.id));
            let fitting: Vec<_> = fitting.map(|(at, _)| at).collect();
            if !fitting.is_empty() {
                by_type.insert(kind.id.clone(), fitting);
            }
        }
        (Self { actions, by_type }, left_out)
    }
}

impl<A: ?Sized> Resolved<A> {
    /// Whether any action is for items of a type.
    pub(super) fn any_for(&self, resource: &GroupResource) -> bool {
        self.by_type.contains_key(resource)
    }

    /// The actions for one item, in their order.
    pub(super) fn of(&self, resource: &GroupResource, item: &ItemMeta) -> Vec<Arc<A>> {
        let places = self.by_type.get(resource).into_iter().flatten();
        places
            .map(|at| &self.actions[*at])
            .filter(|one| one.applies.is_for_item(item.namespace.as_deref(), &item.labels))
            .map(|one| one.action.clone())
            .collect()
    }
}

/// Cancels the operations of a pass that failed. Cancelled operations leave the journal; the others, and those that
/// the next attempt would adopt, are cancelled when the journal is ended.
pub(super) async fn cancel(
    actions: &ResolvedActions,
    backup: &Backup,
    journal: &Journal,
    operations: &[BackupOperation],
) {
    let own = |operation: &&BackupOperation| !ADOPTED.contains(&operation.spec.backup_item_action.as_str());
    let each = operations.iter().filter(own).map(|operation| async {
        let (id, name) = (&operation.spec.operation_id, &operation.spec.backup_item_action);
        let known = actions.actions.iter().map(|one| &one.action).find(|action| action.name() == name);
        let Some(action) = known else { return };
        match tokio::time::timeout(CANCEL, action.cancel(id, backup)).await {
            Ok(Ok(())) => journal.forget_operation(&entry(operation)).await,
            Ok(Err(error)) => {
                tracing::warn!(operation = id, action = name, %error, "cannot cancel an operation");
            }
            Err(_) => tracing::warn!(operation = id, action = name, "an operation is not cancelled in time"),
        }
    });
    futures::future::join_all(each).await;
}

/// The journal entry of an operation.
pub(super) fn entry(operation: &BackupOperation) -> OperationEntry {
    let spec = &operation.spec;
    OperationEntry {
        backup: spec.backup_name.clone(),
        action: spec.backup_item_action.clone(),
        operation: spec.operation_id.clone(),
        item: ItemId::from(spec.resource_identifier.clone()).to_string(),
    }
}
