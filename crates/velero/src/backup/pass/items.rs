//! One item on its way into the archive: it is claimed, its actions run, its additional items are backed up first,
//! then it is written. An item to which no action applies is written unchanged.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_api::common::Time;
use lifeboat_api::velero::names;
use lifeboat_archive::ArchiveError;
use lifeboat_archive::documents::{BackupOperation, BackupOperationSpec, OperationStatus};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::list::{RawItem, get_raw};
use lifeboat_plan::catalogue::{ItemId, ResourceType, is_path_segment};
use lifeboat_plan::velero::csi::CLAIM_BACKUPPER;
use lifeboat_plan::velero::filter::Verdict;
use lifeboat_plugin::actions::{ActionError, BackupItemAction, BackupOutcome};
use serde_json::Value;

use super::actions::longest;
use super::spool::SpoolError;
use super::{About, Pass, PassFailure};

/// How deeply additional items may be nested. Deeper ones are backed up after the others, because each level needs
/// stack.
const DEEPEST: usize = 20;

/// The result of backing up an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// In the archive, or being written by another task.
    Yes,
    /// Left out on purpose.
    No,
}

/// Why an item is not in the archive.
#[derive(Debug, thiserror::Error)]
pub(super) enum ItemError {
    #[error("the cluster does not serve its type")]
    NotServed,
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("cannot read the object: {0}")]
    Unreadable(serde_json::Error),
    #[error("action {0} did not end in time")]
    Slow(String),
    #[error("action {action} failed: {cause}")]
    Action { action: String, cause: ActionError },
    #[error("an action removed its name")]
    NameTaken,
    #[error("an action removed its namespace")]
    NamespaceTaken,
    #[error("an action changed its kind from {kind} to {made}")]
    OtherKind { made: String, kind: String },
    #[error("an action gave it the name {0:?}, which is not valid for an object")]
    BadName(Value),
    #[error("an action renamed it to {0}, which is in the backup already")]
    Twice(ItemId),
    #[error("{0}")]
    Unwritable(serde_json::Error),
    /// Storage does not accept the archive: the whole backup has failed.
    #[error("{}", lifeboat_cluster::chain(.0))]
    Upload(ArchiveError),
    #[error("{0}")]
    Archive(ArchiveError),
}

impl Pass {
    /// Backs up an item that passed the filters; a failure is reported as an error of the backup.
    pub(super) async fn take(&self, kind: &ResourceType, item: RawItem) {
        let id = item.meta.id(kind);
        if let Err(error) = self.process(kind, item, 0).await {
            self.report.error(&About::Item(&id), "Error backing up item", Some(&error.to_string()));
        }
    }

