//! `stats`: counts the data in the repository in one of restic's modes.

use std::sync::Arc;

use lifeboat_repository::progress::Progress;
use lifeboat_repository::stats::{Stats, StatsMode, stats};

use super::output;
use super::progress::Shown;
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these snapshots [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// What to count
    #[arg(long, value_enum, default_value = "restore-size")]
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Size of a restore of all snapshots
    RestoreSize,
    /// Files with the same content counted once
    FilesByContents,
    /// The blobs of each file
    BlobsPerFile,
    /// The stored data
    RawData,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let filter = args.filter.resolve(&session.settings);
    let finding = select::known(&repository, &args.snapshots, &filter);
    let ids: Vec<_> = session.interruptible(finding).await?.into_iter().map(|(id, _)| id).collect();
    let mode = match args.mode {
        Mode::RestoreSize => StatsMode::RestoreSize,
        Mode::FilesByContents => StatsMode::FilesByContents,
        Mode::BlobsPerFile => StatsMode::BlobsPerFile,
        Mode::RawData => StatsMode::RawData,
    };
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, None);
    let (lock, cancel) = (session.lock_for_reading(), &session.interrupted);
    let counted = stats(&repository, &ids, mode, lock, &progress, cancel).await;
    shown.stop();
    let counted = counted?;
    output::summary(session, &counted, &summary_text(&counted))
}

fn summary_text(stats: &Stats) -> String {
    let mut lines = vec![format!("Snapshots:         {}", stats.snapshots_count)];
    if stats.total_file_count > 0 {
        lines.push(format!("Files:             {}", stats.total_file_count));
    }
    if stats.total_blob_count > 0 {
        lines.push(format!("Blobs:             {}", stats.total_blob_count));
    }
    lines.push(format!("Size:              {}", units::bytes(stats.total_size)));
    if stats.total_uncompressed_size > 0 {
        lines.push(format!("Uncompressed size: {}", units::bytes(stats.total_uncompressed_size)));
        lines.push(format!("Compressed:        {:.2}x", stats.compression_ratio));
    }
    lines.join("\n")
}
