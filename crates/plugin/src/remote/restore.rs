//! Restore item actions in processes, versions 1 and 2. Only version 2 can wait for additional items; a plugin of
//! version 1 is always ready.

use async_trait::async_trait;
use lifeboat_api::catalogue::ItemId;
use lifeboat_api::velero::Restore;
use lifeboat_plugin_protocol::generated as v1;
use lifeboat_plugin_protocol::generated::restore_item_action_client::RestoreItemActionClient as ClientV1;
use lifeboat_plugin_protocol::v2;
use lifeboat_plugin_protocol::v2::restore_item_action_client::RestoreItemActionClient as ClientV2;

use super::convert::{self, Answer, Kinded};
use super::{LARGEST_ANSWER, Remote};
use crate::actions::{
    ActionError, AppliesTo, Lookup, OperationProgress, RestoreInput, RestoreItemAction, RestoreOutcome,
};

const EXECUTE: &str = "Execute";

pub(super) struct V1(pub(super) Remote);

#[async_trait]
impl RestoreItemAction for V1 {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        let request = v1::RestoreItemActionAppliesToRequest { plugin: self.0.name.clone() };
        let answer = self
            .0
            .slot
            .call(self.0.poll("AppliesTo"), |channel| async move {
                ClientV1::new(channel).applies_to(request).await
            })
            .await?;
        Ok(convert::applies_to(answer.resource_selector))
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        _cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let asked = Kinded::of(&input.item);
        let request = v1::RestoreItemActionExecuteRequest {
            plugin: self.0.name.clone(),
            item: convert::json(&input.item)?,
            restore: convert::json(input.restore)?,
            item_from_backup: convert::json(input.from_backup)?,
        };
        drop(input);
        let answer = self
            .0
            .slot
            .call(self.0.call(EXECUTE), |channel| async move {
                ClientV1::new(channel).max_decoding_message_size(LARGEST_ANSWER).execute(request).await
            })
            .await?;
        let whose = Answer { plugin: &self.0.name, call: EXECUTE };
        Ok(RestoreOutcome {
            item: whose.item(&answer.item, &asked)?,
            additional_items: whose.items(answer.additional_items)?,
            skip: answer.skip_restore,
            ..RestoreOutcome::default()
        })
    }
}

pub(super) struct V2(pub(super) Remote);

#[async_trait]
impl RestoreItemAction for V2 {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        let request = v2::RestoreItemActionAppliesToRequest { plugin: self.0.name.clone() };
        let answer = self
            .0
            .slot
            .call(self.0.poll("AppliesTo"), |channel| async move {
                ClientV2::new(channel).applies_to(request).await
            })
            .await?;
        Ok(convert::applies_to(answer.resource_selector))
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        _cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let asked = Kinded::of(&input.item);
        let request = v2::RestoreItemActionExecuteRequest {
            plugin: self.0.name.clone(),
            item: convert::json(&input.item)?,
            restore: convert::json(input.restore)?,
            item_from_backup: convert::json(input.from_backup)?,
        };
        drop(input);
        let answer = self
            .0
            .slot
            .call(self.0.call(EXECUTE), |channel| async move {
                ClientV2::new(channel).max_decoding_message_size(LARGEST_ANSWER).execute(request).await
            })
            .await?;
        let whose = Answer { plugin: &self.0.name, call: EXECUTE };
        Ok(RestoreOutcome {
            item: whose.item(&answer.item, &asked)?,
            additional_items: whose.items(answer.additional_items)?,
            skip: answer.skip_restore,
            operation_id: convert::text(answer.operation_id),
            wait_for_additional_items: answer.wait_for_additional_items,
            ready_timeout: convert::duration(answer.additional_items_ready_timeout),
        })
    }

    fn may_operate(&self) -> bool {
        true
    }

    async fn are_ready(
        &self,
        items: &[ItemId],
        restore: &Restore,
        _cluster: &dyn Lookup,
    ) -> Result<bool, ActionError> {
        let request = v2::RestoreItemActionItemsReadyRequest {
            plugin: self.0.name.clone(),
            restore: convert::json(restore)?,
            additional_items: convert::identifiers(items),
        };
        let call = self.0.poll("AreAdditionalItemsReady");
        let answer =
            self.0
                .slot
                .call(call, |channel| async move {
                    ClientV2::new(channel).are_additional_items_ready(request).await
                })
                .await?;
        Ok(answer.ready)
    }

    async fn progress(&self, operation: &str, restore: &Restore) -> Result<OperationProgress, ActionError> {
        let request = v2::RestoreItemActionProgressRequest {
            plugin: self.0.name.clone(),
            operation_id: operation.to_owned(),
            restore: convert::json(restore)?,
        };
        let answer =
            self.0
                .slot
                .call(self.0.poll("Progress"), |channel| async move {
                    ClientV2::new(channel).progress(request).await
                })
                .await?;
        Ok(convert::progress(answer.progress))
    }

    async fn cancel(&self, operation: &str, restore: &Restore) -> Result<(), ActionError> {
        let request = v2::RestoreItemActionCancelRequest {
            plugin: self.0.name.clone(),
            operation_id: operation.to_owned(),
            restore: convert::json(restore)?,
        };
        let call = self.0.poll("Cancel");
        Ok(self
            .0
            .slot
            .call(call, |channel| async move { ClientV2::new(channel).cancel(request).await })
            .await?)
    }
}
