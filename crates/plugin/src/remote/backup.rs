//! Backup item actions served by plugin processes, in both versions of the protocol. The requests of version 1 are those
//! of version 2; its answers lack the operation and the items that follow it.

use async_trait::async_trait;
use lifeboat_api::velero::Backup;
use lifeboat_plugin_protocol::generated as v1;
use lifeboat_plugin_protocol::generated::ResourceSelector;
use lifeboat_plugin_protocol::generated::backup_item_action_client::BackupItemActionClient as ClientV1;
use lifeboat_plugin_protocol::v2;
use lifeboat_plugin_protocol::v2::backup_item_action_client::BackupItemActionClient as ClientV2;
use serde_json::Value;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::convert::{self, Answer, GroupKind};
use super::{LARGEST_ANSWER, Remote, Version};
use crate::actions::{ActionError, AppliesTo, BackupItemAction, BackupOutcome, Lookup, OperationProgress};

const EXECUTE: &str = "Execute";

pub(super) struct BackupAction {
    remote: Remote,
    version: Version,
}

impl BackupAction {
    pub(super) fn new(remote: Remote, version: Version) -> Self {
        Self { remote, version }
    }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        &self.remote.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        let version = self.version;
        self.remote.applies_to(move |channel, plugin| applies_to(version, channel, plugin)).await
    }

    async fn execute(
        &self,
        item: Value,
        backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let asked = GroupKind::of(&item);
        let request = v2::ExecuteRequest {
            plugin: self.remote.name.clone(),
            item: convert::json(&item)?,
            backup: convert::json(backup)?,
        };
        drop(item);
        let version = self.version;
        let answer = self.remote.call(EXECUTE, move |channel| execute(version, channel, request)).await?;
        let reader = Answer { plugin: &self.remote.name, call: EXECUTE };
        Ok(BackupOutcome {
            item: reader.item(&answer.item, &asked)?,
            additional_items: reader.items(answer.additional_items)?,
            operation_id: convert::text(answer.operation_id),
            post_operation_items: reader.items(answer.post_operation_items)?,
            ..BackupOutcome::default()
        })
    }

    async fn progress(&self, operation: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        if self.version == Version::V1 {
            return Err(ActionError::NoOperations);
        }
        let request = v2::BackupItemActionProgressRequest {
            plugin: self.remote.name.clone(),
            operation_id: operation.to_owned(),
            backup: convert::json(backup)?,
        };
        let answer = self
            .remote
            .poll("Progress", |channel| async move { ClientV2::new(channel).progress(request).await })
            .await?;
        Ok(convert::progress(answer.progress))
    }

    async fn cancel(&self, operation: &str, backup: &Backup) -> Result<(), ActionError> {
        if self.version == Version::V1 {
            return Ok(());
        }
        let request = v2::BackupItemActionCancelRequest {
            plugin: self.remote.name.clone(),
            operation_id: operation.to_owned(),
            backup: convert::json(backup)?,
        };
        Ok(self
            .remote
            .poll("Cancel", |channel| async move { ClientV2::new(channel).cancel(request).await })
            .await?)
    }
}

async fn applies_to(
    version: Version,
    channel: Channel,
    plugin: String,
) -> Result<Response<Option<ResourceSelector>>, Status> {
    match version {
        Version::V1 => {
            let request = v1::BackupItemActionAppliesToRequest { plugin };
            let answer = ClientV1::new(channel).applies_to(request).await?;
            Ok(answer.map(|answer| answer.resource_selector))
        }
        Version::V2 => {
            let request = v2::BackupItemActionAppliesToRequest { plugin };
            let answer = ClientV2::new(channel).applies_to(request).await?;
            Ok(answer.map(|answer| answer.resource_selector))
        }
    }
}

async fn execute(
    version: Version,
    channel: Channel,
    request: v2::ExecuteRequest,
) -> Result<Response<v2::ExecuteResponse>, Status> {
    match version {
        Version::V1 => {
            let v2::ExecuteRequest { plugin, item, backup } = request;
            let request = v1::ExecuteRequest { plugin, item, backup };
            let mut client = ClientV1::new(channel).max_decoding_message_size(LARGEST_ANSWER);
            Ok(client.execute(request).await?.map(|answer| v2::ExecuteResponse {
                item: answer.item,
                additional_items: answer.additional_items,
                ..v2::ExecuteResponse::default()
            }))
        }
        Version::V2 => {
            ClientV2::new(channel).max_decoding_message_size(LARGEST_ANSWER).execute(request).await
        }
    }
}
