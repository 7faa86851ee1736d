//! `check`: verifies that the repository is complete and consistent; with --read-data it reads all data.

use std::sync::Arc;

use lifeboat_repository::check::{CheckOptions, CheckOutcome, ReadData, Subset, check};
use lifeboat_repository::progress::Progress;
use lifeboat_repository::snapshots::Selector;
use serde_json::json;

use super::output;
use super::progress::Shown;
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these snapshots and their data [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<Selector>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Read every pack and verify its hashes
    #[arg(long, conflicts_with = "read_data_subset")]
    read_data: bool,
    /// Read a part: n/t for the n-th of t parts, x% or a size such as 500M for a random one
    #[arg(long, value_name = "PART")]
    read_data_subset: Option<Subset>,
    /// Accepted for scripts: prune finds unused data
    #[arg(long, hide = true)]
    check_unused: bool,
    /// Accepted for scripts
    #[arg(long, hide = true)]
    with_cache: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let read = match (args.read_data, args.read_data_subset) {
        (true, _) => ReadData::All,
        (false, Some(subset)) => ReadData::Subset(subset),
        (false, None) => ReadData::Nothing,
    };
    let filter = args.filter.resolve(&session.settings);
    let snapshots = if args.snapshots.is_empty() && filter.is_empty() {
        None
    } else {
        let finding = select::many_and_damaged(&repository, &args.snapshots, &filter);
        Some(session.interruptible(finding).await?)
    };
    let options = CheckOptions { read, snapshots };
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, None);
    let lock = (!session.settings.no_lock).then_some(&session.settings.lock);
    let outcome = check(&repository, &options, lock, progress, session.interrupted.clone()).await;
    shown.stop();
    report(session, &outcome?)
}

fn report(session: &Session, outcome: &CheckOutcome) -> Result<(), CliError> {
    for error in &outcome.errors {
        let text = format!("{}: {}", error.object, error.message);
        if session.is_json() {
            message!("{}", json!({"message_type": "error", "message": text}));
        } else {
            message!("error: {text}");
        }
    }
    for hint in &outcome.hints {
        session.say(format!("note: {}: {}", hint.object, hint.message));
    }
    let read = if outcome.packs_read > 0 {
        format!(", {} packs ({}) read", outcome.packs_read, units::bytes(outcome.bytes_read))
    } else {
        String::new()
    };
    let looked =
        format!("{} snapshots, {} trees, {} packs{read}", outcome.snapshots, outcome.trees, outcome.packs);
    let text = if outcome.is_ok() { format!("no errors were found: {looked}") } else { String::new() };
    output::summary(session, &outcome.summary(), &text)?;
    if outcome.is_ok() {
        return Ok(());
    }
    let hit: Vec<String> =
        outcome.damaged_snapshots.iter().map(lifeboat_repository::id::SnapshotId::short).collect();
    let help = if hit.is_empty() {
        "`repair packs` and `repair index` repair what can be repaired; see docs/disaster-recovery.md"
            .to_owned()
    } else {
        format!(
            "affected snapshots: {}; all others can be restored completely. `repair packs`, `repair index` and \
             `repair snapshots` repair what can be repaired",
            hit.join(", ")
        )
    };
    Err(CliError::restic(1, format!("{} errors were found: {looked}", outcome.total_errors)).help(help))
}
