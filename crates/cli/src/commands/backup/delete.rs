//! `lifeboat backup delete`: creates a DeleteBackupRequest for each backup, and the server removes the backup with its
//! files, snapshots, copies and restores. Deleting only the Backup object would leave the data in the bucket, and the
//! next sync would create the object again.

use std::time::Duration;

use kube::api::{DynamicObject, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::names::{BACKUP_NAME, BACKUP_UID};
use lifeboat_api::velero::{DeleteBackupRequest, DeleteBackupRequestSpec};
use lifeboat_cluster::Attempt;
use lifeboat_cluster::wait::{Look, until};
use lifeboat_plan::label;

use crate::error::CliError;
use crate::objects::BACKUP;
use crate::objects::ask::{ask, listing};
use crate::objects::remove::DeleteArgs;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    deletion: DeleteArgs,
    /// Wait until they are deleted; fails if something could not be deleted
    #[arg(short, long)]
    wait: bool,
    /// How long to wait for each object
    #[arg(long, default_value = "10m0s", value_name = "DURATION")]
    timeout: GoDuration,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let api = BACKUP.api(&client, &settings.namespace);
    let selection = &args.deletion.selection;
    let found = BACKUP.chosen(&api, &selection.names, selection.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No backups to delete.");
        return Ok(());
    }
    if !args.deletion.confirm {
        let names: Vec<_> = found.iter().map(ResourceExt::name_any).collect();
        ask(&format!("Delete {}, with everything in storage?", listing("backup", "backups", &names)))?;
    }
    let requests: Api<DeleteBackupRequest> = Api::namespaced(client.clone(), &settings.namespace);
    let mut asked = Vec::new();
    for backup in &found {
        let name = backup.name_any();
        let made = requests
            .create(&PostParams::default(), &request(backup, &settings.namespace))
            .await
            .attempt(format!("request the deletion of backup {name}"))?;
        if args.wait {
            eprintln!("Deletion of backup {name:?} requested.");
        } else {
            printer::line(&format!(
                "Deletion of backup {name:?} requested; the object is removed once its files and snapshots are deleted. `lifeboat backup describe {name}` shows what delays it."
            ));
        }
        asked.push((backup, made.name_any()));
    }
    if args.wait {
        let limit = Duration::from_nanos(u64::try_from(args.timeout.as_nanos()).unwrap_or_default());
        for (backup, request) in asked {
            gone(&api, &requests, backup, &request, limit).await?;
            printer::line(&format!("Backup {:?} is deleted.", backup.name_any()));
        }
    }
    Ok(())
}

/// Waits until the backup is deleted or its request reports errors.
async fn gone(
    backups: &Api<DynamicObject>,
    requests: &Api<DeleteBackupRequest>,
    backup: &DynamicObject,
    request: &str,
    limit: Duration,
) -> Result<(), CliError> {
    let name = backup.name_any();
    let remaining = until(&format!("the deletion of backup {name}"), limit, async || {
        let found = backups.get_opt(&name).await.attempt(format!("read backup {name}"))?;
        if found.is_none_or(|found| found.uid() != backup.uid()) {
            return Ok(Look::Done(Vec::new()));
        }
        let answer = requests.get_opt(request).await.attempt(format!("read the request {request}"))?;
        let status = answer.and_then(|answer| answer.status).unwrap_or_default();
        let errors = status.errors.unwrap_or_default();
        Ok(if errors.is_empty() { Look::NotYet("it still exists".to_owned()) } else { Look::Done(errors) })
    })
    .await?;
    if remaining.is_empty() {
        return Ok(());
    }
    Err(CliError::refused(format!("backup {name:?} was not deleted: {}", remaining.join("; ")))
        .help("resolve these errors and delete the backup again"))
}

fn request(backup: &DynamicObject, namespace: &str) -> DeleteBackupRequest {
    let name = backup.name_any();
    DeleteBackupRequest {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: Some(namespace.to_owned()),
            labels: Some(
                [
                    (BACKUP_NAME.to_owned(), label::value(&name)),
                    (BACKUP_UID.to_owned(), backup.uid().unwrap_or_default()),
                ]
                .into(),
            ),
            ..ObjectMeta::default()
        },
        spec: DeleteBackupRequestSpec { backup_name: name },
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_names_the_very_backup() {
        let backup =
            json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b", "uid": "u"}});
        let made = serde_json::to_value(request(&serde_json::from_value(backup).unwrap(), "n")).unwrap();
        assert_eq!(
            made,
            json!({"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest",
                "metadata": {"generateName": "b-", "namespace": "n",
                    "labels": {"velero.io/backup-name": "b", "velero.io/backup-uid": "u"}},
                "spec": {"backupName": "b"}})
        );
    }
}
