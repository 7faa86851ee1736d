//! Delete item actions served by plugin processes.

use async_trait::async_trait;
use lifeboat_api::velero::Backup;
use lifeboat_plugin_protocol::generated::delete_item_action_client::DeleteItemActionClient;
use lifeboat_plugin_protocol::generated::{DeleteItemActionAppliesToRequest, DeleteItemActionExecuteRequest};
use serde_json::Value;

use super::{Remote, convert};
use crate::actions::{ActionError, AppliesTo, DeleteItemAction};

pub(super) struct Delete(pub(super) Remote);

#[async_trait]
impl DeleteItemAction for Delete {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        self.0
            .applies_to(|channel, plugin| async move {
                let request = DeleteItemActionAppliesToRequest { plugin };
                let answer = DeleteItemActionClient::new(channel).applies_to(request).await?;
                Ok(answer.map(|answer| answer.resource_selector))
            })
            .await
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError> {
        let request = DeleteItemActionExecuteRequest {
            plugin: self.0.name.clone(),
            item: convert::json(item)?,
            backup: convert::json(backup)?,
        };
        self.0
            .call(
                "Execute",
                |channel| async move { DeleteItemActionClient::new(channel).execute(request).await },
            )
            .await?;
        Ok(())
    }
}
