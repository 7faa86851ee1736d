//! `lifeboat backup-location delete`: deletes locations and, like stock Velero, the Backup and BackupRepository objects
//! of what they store. The data in the bucket stays; creating the location again syncs the objects back.

use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::velero::names::STORAGE_LOCATION;
use lifeboat_api::velero::{Backup, BackupRepository};
use lifeboat_cluster::{Attempt, objects};

use super::{api, find, listed};
use crate::error::CliError;
use crate::objects::ask::{ask, listing};
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of the locations
    #[arg(required_unless_present_any = ["all", "selector"])]
    names: Vec<String>,
    /// All locations
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// All locations with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    confirm: bool,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let api = api(&client, &settings.namespace);
    let mut found = Vec::new();
    if args.names.is_empty() {
        found.extend(listed(&api, args.selector.as_deref()).await?.iter().map(ResourceExt::name_any));
    } else {
        for name in &args.names {
            // If an earlier deletion was interrupted, the location may be gone while objects of it are left.
            if contents(&client, settings, name).await?.is_empty() {
                find(&api, name).await?;
            }
            found.push(name.clone());
        }
    }
    found.sort();
    found.dedup();
    if found.is_empty() {
        eprintln!("No backup locations to delete.");
        return Ok(());
    }
    if !args.confirm {
        ask(&format!("Delete {}?", listing("backup location", "backup locations", &found)))?;
    }
    for name in &found {
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => {
                deleted.attempt(format!("delete BackupStorageLocation {name}"))?;
                printer::line(&format!(
                    "Backup storage location {name:?} deleted; the data in its bucket stays."
                ));
            }
        }
        for (api, object) in contents(&client, settings, name).await? {
            objects::delete(&api, &object).await?;
            let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
            printer::line(&format!("{kind} object {:?} of that location deleted.", object.name_any()));
        }
    }
    Ok(())
}

/// The Backup and BackupRepository objects of the location, each with its API.
async fn contents(
    client: &Client,
    settings: &Settings,
    location: &str,
) -> Result<Vec<(Api<DynamicObject>, DynamicObject)>, CliError> {
    let label = lifeboat_plan::label::value(location);
    let labelled = ListParams::default().labels(&format!("{STORAGE_LOCATION}={label}"));
    let mut found = Vec::new();
    for resource in [objects::resource_of::<Backup>(), objects::resource_of::<BackupRepository>()] {
        let api: Api<DynamicObject> = objects::namespaced(client, &settings.namespace, &resource);
        let stored = api
            .list(&labelled)
            .await
            .attempt(format!("list the {} of location {location}", resource.plural))?;
        found.extend(stored.into_iter().map(|object| (api.clone(), object)));
    }
    Ok(found)
}
