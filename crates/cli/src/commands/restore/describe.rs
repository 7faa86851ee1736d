//! `lifeboat restore describe [NAME…]`: reads what the cluster and the bucket hold about restores and prints a page for each.

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifeboat_api::velero::Restore;
use lifeboat_plan::volume_plugin::Kind;

use super::location_of;
use super::page::{Facts, page};
pub(crate) use crate::commands::describe::Args;
use crate::commands::describe::{Records, Subject};
use crate::error::CliError;
use crate::objects::{RESTORE, typed};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    args.objects
        .describe(settings, &client, RESTORE, async |object| {
            let facts = gather(settings, &client, object, &args).await?;
            Ok(page(&facts, Timestamp::now(), args.details))
        })
        .await
}

async fn gather(
    settings: &Settings,
    client: &Client,
    object: &DynamicObject,
    args: &Args,
) -> Result<Facts, CliError> {
    let restore: Restore = typed(object)?;
    let name = restore.name_any();
    let location = location_of(settings, client, object).await;
    let status = restore.status.clone().unwrap_or_default();
    let subject = Subject {
        kind: Kind::Restore,
        name: &name,
        location: &location,
        written: status.start_timestamp.is_some() && restore.phase().as_str() != "InProgress",
        results: status.errors.unwrap_or_default() + status.warnings.unwrap_or_default() > 0,
        operations: status.restore_item_operations_attempted.unwrap_or_default() > 0,
    };
    let records = Box::pin(Records::gather(settings, client, subject, args)).await?;
    Ok(Facts { restore, location, records })
}