    /// Backs up one item. `depth`: how many items wait for this one.
    fn process<'a>(
        &'a self,
        kind: &'a ResourceType,
        item: RawItem,
        depth: usize,
    ) -> BoxFuture<'a, Result<Taken, ItemError>> {
        async move {
            let id = item.meta.id(kind);
            if !self.written.claim(&id, &kind.version) {
                return Ok(Taken::Yes);
            }
            self.note_ordered(kind, &id);
            self.counters.see(1);
            let actions = self.actions.of(&kind.id, &item.meta);
            let (id, json) = if actions.is_empty() && !is_watched(&id) {
                (id, item.json)
            } else {
                match self.act(kind, id, &item, &actions, depth).await? {
                    Some(made) => made,
                    None => return Ok(Taken::No),
                }
            };
            self.write(kind, &id, json).await?;
            Ok(Taken::Yes)
        }
        .boxed()
    }

    /// Runs the actions; None if one of them drops the item. Actions may rename the item.
    async fn act(
        &self,
        kind: &ResourceType,
        id: ItemId,
        item: &RawItem,
        actions: &[Arc<dyn BackupItemAction>],
        depth: usize,
    ) -> Result<Option<(ItemId, bytes::Bytes)>, ItemError> {
        let mut value: Value = serde_json::from_slice(&item.json).map_err(ItemError::Unreadable)?;
        self.watch_volumes(&id, &value);
        if actions.is_empty() {
            self.snapshot_volume(&id, &value).await;
            return Ok(Some((id, item.json.clone())));
        }
        for action in actions {
            if action.name() == CLAIM_BACKUPPER && !self.csi_wanted(&id, &value).boxed().await {
                continue;
            }
            let acting = action.execute(value, &self.backup, &self.lookup);
            let made = tokio::time::timeout(longest(&self.backup), acting)
                .await
                .map_err(|_elapsed| ItemError::Slow(action.name().to_owned()))?
                .map_err(|cause| ItemError::Action { action: action.name().to_owned(), cause })?;
            let annotated = |key: &str| made.item["metadata"]["annotations"].get(key);
            if annotated(names::SKIP_FROM_BACKUP).is_some() {
                self.report.info_about(&id, &format!("Left out by action {}", action.name()));
                return Ok(None);
            }
            let must =
                annotated(names::MUST_INCLUDE_ADDITIONAL_ITEMS).and_then(Value::as_str) == Some("true");
            // Boxed, so that chains of additional items need little stack.
            self.note_made(&id, action.name(), &made).boxed().await;
            value = made.item;
            if let Some(annotations) =
                value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
            {
                annotations.remove(names::MUST_INCLUDE_ADDITIONAL_ITEMS);
            }
            for other in &made.additional_items {
                // A missing additional item is reported, and the item itself is kept.
                if let Err(error) = self.take_additional(other, must, depth + 1).await {
                    let message =
                        format!("Error backing up {other}, which action {} asked for", action.name());
                    self.report.error(&About::Item(&id), &message, Some(&error.to_string()));
                }
            }
        }
        let placed = placed(kind, &id, &value)?;
        if placed != id && !self.written.claim(&placed, &kind.version) {
            return Err(ItemError::Twice(placed));
        }
        self.snapshot_volume(&placed, &value).await;
        let json = serde_json::to_vec(&value).map_err(ItemError::Unwritable)?;
        Ok(Some((placed, json.into())))
    }

    /// Logs what an action did with an item, and records the operation that it started.
    async fn note_made(&self, id: &ItemId, action: &str, made: &BackupOutcome) {
        for warning in &made.warnings {
            self.report.warning(&About::Item(id), warning, None);
        }
        for error in &made.errors {
            self.report.error(&About::Item(id), error, None);
        }
        if action == CLAIM_BACKUPPER {
            self.note_csi(id, made).await;
        }
        self.note_operation(id, action, made).await;
    }

    /// Backs up an additional item if the filters include it. One that does not exist is a warning.
    pub(super) async fn take_additional(
        &self,
        id: &ItemId,
        must: bool,
        depth: usize,
    ) -> Result<(), ItemError> {
        let Some(kind) = self.catalogue.get(&id.resource).cloned() else {
            return Err(ItemError::NotServed);
        };
        if self.written.has(id, &kind.version) {
            return Ok(());
        }
        if self.waits_for_its_place(id) {
            self.report
                .info_about(id, "An action asked for this item, which waits for its place in the order");
            self.keep_for_later(id, must);
            return Ok(());
        }
        if depth > DEEPEST {
            self.made().later.push((id.clone(), must));
            return Ok(());
        }
        let Some(item) = self.find(&kind, id).await? else {
            self.report.warning(&About::Item(id), "Additional item was not found, can't back it up", None);
            return Ok(());
        };
        match self.valid.filter.takes_additional(&kind, &item.meta.facts(), must) {
            Verdict::Leave(reason) => {
                self.report.info_about(id, &format!("Left out because {reason}"));
                Ok(())
            }
            Verdict::Take => self.process(&kind, item, depth).await.map(drop),
        }
    }

    /// Reads an item from the collection or else from the cluster.
    async fn find(&self, kind: &ResourceType, id: &ItemId) -> Result<Option<RawItem>, ItemError> {
        if let Some(found) = self.collected.get().and_then(|collected| collected.find(id)) {
            return Ok(Some(found?));
        }
        Ok(get_raw(&self.client, kind, id.namespace.as_deref(), &id.name).await?)
    }

    async fn write(&self, kind: &ResourceType, id: &ItemId, json: bytes::Bytes) -> Result<(), ItemError> {
        match self.writer.append(id, &kind.version, kind.preferred, json).await {
            Ok(()) => {}
            Err(error @ ArchiveError::Upload { .. }) => {
                self.give_up(PassFailure::Archive(error.clone()));
                return Err(ItemError::Upload(error));
            }
            Err(error) => return Err(ItemError::Archive(error)),
        }
        self.counters.write(1);
        let mut made = self.made();
        made.resources.add(&kind.api_version(), &kind.kind, id.namespace.as_deref(), &id.name);
        if let Some(namespace) = &id.namespace
            && !made.namespaces.contains(namespace)
        {
            made.namespaces.insert(namespace.clone());
        }
        if let Some(count) = made.per_type.get_mut(&id.resource) {
            *count += 1;
        } else {
            made.per_type.insert(id.resource.clone(), 1);
            made.types.insert(id.resource.clone());
        }
        Ok(())
    }

    /// Boxed, so that chains of additional items need little stack.
    fn snapshot_volume<'a>(&'a self, id: &'a ItemId, value: &'a Value) -> BoxFuture<'a, ()> {
        if id.resource.group.is_empty() && id.resource.resource == "persistentvolumes" {
            return self.snapshot(id, value).boxed();
        }
        if id.resource.group.is_empty() && id.resource.resource == "pods" {
            return self.copy_volumes(id, value).boxed();
        }
        futures::future::ready(()).boxed()
    }

    fn watch_volumes(&self, id: &ItemId, value: &Value) {
        if id.resource == lifeboat_plan::transfer::snapshots::contents() {
            self.made().csi.add_content(value);
        }
        if !id.resource.group.is_empty() {
            return;
        }
        let mut made = self.made();
        match id.resource.resource.as_str() {
            "pods" => made.book.add_pod(value),
            "persistentvolumeclaims" => made.book.add_claim(value),
            "persistentvolumes" => made.book.add_volume(value),
            _ => {}
        }
    }

    /// Records an operation durably before the item is processed further, because the next attempt would otherwise
    /// start it again.
    async fn note_operation(&self, id: &ItemId, action: &str, made: &BackupOutcome) {
        let Some(operation_id) = made.operation_id.clone().filter(|operation| !operation.is_empty()) else {
            return;
        };
        let post = made.post_operation_items.iter().map(Into::into).collect::<Vec<_>>();
        let spec = BackupOperationSpec {
            backup_name: self.backup.metadata.name.clone().unwrap_or_default(),
            backup_uid: self.backup.metadata.uid.clone().unwrap_or_default(),
            backup_item_action: action.to_owned(),
            resource_identifier: id.into(),
            operation_id,
            post_operation_items: (!post.is_empty()).then_some(post),
        };
        let status = OperationStatus { created: Some(Time(self.clock.now())), ..OperationStatus::default() };
        let operation = BackupOperation { spec, status };
        if let Err(error) = self.journal.note_operation(&super::actions::entry(&operation)).await {
            let message = "Operations of this backup cannot be recorded any more: if the server restarted now, those from \
                         this one on would continue beside those of the next attempt";
            self.report.warning(&About::Item(id), message, Some(&error.to_string()));
        }
        self.made().operations.push(operation);
    }
}

