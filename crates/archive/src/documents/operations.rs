//! `NAME-itemoperations.json.gz`: the operations that actions started.

use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::common::Time;
use serde::{Deserialize, Serialize};

use super::is_zero;

/// The phase of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationPhase {
    #[default]
    New,
    InProgress,
    Completed,
    Failed,
}

impl OperationPhase {
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// An item, as Velero's Go struct without JSON names is encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ResourceIdentifier {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl From<&ItemId> for ResourceIdentifier {
    fn from(id: &ItemId) -> Self {
        Self {
            group: id.resource.group.clone(),
            resource: id.resource.resource.clone(),
            namespace: id.namespace.clone().unwrap_or_default(),
            name: id.name.clone(),
        }
    }
}

impl From<ResourceIdentifier> for ItemId {
    fn from(id: ResourceIdentifier) -> Self {
        Self {
            resource: GroupResource::new(id.group, id.resource),
            namespace: Some(id.namespace).filter(|namespace| !namespace.is_empty()),
            name: id.name,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupOperation {
    pub spec: BackupOperationSpec,
    pub status: OperationStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupOperationSpec {
    pub backup_name: String,
    #[serde(rename = "backupUID")]
    pub backup_uid: String,
    pub backup_item_action: String,
    pub resource_identifier: ResourceIdentifier,
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// `null` if there are none, as in Velero.
    #[serde(default)]
    pub post_operation_items: Option<Vec<ResourceIdentifier>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestoreOperation {
    pub spec: RestoreOperationSpec,
    pub status: OperationStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreOperationSpec {
    pub restore_name: String,
    #[serde(rename = "restoreUID")]
    pub restore_uid: String,
    pub restore_item_action: String,
    pub resource_identifier: ResourceIdentifier,
    #[serde(rename = "operationID")]
    pub operation_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationStatus {
    pub phase: OperationPhase,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub n_completed: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub n_total: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation_units: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Time>,
}
