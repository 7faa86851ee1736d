//! The restore item actions: a claim is restored from its snapshot, which is created again as a VolumeSnapshot and a
//! content that refer to the driver's snapshot.

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::velero::{Restore, names};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::items::existing::{is_new, is_ours};
use lifeboat_plan::transfer::snapshots;
use lifeboat_plan::velero::csi::{self, SNAPSHOT_NAME};
use lifeboat_plan::velero::data_movement;
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, BackupItems, Intent, Lookup, OperationProgress, RestoreInput, RestoreItemAction,
    RestoreOutcome,
};
use serde_json::Value;

use super::backup::failed;
use super::movement;
use super::objects::{Snapshots, Unusable, text};

/// Sets a claim's data source to its snapshot.
pub(super) struct ClaimAction(pub(super) Snapshots);

#[async_trait]
impl RestoreItemAction for ClaimAction {
    fn name(&self) -> &'static str {
        csi::CLAIM_RESTORER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["persistentvolumeclaims"]))
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let RestoreInput { from_backup, restore, .. } = input;
        let noted = from_backup["metadata"]["annotations"].get(SNAPSHOT_NAME).is_some();
        if !noted || !wants_data(restore) || exists(from_backup, restore, cluster).await? {
            return Ok(RestoreOutcome::item(input.item));
        }
        if from_backup["metadata"]["annotations"].get(data_movement::UPLOAD_NAME).is_some() {
            return self.moved(input, cluster).await;
        }
        match self.0.usable().await {
            Ok(()) => {}
            Err(Unusable::NotServed) => {
                return Err(ActionError::Failed(format!(
                    "its data is in a CSI snapshot, and the cluster does not serve {}: install the snapshot controller and its \
                     definitions, or restore without data (--restore-volumes=false)",
                    snapshots::snapshots()
                )));
            }
            Err(Unusable::Forbidden) => {
                return Err(ActionError::Forbidden(
                    "its data is in a CSI snapshot, and this installation, which is limited to namespaces, may not make \
                     VolumeSnapshotContents"
                        .to_owned(),
                ));
            }
            Err(Unusable::Api(error)) => return Err(failed(error)),
        }
        let (item, snapshot) =
            csi::restored_claim(input.item, from_backup, &restore.uid().unwrap_or_default());
        let fills_claim = snapshot.is_some();
        let additional_items = snapshot.into_iter().collect();
        Ok(RestoreOutcome { additional_items, fills_claim, ..RestoreOutcome::item(item) })
    }

    fn restores_volume_data(&self) -> bool {
        true
    }

    async fn progress(&self, operation: &str, restore: &Restore) -> Result<OperationProgress, ActionError> {
        let namespace = restore.namespace().unwrap_or_default();
        movement::progress(self.0.client(), &namespace, movement::DOWNLOAD, operation).await
    }

    async fn cancel(&self, operation: &str, restore: &Restore) -> Result<(), ActionError> {
        let namespace = restore.namespace().unwrap_or_default();
        movement::cancel(self.0.client(), &namespace, movement::DOWNLOAD, operation).await
    }
}

impl ClaimAction {
    /// Creates the DataDownload that restores the claim's data from a repository, as an operation. A dry run checks
    /// the same and creates none.
    async fn moved(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let RestoreInput { item, from_backup, restore, backup, intent } = input;
        let uid = restore.uid().unwrap_or_default();
        let operation = data_movement::operation("dd-", &uid, text(from_backup, "/metadata/uid"));
        let target = target_of(from_backup, restore).to_owned();
        let item = data_movement::moved_claim(item, &target, &operation);
        let wanted = download(from_backup, restore, backup, cluster, &target, &operation).await?;
        let mut outcome = RestoreOutcome { fills_claim: true, ..RestoreOutcome::item(item) };
        if intent == Intent::Restore {
            movement::make(self.0.client(), movement::DOWNLOAD, &wanted).await.map_err(failed)?;
            outcome.operation_id = Some(operation);
        }
        Ok(outcome)
    }
}

/// The DataDownload of a claim.
async fn download(
    claim: &Value,
    restore: &Restore,
    backup_items: &dyn BackupItems,
    cluster: &dyn Lookup,
    target: &str,
    operation: &str,
) -> Result<Value, ActionError> {
    let missing =
        || ActionError::Failed("its data was moved, but its DataUpload is missing in the backup".to_owned());
    let upload = backup_items.get(&upload_of(claim)).await.ok_or_else(missing)?;
    let backups = GroupResource::new("velero.io", "backups");
    let backup = ItemId::namespaced(
        backups,
        restore.namespace().unwrap_or_default(),
        restore.spec.backup_name.clone().unwrap_or_default(),
    );
    let backup = cluster.get(&backup).await?;
    let backup = backup.ok_or_else(|| ActionError::Failed("its Backup is gone".to_owned()))?;
    let result = data_movement::result_of(&upload, text(&backup, "/spec/storageLocation"));
    let result = result.map_err(|error| ActionError::Failed(error.to_string()))?;
    let of = serde_json::to_value(restore).map_err(|error| ActionError::Failed(error.to_string()))?;
    let timeout = Some(text(&backup, "/spec/csiSnapshotTimeout")).filter(|text| !matches!(*text, "" | "0s"));
    let name = text(claim, "/metadata/name");
    Ok(data_movement::download(&of, &result, name, target, operation, timeout.unwrap_or("10m0s")))
}

