//! `lifeboat backup download NAME`: downloads the archive of a backup's objects as it is stored in the bucket.

use std::fs::OpenOptions;
use std::path::PathBuf;

use lifeboat_api::velero::DownloadTargetKind;

use crate::download::{LinkArgs, copy};
use crate::error::CliError;
use crate::objects::{BACKUP, phase, text};
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the backup
    name: String,
    /// File to write [default: NAME-data.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let found = BACKUP.find(&BACKUP.api(&client, &settings.namespace), &args.name).await?;
    let path = args.output.unwrap_or_else(|| PathBuf::from(format!("{}-data.tar.gz", args.name)));
    if path.exists() && !args.force {
        return Err(CliError::refused(format!("{} exists", path.display()))
            .help("pass --force to overwrite it, or name another file with -o"));
    }
    let location = text(&found, "/spec/storageLocation");
    let fetcher = args.link.fetcher(&client, &settings.namespace, &location).await?;
    let Some(answer) = fetcher.open(DownloadTargetKind::BackupContents, &args.name).await? else {
        return Err(CliError::not_found(format!("backup {:?} has no archive in its location", args.name))
            .help(format!("it is {}; the archive is stored once all objects are written", phase(&found))));
    };
    // The file gets its name only when it is complete.
    let part = PathBuf::from(format!("{}.part", path.display()));
    let failed = |error| CliError::failed(format!("cannot write {}", part.display()), error);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&part).map_err(failed)?;
    let bytes = copy(answer, &mut file).await.inspect_err(|_| drop(std::fs::remove_file(&part)))?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&part, &path).map_err(failed)?;
    printer::line(&format!("Backup {:?} is in {} ({bytes} bytes).", args.name, path.display()));
    Ok(())
}
