//! Item block actions served by plugin processes.

use async_trait::async_trait;
use lifeboat_api::catalogue::ItemId;
use lifeboat_api::velero::Backup;
use lifeboat_plugin_protocol::v1::item_block_action_client::ItemBlockActionClient;
use lifeboat_plugin_protocol::v1::{ItemBlockActionAppliesToRequest, ItemBlockActionGetRelatedItemsRequest};
use serde_json::Value;

use super::convert::{self, Answer};
use super::{LARGEST_ANSWER, Remote};
use crate::actions::{ActionError, AppliesTo, ItemBlockAction, Lookup};

const RELATED: &str = "GetRelatedItems";

pub(super) struct Blocks(pub(super) Remote);

#[async_trait]
impl ItemBlockAction for Blocks {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        self.0
            .applies_to(|channel, plugin| async move {
                let request = ItemBlockActionAppliesToRequest { plugin };
                let answer = ItemBlockActionClient::new(channel).applies_to(request).await?;
                Ok(answer.map(|answer| answer.resource_selector))
            })
            .await
    }

    async fn related_items(
        &self,
        item: &Value,
        backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<Vec<ItemId>, ActionError> {
        let request = ItemBlockActionGetRelatedItemsRequest {
            plugin: self.0.name.clone(),
            item: convert::json(item)?,
            backup: convert::json(backup)?,
        };
        let answer = self
            .0
            .call(RELATED, |channel| async move {
                let client = ItemBlockActionClient::new(channel);
                client.max_decoding_message_size(LARGEST_ANSWER).get_related_items(request).await
            })
            .await?;
        Ok(Answer { plugin: &self.0.name, call: RELATED }.items(answer.related_items)?)
    }
}
