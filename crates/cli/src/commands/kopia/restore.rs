//! `restore`: restores a snapshot, or a part of it, to a directory; or the content of a block device to a device.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use lifeboat_kopia::restore::device::restore_device;
use lifeboat_kopia::restore::{Overwrite, RestoreOptions, restore};
use lifeboat_kopia::{Repository, Snapshot, find};
use lifeboat_repository::progress::Progress;
use serde_json::json;

use super::select::{FilterArgs, Selection, selection};
use super::snapshots::moment;
use crate::commands::repository::output;
use crate::commands::repository::progress::{Shown, restore_status};
use crate::commands::repository::restore::{notify, report, selected};
use crate::commands::repository::session::Session;
use crate::commands::repository::source::{ExcludeArgs, IncludeArgs};
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Id, start of an id, or "latest"; with ":/folder" only the content of that folder
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = selection())]
    snapshot: Selection,
    /// Directory to restore to
    #[arg(short, long, value_name = "DIRECTORY", required_unless_present = "device")]
    target: Option<PathBuf>,
    /// Block device to restore to, or an image of one, if the snapshot is the content of a block device
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["target", "sparse", "dry_run", "overwrite"])]
    device: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    include: IncludeArgs,
    #[command(flatten)]
    exclude: ExcludeArgs,
    /// When to overwrite existing files: always, if-changed, if-newer or never
    #[arg(long, value_name = "WHEN", default_value = "always")]
    overwrite: Overwrite,
    /// Write sparse files
    #[arg(long)]
    sparse: bool,
    /// Read everything that was restored again and compare
    #[arg(long)]
    verify: bool,
    /// Change nothing, show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
}

pub(super) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let select = selected(session, &args.include, &args.exclude)?;
    if args.device.is_some() && (select.is_some() || args.snapshot.folder.is_some()) {
        return Err(CliError::usage("a block device has no files to select")
            .help("leave out the folder and the patterns"));
    }
    let repository = super::open(session).await?;
    let filter = args.filter.resolve();
    let finding = async { Ok(find(&repository, &args.snapshot.name, &filter).await?) };
    let snapshot = session.interruptible(finding).await?;
    let to = args.device.as_ref().or(args.target.as_ref());
    session.say(format!(
        "restoring snapshot {} of {} at {} to {}",
        snapshot.id,
        snapshot.source,
        moment(snapshot.start),
        to.map(|path| path.display().to_string()).unwrap_or_default()
    ));
    match (args.device, args.target) {
        (Some(device), _) => to_device(session, &repository, &snapshot, device, args.verify).await,
        (None, target) => {
            let options = RestoreOptions {
                target: target.unwrap_or_default(),
                subfolder: args.snapshot.folder,
                select,
                overwrite: args.overwrite,
                sparse: args.sparse,
                verify: args.verify,
                dry_run: args.dry_run,
                notify: notify(session),
            };
            to_directory(session, &repository, &snapshot, options).await
        }
    }
}

async fn to_directory(
    session: &Session,
    repository: &Repository,
    snapshot: &Snapshot,
    options: RestoreOptions,
) -> Result<(), CliError> {
    let (start, dry_run) = (Instant::now(), options.dry_run);
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, Some(restore_status));
    let outcome = restore(repository, snapshot, options, progress, session.interrupted.clone()).await;
    shown.stop();
    report(session, dry_run, &outcome?, start.elapsed())
}

async fn to_device(
    session: &Session,
    repository: &Repository,
    snapshot: &Snapshot,
    device: PathBuf,
    verify: bool,
) -> Result<(), CliError> {
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, Some(restore_status));
    let cancel = session.interrupted.clone();
    let outcome = restore_device(repository, snapshot, &device, verify, progress, cancel).await;
    shown.stop();
    let outcome = outcome?;
    let message =
        json!({"message_type": "summary", "bytes_restored": outcome.bytes, "verified": outcome.verified});
    let verified = if outcome.verified { ", verified" } else { "" };
    output::summary(session, &message, &format!("Restored {}{verified}", units::bytes(outcome.bytes)))
}