/// The identity under which an item is written into the archive: as upstream, its actions may give it another name or
/// namespace.
pub(super) fn placed(kind: &ResourceType, id: &ItemId, item: &Value) -> Result<ItemId, ItemError> {
    let text = |field: &str| item["metadata"][field].as_str().filter(|text| !text.is_empty());
    let name = text("name").ok_or(ItemError::NameTaken)?;
    let namespace = text("namespace").filter(|_| id.namespace.is_some());
    if namespace.is_some() != id.namespace.is_some() {
        return Err(ItemError::NamespaceTaken);
    }
    if let Some(text) = item["kind"].as_str().filter(|text| *text != kind.kind && !kind.kind.is_empty()) {
        return Err(ItemError::OtherKind { made: text.to_owned(), kind: kind.kind.clone() });
    }
    if !is_path_segment(name) || !namespace.is_none_or(is_path_segment) {
        return Err(ItemError::BadName(item["metadata"]["name"].clone()));
    }
    Ok(ItemId {
        resource: id.resource.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    })
}

/// Types whose volumes are recorded.
fn is_watched(id: &ItemId) -> bool {
    id.resource.group.is_empty()
        && matches!(id.resource.resource.as_str(), "pods" | "persistentvolumeclaims" | "persistentvolumes")
}
