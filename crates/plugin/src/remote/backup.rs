//! Backup item actions in processes, versions 1 and 2.

use async_trait::async_trait;
use lifeboat_api::velero::Backup;
use lifeboat_plugin_protocol::generated as v1;
use lifeboat_plugin_protocol::generated::backup_item_action_client::BackupItemActionClient as ClientV1;
use lifeboat_plugin_protocol::v2;
use lifeboat_plugin_protocol::v2::backup_item_action_client::BackupItemActionClient as ClientV2;
use serde_json::Value;

use super::convert::{self, Answer, Kinded};
use super::{LARGEST_ANSWER, Remote};
use crate::actions::{ActionError, AppliesTo, BackupItemAction, BackupOutcome, Lookup, OperationProgress};

const EXECUTE: &str = "Execute";

pub(super) struct V1(pub(super) Remote);

#[async_trait]
impl BackupItemAction for V1 {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        let request = v1::BackupItemActionAppliesToRequest { plugin: self.0.name.clone() };
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
        item: Value,
        backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let asked = Kinded::of(&item);
        let request = v1::ExecuteRequest {
            plugin: self.0.name.clone(),
            item: convert::json(&item)?,
            backup: convert::json(backup)?,
        };
        drop(item);
        let answer = self
            .0
            .slot
            .call(self.0.call(EXECUTE), |channel| async move {
                ClientV1::new(channel).max_decoding_message_size(LARGEST_ANSWER).execute(request).await
            })
            .await?;
        let whose = Answer { plugin: &self.0.name, call: EXECUTE };
        Ok(BackupOutcome {
            item: whose.item(&answer.item, &asked)?,
            additional_items: whose.items(answer.additional_items)?,
            ..BackupOutcome::default()
        })
    }
}

pub(super) struct V2(pub(super) Remote);

#[async_trait]
impl BackupItemAction for V2 {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        let request = v2::BackupItemActionAppliesToRequest { plugin: self.0.name.clone() };
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
        item: Value,
        backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let asked = Kinded::of(&item);
        let request = v2::ExecuteRequest {
            plugin: self.0.name.clone(),
            item: convert::json(&item)?,
            backup: convert::json(backup)?,
        };
        drop(item);
        let answer = self
            .0
            .slot
            .call(self.0.call(EXECUTE), |channel| async move {
                ClientV2::new(channel).max_decoding_message_size(LARGEST_ANSWER).execute(request).await
            })
            .await?;
        let whose = Answer { plugin: &self.0.name, call: EXECUTE };
        Ok(BackupOutcome {
            item: whose.item(&answer.item, &asked)?,
            additional_items: whose.items(answer.additional_items)?,
            operation_id: convert::text(answer.operation_id),
            post_operation_items: whose.items(answer.post_operation_items)?,
            ..BackupOutcome::default()
        })
    }

    async fn progress(&self, operation: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        let request = v2::BackupItemActionProgressRequest {
            plugin: self.0.name.clone(),
            operation_id: operation.to_owned(),
            backup: convert::json(backup)?,
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

    async fn cancel(&self, operation: &str, backup: &Backup) -> Result<(), ActionError> {
        let request = v2::BackupItemActionCancelRequest {
            plugin: self.0.name.clone(),
            operation_id: operation.to_owned(),
            backup: convert::json(backup)?,
        };
        let call = self.0.poll("Cancel");
        Ok(self
            .0
            .slot
            .call(call, |channel| async move { ClientV2::new(channel).cancel(request).await })
            .await?)
    }
}
