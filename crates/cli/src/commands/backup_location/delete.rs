//! `lifeboat backup-location delete`: removes locations and, as upstream does, the Backup and BackupRepository objects
//! that stand for what is in them. The bucket's data stays; making the location again brings the objects back.

use std::io::{BufRead, IsTerminal, Write};

use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_cluster::{Attempt, objects};

use super::{api, find};
use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of the locations
    #[arg(required_unless_present_any = ["all", "selector"])]
    names: Vec<String>,
    /// All locations
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Locations with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<String>,
    /// Do not ask
    #[arg(long)]
    confirm: bool,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let api = api(&client, &settings.namespace);
    let mut found = Vec::new();
    if args.names.is_empty() {
        let params =
            args.selector.as_deref().map_or_else(ListParams::default, |s| ListParams::default().labels(s));
        found.extend(
            api.list(&params).await.attempt("list BackupStorageLocations")?.into_iter().map(|o| o.name_any()),
        );
    } else {
        for name in &args.names {
            found.push(find(&api, name).await?.name_any());
        }
    }
    if found.is_empty() {
        eprintln!("No backup locations to delete.");
        return Ok(());
    }
    if !args.confirm {
        ask(&found)?;
    }
    for name in &found {
        api.delete(name, &DeleteParams::default())
            .await
            .attempt(format!("delete BackupStorageLocation {name}"))?;
        println!("Backup storage location {name:?} deleted; the data in its bucket is untouched.");
        forget_contents(&client, settings, name).await?;
    }
    Ok(())
}

/// The objects that stand for backups and repositories in the location.
async fn forget_contents(client: &Client, settings: &Settings, location: &str) -> Result<(), CliError> {
    let label = lifeboat_plan::label::value(location);
    let labelled = ListParams::default().labels(&format!("velero.io/storage-location={label}"));
    for (kind, plural) in [("Backup", "backups"), ("BackupRepository", "backuprepositories")] {
        let resource = objects::resource("velero.io", "v1", kind, plural);
        let api: Api<DynamicObject> = objects::namespaced(client, &settings.namespace, &resource);
        let stored =
            api.list(&labelled).await.attempt(format!("list the {plural} of location {location}"))?;
        for object in &stored {
            let name = object.name_any();
            api.delete(&name, &DeleteParams::default()).await.attempt(format!("delete {kind} {name}"))?;
            println!("{kind} object {name:?} of that location deleted.");
        }
    }
    Ok(())
}

fn ask(names: &[String]) -> Result<(), CliError> {
    let refusal = || {
        CliError::refused("not confirmed; nothing was deleted")
            .help("pass --confirm to delete without a question")
    };
    if !std::io::stdin().is_terminal() {
        return Err(refusal());
    }
    eprint!("Delete backup location {}? [y/N] ", names.join(", "));
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CliError::failed("cannot read the answer", error))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(refusal()) }
}
