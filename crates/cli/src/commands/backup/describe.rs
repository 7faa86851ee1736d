//! `lifeboat backup describe [NAME…]`: reads what the cluster and the bucket hold about backups and prints a page for each.

use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::velero::names::{BACKUP_NAME, BACKUP_UID};
use lifeboat_api::velero::{Backup, DeleteBackupRequest};
use lifeboat_cluster::Attempt;
use lifeboat_plan::label;
use lifeboat_plan::volume_plugin::Kind;

use super::page::{Facts, page};
pub(crate) use crate::commands::describe::Args;
use crate::commands::describe::{Records, Subject};
use crate::error::CliError;
use crate::objects::{BACKUP, typed};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    args.objects
        .describe(settings, &client, BACKUP, async |object| {
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
    let backup: Backup = typed(object)?;
    let name = backup.name_any();
    let deletions = deletions(settings, client, &backup).await?;
    let status = backup.status.clone().unwrap_or_default();
    let subject = Subject {
        kind: Kind::Backup,
        name: &name,
        location: backup.spec.storage_location.as_deref().unwrap_or_default(),
        written: status.start_timestamp.is_some()
            && !matches!(backup.phase().as_str(), "InProgress" | "Deleting"),
        results: status.errors.unwrap_or_default() + status.warnings.unwrap_or_default() > 0,
        operations: status.backup_item_operations_attempted.unwrap_or_default() > 0,
    };
    let records = Box::pin(Records::gather(settings, client, subject, args)).await?;
    Ok(Facts { backup, deletions, records })
}

async fn deletions(
    settings: &Settings,
    client: &Client,
    backup: &Backup,
) -> Result<Vec<DeleteBackupRequest>, CliError> {
    let api: Api<DeleteBackupRequest> = Api::namespaced(client.clone(), &settings.namespace);
    let (name, uid) = (label::value(&backup.name_any()), backup.uid().unwrap_or_default());
    let of_it = ListParams::default().labels(&format!("{BACKUP_NAME}={name},{BACKUP_UID}={uid}"));
    Ok(api.list(&of_it).await.attempt("list DeleteBackupRequests")?.items)
}
