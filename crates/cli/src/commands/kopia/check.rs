//! `check`: verifies that the repository is complete; with --read-data it reads and verifies all data.

use std::sync::Arc;

use lifeboat_kopia::check::{CheckOutcome, check};
use lifeboat_kopia::{find, snapshots};
use lifeboat_repository::progress::Progress;
use serde_json::json;

use super::select::FilterArgs;
use crate::commands::repository::progress::Shown;
use crate::commands::repository::session::Session;
use crate::commands::repository::{message, output};
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only these snapshots [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Read every content and verify its authentication tag and its hash
    #[arg(long)]
    read_data: bool,
}

pub(super) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = super::open(session).await?;
    let filter = args.filter.resolve();
    let finding = async {
        if args.snapshots.is_empty() {
            return Ok(snapshots(&repository, &filter).await?);
        }
        let mut chosen = Vec::new();
        for name in &args.snapshots {
            chosen.push(find(&repository, name, &filter).await?);
        }
        Ok(chosen)
    };
    let chosen = session.interruptible(finding).await?;
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, None);
    let outcome = check(&repository, &chosen, args.read_data, progress, session.interrupted.clone()).await;
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
    let read = match outcome.contents_read {
        0 => String::new(),
        count => format!(", {count} contents ({}) read", units::bytes(outcome.bytes_read)),
    };
    let CheckOutcome { snapshots, directories, files, packs, .. } = outcome;
    let looked =
        format!("{snapshots} snapshots, {directories} directories, {files} files, {packs} packs{read}");
    let text = if outcome.is_ok() { format!("no errors were found: {looked}") } else { String::new() };
    let mut summary =
        serde_json::to_value(outcome).map_err(|error| CliError::failed("cannot write JSON", error))?;
    summary["message_type"] = json!("summary");
    output::summary(session, &summary, &text)?;
    if outcome.is_ok() {
        return Ok(());
    }
    let help = if outcome.damaged_snapshots.is_empty() {
        "no snapshot that was checked is affected".to_owned()
    } else {
        format!(
            "affected snapshots: {}; all others that were checked can be restored",
            outcome.damaged_snapshots.join(", ")
        )
    };
    Err(CliError::restic(1, format!("{} errors were found: {looked}", outcome.total_errors)).help(help))
}
