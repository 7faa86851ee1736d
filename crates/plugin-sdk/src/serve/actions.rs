//! The services of actions. They implement version 2, which hosts since Velero 1.11 support.

use lifeboat_plugin_protocol::generated::delete_item_action_server::DeleteItemAction;
use lifeboat_plugin_protocol::v1::item_block_action_server::ItemBlockAction;
use lifeboat_plugin_protocol::v2::backup_item_action_server::BackupItemAction;
use lifeboat_plugin_protocol::v2::restore_item_action_server::RestoreItemAction;
use lifeboat_plugin_protocol::{generated, v1, v2};
use tonic::{Request, Response};

use super::common::{Answer, Service, find, identifiers, json, object, run, selector};
use crate::actions::{BackupOutput, RestoreInput, RestoreOutput};

#[tonic::async_trait]
impl BackupItemAction for Service {
    async fn applies_to(
        &self,
        request: Request<v2::BackupItemActionAppliesToRequest>,
    ) -> Answer<v2::BackupItemActionAppliesToResponse> {
        let action = find(&self.plugin().backup, &request.get_ref().plugin)?;
        let selector = run(async { Ok(selector(action.applies_to())) }).await?;
        Ok(Response::new(v2::BackupItemActionAppliesToResponse { resource_selector: selector }))
    }

    async fn execute(&self, request: Request<v2::ExecuteRequest>) -> Answer<v2::ExecuteResponse> {
        let request = request.into_inner();
        let action = find(&self.plugin().backup, &request.plugin)?;
        let (item, backup) = (object(&request.item)?, object(&request.backup)?);
        let BackupOutput { item, additional_items, operation, items_after_operation } =
            run(action.execute(item, &backup)).await?;
        Ok(Response::new(v2::ExecuteResponse {
            item: json(&item)?,
            additional_items: identifiers(additional_items),
            operation_id: operation.unwrap_or_default(),
            post_operation_items: identifiers(items_after_operation),
        }))
    }

    async fn progress(
        &self,
        request: Request<v2::BackupItemActionProgressRequest>,
    ) -> Answer<v2::BackupItemActionProgressResponse> {
        let request = request.into_inner();
        let action = find(&self.plugin().backup, &request.plugin)?;
        let backup = object(&request.backup)?;
        let progress = run(action.progress(&request.operation_id, &backup)).await?;
        Ok(Response::new(v2::BackupItemActionProgressResponse { progress: Some(progress.into()) }))
    }

    async fn cancel(&self, request: Request<v2::BackupItemActionCancelRequest>) -> Answer<()> {
        let request = request.into_inner();
        let action = find(&self.plugin().backup, &request.plugin)?;
        let backup = object(&request.backup)?;
        Ok(Response::new(run(action.cancel(&request.operation_id, &backup)).await?))
    }
}

#[tonic::async_trait]
impl RestoreItemAction for Service {
    async fn applies_to(
        &self,
        request: Request<v2::RestoreItemActionAppliesToRequest>,
    ) -> Answer<v2::RestoreItemActionAppliesToResponse> {
        let action = find(&self.plugin().restore, &request.get_ref().plugin)?;
        let selector = run(async { Ok(selector(action.applies_to())) }).await?;
        Ok(Response::new(v2::RestoreItemActionAppliesToResponse { resource_selector: selector }))
    }

    async fn execute(
        &self,
        request: Request<v2::RestoreItemActionExecuteRequest>,
    ) -> Answer<v2::RestoreItemActionExecuteResponse> {
        let request = request.into_inner();
        let action = find(&self.plugin().restore, &request.plugin)?;
        let input = RestoreInput {
            item: object(&request.item)?,
            item_from_backup: object(&request.item_from_backup)?,
            restore: object(&request.restore)?,
        };
        let RestoreOutput { item, additional_items, skip, operation, wait, wait_at_most } =
            run(action.execute(input)).await?;
        Ok(Response::new(v2::RestoreItemActionExecuteResponse {
            item: json(&item)?,
            additional_items: identifiers(additional_items),
            skip_restore: skip,
            operation_id: operation.unwrap_or_default(),
            wait_for_additional_items: wait,
            additional_items_ready_timeout: wait_at_most.and_then(|limit| limit.try_into().ok()),
        }))
    }

