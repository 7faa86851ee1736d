//! Reads the items that operations changed again, when all operations have ended. Takes item identifiers and the
//! cluster; returns the files to change in the archive, and errors. Called when a backup is finalized.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use kube::Client;
use lifeboat_api::velero::{Backup, names};
use lifeboat_archive::{ArchiveError, Updates};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::list::{RawItem, get_raw};
use lifeboat_plan::catalogue::{Catalogue, ItemId, ResourceType};
use lifeboat_plugin::{ActionError, Registry};
use serde_json::Value;
use tokio::time::timeout;

use super::actions::{ResolvedActions, longest};
use super::items::{ItemError, placed};
use crate::lookup::ActionLookup;

/// The items that were read again.
#[derive(Default)]
pub(crate) struct Again {
    pub(crate) updates: Updates,
    /// Items that stay in the archive unchanged, with the reason.
    pub(crate) problems: Vec<(ItemId, String)>,
}

/// Why an item stays in the archive as it is.
#[derive(Debug, thiserror::Error)]
enum NotRead {
    #[error("the cluster does not serve its type")]
    NotServed,
    #[error("the object is gone")]
    Gone,
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error("cannot read the object: {0}")]
    Json(serde_json::Error),
    #[error("action {action}: {problem}")]
    Action { action: String, problem: ActionProblem },
    #[error(transparent)]
    Encode(serde_json::Error),
    #[error(transparent)]
    Item(#[from] ItemError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Why an action did not change an item.
#[derive(Debug, thiserror::Error)]
enum ActionProblem {
    #[error(transparent)]
    Failed(ActionError),
    #[error("it did not end in time")]
    Late,
    #[error("it started an operation while the backup was finalized")]
    Operation,
}

/// Reads the items, and the additional items of their actions, as they are now. Hooks do not run again, and actions
/// may not start another operation.
pub(crate) async fn read_again(
    client: &Client,
    backup: &Backup,
    catalogue: Arc<Catalogue>,
    registry: &Registry,
    items: impl IntoIterator<Item = ItemId>,
) -> Again {
    let (actions, left_out) = ResolvedActions::new(&registry.backup, &catalogue).await;
    // Without the changes of all actions, the items in the archive are better than the new ones.
    if !left_out.is_empty() {
        let message = left_out.join("; ");
        let problems = items.into_iter().map(|id| (id, message.clone())).collect();
        return Again { updates: Updates::default(), problems };
    }
    let reader = Reader {
        lookup: ActionLookup::with_client(client.clone(), catalogue.clone()),
        client,
        backup,
        catalogue: &catalogue,
        actions,
    };
    let mut again = Again::default();
    let mut queue: VecDeque<ItemId> = items.into_iter().collect();
    let mut known: BTreeSet<ItemId> = BTreeSet::new();
    while let Some(id) = queue.pop_front() {
        if !known.insert(id.clone()) {
            continue;
        }
        match reader.read(&id, &mut again.updates).await {
            Ok(additional) => queue.extend(additional),
            Err(error) => again.problems.push((id, error.to_string())),
        }
    }
    again
}

struct Reader<'a> {
    client: &'a Client,
    backup: &'a Backup,
    catalogue: &'a Catalogue,
    actions: ResolvedActions,
    lookup: ActionLookup,
}

impl Reader<'_> {
    /// Reads one item into `updates`; returns its additional items.
    async fn read(&self, id: &ItemId, updates: &mut Updates) -> Result<Vec<ItemId>, NotRead> {
        let kind = self.catalogue.get(&id.resource).ok_or(NotRead::NotServed)?;
        let item = match get_raw(self.client, kind, id.namespace.as_deref(), &id.name).await? {
            Some(item) => item,
            // The archive has everything a restore needs of a snapshot object; an interrupted finalization may have
            // deleted it.
            None if id.resource.group == lifeboat_plan::transfer::snapshots::GROUP => return Ok(Vec::new()),
            None => return Err(NotRead::Gone),
        };
        self.act(kind, id, &item, updates).await
    }

    async fn act(
        &self,
        kind: &ResourceType,
        id: &ItemId,
        item: &RawItem,
        updates: &mut Updates,
    ) -> Result<Vec<ItemId>, NotRead> {
        let mut value: Value = serde_json::from_slice(&item.json).map_err(NotRead::Json)?;
        let mut additional = Vec::new();
        for action in self.actions.of(&kind.id, &item.meta) {
            let failed =
                |problem: ActionProblem| NotRead::Action { action: action.name().to_owned(), problem };
            let made = timeout(longest(self.backup), action.execute(value, self.backup, &self.lookup)).await;
            let made = made.map_err(|_elapsed| failed(ActionProblem::Late))?;
            let made = made.map_err(|error| failed(ActionProblem::Failed(error)))?;
            if made.operation_id.is_some_and(|operation| !operation.is_empty()) {
                return Err(failed(ActionProblem::Operation));
            }
            value = made.item;
            additional.extend(made.additional_items);
            let annotations = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
            if let Some(annotations) = annotations {
                if annotations.contains_key(names::SKIP_FROM_BACKUP) {
                    return Ok(Vec::new());
                }
                annotations.remove(names::MUST_INCLUDE_ADDITIONAL_ITEMS);
            }
        }
        let json = serde_json::to_vec(&value).map_err(NotRead::Encode)?;
        let id = &placed(kind, id, &value)?;
        updates.add(id, &kind.version, kind.preferred, &json.into())?;
        Ok(additional)
    }
}