/// The DataUpload that moved a claim's data, as the backup names it.
fn upload_of(claim: &Value) -> ItemId {
    let name = claim["metadata"]["annotations"][data_movement::UPLOAD_NAME].as_str().unwrap_or_default();
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    ItemId::namespaced(GroupResource::new("velero.io", "datauploads"), namespace, name)
}

/// The namespace that a claim is restored to.
fn target_of<'a>(claim: &'a Value, restore: &'a Restore) -> &'a str {
    let namespace = text(claim, "/metadata/namespace");
    let mapping = restore.spec.namespace_mapping.as_ref();
    mapping.and_then(|all| all.get(namespace)).map_or(namespace, String::as_str)
}

/// Whether the claim exists already: then its data is not touched.
async fn exists(claim: &Value, restore: &Restore, cluster: &dyn Lookup) -> Result<bool, ActionError> {
    let target = target_of(claim, restore);
    let claims = GroupResource::new("", "persistentvolumeclaims");
    let id = ItemId::namespaced(claims, target, text(claim, "/metadata/name"));
    let found = cluster.get(&id).await?;
    // A claim that an interrupted attempt of this restore created is handled in the same way, and recognised as ours.
    let begun = restore.metadata.creation_timestamp.as_ref().map(|begun| begun.0);
    let ours =
        |found: &Value| is_ours(found, (names::RESTORE_NAME, &restore.name_any())) && is_new(found, begun);
    Ok(found.is_some_and(|found| !ours(&found)))
}

fn wants_data(restore: &Restore) -> bool {
    restore.spec.restore_pvs != Some(false)
}

/// The objects that belong to a snapshot and are restored with it, if data is wanted at all: one action per kind.
#[derive(Clone, Copy)]
pub(super) enum PartAction {
    /// A VolumeSnapshot gets a name of this restore and is bound to a content with the same name.
    Snapshot,
    /// A content refers to the driver's snapshot.
    Content,
    /// A class adds its Secret.
    Class,
}

#[async_trait]
impl RestoreItemAction for PartAction {
    fn name(&self) -> &'static str {
        match self {
            Self::Snapshot => csi::SNAPSHOT_RESTORER,
            Self::Content => csi::CONTENT_RESTORER,
            Self::Class => csi::CLASS_RESTORER,
        }
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        let resource = match self {
            Self::Snapshot => snapshots::snapshots(),
            Self::Content => snapshots::contents(),
            Self::Class => snapshots::classes(),
        };
        Ok(AppliesTo::resources(&[resource.to_string().as_str()]))
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        if !wants_data(input.restore) {
            return Ok(RestoreOutcome::skipped(input.item));
        }
        let (item, additional) = match self {
            Self::Snapshot => restored_snapshot(input)?,
            Self::Content => restored_content(input, cluster).await?,
            Self::Class => (input.item.clone(), snapshots::list_secret(&input.item)),
        };
        Ok(RestoreOutcome {
            additional_items: additional.into_iter().collect(),
            ..RestoreOutcome::item(item)
        })
    }
}

/// An item as it is restored, and its additional item.
type Restored = Result<(Value, Option<ItemId>), ActionError>;

fn restored_snapshot(input: RestoreInput<'_>) -> Restored {
    let uid = input.restore.uid().unwrap_or_default();
    let restored = csi::restored_snapshot(input.item, input.from_backup, &uid);
    restored
        .map(|(item, content)| (item, Some(content)))
        .map_err(|error| ActionError::Failed(error.to_string()))
}

async fn restored_content(input: RestoreInput<'_>, cluster: &dyn Lookup) -> Restored {
    let classes = cluster.list(&snapshots::classes(), None, "").await.unwrap_or_default();
    let fitting = csi::classes_of(&classes, text(input.from_backup, "/spec/driver"));
    let class = fitting.first().map(|class| text(class, "/metadata/name"));
    let uid = input.restore.uid().unwrap_or_default();
    let mapping = input.restore.spec.namespace_mapping.clone().unwrap_or_default();
    let secret = snapshots::deletion_secret(&input.item);
    let item = csi::restored_content(input.item, input.from_backup, &uid, &mapping, class);
    item.map(|item| (item, secret)).map_err(|error| ActionError::Failed(error.to_string()))
}