    async fn progress(
        &self,
        request: Request<v2::RestoreItemActionProgressRequest>,
    ) -> Answer<v2::RestoreItemActionProgressResponse> {
        let request = request.into_inner();
        let action = find(&self.plugin().restore, &request.plugin)?;
        let restore = object(&request.restore)?;
        let progress = run(action.progress(&request.operation_id, &restore)).await?;
        Ok(Response::new(v2::RestoreItemActionProgressResponse { progress: Some(progress.into()) }))
    }

    async fn cancel(&self, request: Request<v2::RestoreItemActionCancelRequest>) -> Answer<()> {
        let request = request.into_inner();
        let action = find(&self.plugin().restore, &request.plugin)?;
        let restore = object(&request.restore)?;
        Ok(Response::new(run(action.cancel(&request.operation_id, &restore)).await?))
    }

    async fn are_additional_items_ready(
        &self,
        request: Request<v2::RestoreItemActionItemsReadyRequest>,
    ) -> Answer<v2::RestoreItemActionItemsReadyResponse> {
        let request = request.into_inner();
        let action = find(&self.plugin().restore, &request.plugin)?;
        let restore = object(&request.restore)?;
        let items: Vec<_> = request.additional_items.into_iter().map(Into::into).collect();
        let ready = run(action.are_additional_items_ready(&items, &restore)).await?;
        Ok(Response::new(v2::RestoreItemActionItemsReadyResponse { ready }))
    }
}

#[tonic::async_trait]
impl DeleteItemAction for Service {
    async fn applies_to(
        &self,
        request: Request<generated::DeleteItemActionAppliesToRequest>,
    ) -> Answer<generated::DeleteItemActionAppliesToResponse> {
        let action = find(&self.plugin().delete, &request.get_ref().plugin)?;
        let selector = run(async { Ok(selector(action.applies_to())) }).await?;
        Ok(Response::new(generated::DeleteItemActionAppliesToResponse { resource_selector: selector }))
    }

    async fn execute(
        &self,
        request: Request<generated::DeleteItemActionExecuteRequest>,
    ) -> Answer<generated::Empty> {
        let request = request.into_inner();
        let action = find(&self.plugin().delete, &request.plugin)?;
        let (item, backup) = (object(&request.item)?, object(&request.backup)?);
        run(action.execute(item, &backup)).await?;
        Ok(Response::new(generated::Empty {}))
    }
}

#[tonic::async_trait]
impl ItemBlockAction for Service {
    async fn applies_to(
        &self,
        request: Request<v1::ItemBlockActionAppliesToRequest>,
    ) -> Answer<v1::ItemBlockActionAppliesToResponse> {
        let action = find(&self.plugin().blocks, &request.get_ref().plugin)?;
        let selector = run(async { Ok(selector(action.applies_to())) }).await?;
        Ok(Response::new(v1::ItemBlockActionAppliesToResponse { resource_selector: selector }))
    }

    async fn get_related_items(
        &self,
        request: Request<v1::ItemBlockActionGetRelatedItemsRequest>,
    ) -> Answer<v1::ItemBlockActionGetRelatedItemsResponse> {
        let request = request.into_inner();
        let action = find(&self.plugin().blocks, &request.plugin)?;
        let (item, backup) = (object(&request.item)?, object(&request.backup)?);
        let related = run(action.related_items(&item, &backup)).await?;
        Ok(Response::new(v1::ItemBlockActionGetRelatedItemsResponse { related_items: identifiers(related) }))
    }
}
