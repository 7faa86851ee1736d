//! Restore item actions served by plugin processes, in both versions of the protocol. The requests of version 1 are those
//! of version 2; its answers lack the operation and the wait for additional items, which are therefore always ready.

use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::catalogue::ItemId;
use lifeboat_api::velero::Restore;
use lifeboat_plugin_protocol::generated as v1;
use lifeboat_plugin_protocol::generated::ResourceSelector;
use lifeboat_plugin_protocol::generated::restore_item_action_client::RestoreItemActionClient as ClientV1;
use lifeboat_plugin_protocol::v2;
use lifeboat_plugin_protocol::v2::restore_item_action_client::RestoreItemActionClient as ClientV2;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::convert::{self, Answer, GroupKind};
use super::{LARGEST_ANSWER, Remote, Version};
use crate::actions::{
    ActionError, AppliesTo, Lookup, OperationProgress, RestoreInput, RestoreItemAction, RestoreOutcome, Turn,
};
use crate::host::ARE_READY;

const EXECUTE: &str = "Execute";

pub(super) struct RestoreAction {
    remote: Remote,
    version: Version,
}

impl RestoreAction {
    pub(super) fn new(remote: Remote, version: Version) -> Self {
        Self { remote, version }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        &self.remote.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        let version = self.version;
        self.remote.applies_to(move |channel, plugin| applies_to(version, channel, plugin)).await
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        _cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let asked = GroupKind::of(&input.item);
        let request = v2::RestoreItemActionExecuteRequest {
            plugin: self.remote.name.clone(),
            item: convert::json(&input.item)?,
            restore: convert::json(input.restore)?,
            item_from_backup: convert::json(input.from_backup)?,
        };
        drop(input);
        let version = self.version;
        let answer = self.remote.call(EXECUTE, move |channel| execute(version, channel, request)).await?;
        let reader = Answer { plugin: &self.remote.name, call: EXECUTE };
        Ok(RestoreOutcome {
            item: reader.item(&answer.item, &asked)?,
            additional_items: reader.items(answer.additional_items)?,
            skip: answer.skip_restore,
            operation_id: convert::text(answer.operation_id),
            wait_for_additional_items: answer.wait_for_additional_items,
            ready_timeout: convert::duration(answer.additional_items_ready_timeout),
            fills_claim: false,
        })
    }

    fn may_operate(&self) -> bool {
        self.version == Version::V2
    }

    async fn turn(&self) -> Turn {
        match self.version {
            Version::V1 => Turn::default(),
            Version::V2 => Turn::new(self.remote.slot.turn().await),
        }
    }

    async fn are_ready(
        &self,
        items: &[ItemId],
        restore: &Restore,
        _cluster: &dyn Lookup,
        limit: Duration,
    ) -> Result<bool, ActionError> {
        if self.version == Version::V1 {
            return Ok(true);
        }
        let request = v2::RestoreItemActionItemsReadyRequest {
            plugin: self.remote.name.clone(),
            restore: convert::json(restore)?,
            additional_items: convert::identifiers(items),
        };
        let answer = self
            .remote
            .send(ARE_READY, limit, |channel| async move {
                ClientV2::new(channel).are_additional_items_ready(request).await
            })
            .await?;
        Ok(answer.ready)
    }

    async fn progress(&self, operation: &str, restore: &Restore) -> Result<OperationProgress, ActionError> {
        if self.version == Version::V1 {
            return Err(ActionError::NoOperations);
        }
        let request = v2::RestoreItemActionProgressRequest {
            plugin: self.remote.name.clone(),
            operation_id: operation.to_owned(),
            restore: convert::json(restore)?,
        };
        let answer = self
            .remote
            .poll("Progress", |channel| async move { ClientV2::new(channel).progress(request).await })
            .await?;
        Ok(convert::progress(answer.progress))
    }

    async fn cancel(&self, operation: &str, restore: &Restore) -> Result<(), ActionError> {
        if self.version == Version::V1 {
            return Ok(());
        }
        let request = v2::RestoreItemActionCancelRequest {
            plugin: self.remote.name.clone(),
            operation_id: operation.to_owned(),
            restore: convert::json(restore)?,
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
            let request = v1::RestoreItemActionAppliesToRequest { plugin };
            let answer = ClientV1::new(channel).applies_to(request).await?;
            Ok(answer.map(|answer| answer.resource_selector))
        }
        Version::V2 => {
            let request = v2::RestoreItemActionAppliesToRequest { plugin };
            let answer = ClientV2::new(channel).applies_to(request).await?;
            Ok(answer.map(|answer| answer.resource_selector))
        }
    }
}

async fn execute(
    version: Version,
    channel: Channel,
    request: v2::RestoreItemActionExecuteRequest,
) -> Result<Response<v2::RestoreItemActionExecuteResponse>, Status> {
    match version {
        Version::V1 => {
            let v2::RestoreItemActionExecuteRequest { plugin, item, restore, item_from_backup } = request;
            let request = v1::RestoreItemActionExecuteRequest { plugin, item, restore, item_from_backup };
            let mut client = ClientV1::new(channel).max_decoding_message_size(LARGEST_ANSWER);
            Ok(client.execute(request).await?.map(|answer| v2::RestoreItemActionExecuteResponse {
                item: answer.item,
                additional_items: answer.additional_items,
                skip_restore: answer.skip_restore,
                ..v2::RestoreItemActionExecuteResponse::default()
            }))
        }
        Version::V2 => {
            ClientV2::new(channel).max_decoding_message_size(LARGEST_ANSWER).execute(request).await
        }
    }
}
