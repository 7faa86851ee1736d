//! `copy`: copies snapshots of another repository into this one.

use std::sync::Arc;

use lifeboat_repository::copy::{CopyOutcome, copy};
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::Filter;
use serde_json::json;

use super::output;
use super::progress::Shown;
use super::second::SecondArgs;
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these snapshots of the source [default: all that match the filter]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    second: SecondArgs,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let from = args.second.target(session)?;
    let source = session.open_target(&from, "password of the source repository").await?;
    let target = session.open().await?;
    if source.config().chunker_polynomial != target.config().chunker_polynomial {
        session.say(
            "note: the repositories use different chunker parameters, so copies share no data with backups made here; \
             `init --from-repo … --copy-chunker-params` creates one with equal parameters",
        );
    }
    let filter = args.filter.resolve(&session.settings);
    let (ids, damaged) = session.interruptible(chosen(&source, &args.snapshots, &filter)).await?;
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, None);
    let (lock, cancel) = (&session.settings.lock, session.interrupted.clone());
    let outcome = copy(&source, &target, &ids, session.lock_for_reading(), lock, progress, cancel).await;
    shown.stop();
    report(session, &outcome?)?;
    if damaged == 0 {
        return Ok(());
    }
    let message =
        format!("{damaged} damaged snapshots of the source were not copied; the copy is incomplete");
    Err(CliError::restic(1, message)
        .help("`check` lists them; copy single snapshots by id, or remove the damaged ones with `forget`"))
}

/// The snapshots to copy, and the number of unreadable ones. If snapshots are named, unreadable others are not counted.
async fn chosen(
    source: &Repository,
    names: &[String],
    filter: &Filter,
) -> Result<(Vec<SnapshotId>, usize), CliError> {
    if !names.is_empty() {
        let known = select::known(source, names, filter).await?;
        return Ok((known.into_iter().map(|(id, _)| id).collect(), 0));
    }
    let all = source.load_readable_snapshots().await?;
    let ids = all.find_all(&[], filter)?.into_iter().map(|(id, _)| *id).collect();
    Ok((ids, all.damaged.len()))
}

fn report(session: &Session, outcome: &CopyOutcome) -> Result<(), CliError> {
    for copied in &outcome.copied {
        session.say(format!("snapshot {} copied as {}", copied.source.short(), copied.target.short()));
    }
    for skipped in &outcome.skipped {
        session.say(format!(
            "snapshot {} exists already as {}",
            skipped.source.short(),
            skipped.target.short()
        ));
    }
    let pairs = |list: &[lifeboat_repository::copy::Copied]| {
        list.iter().map(|one| json!({"source": one.source, "target": one.target})).collect::<Vec<_>>()
    };
    let message = json!({
        "message_type": "summary", "copied": pairs(&outcome.copied), "skipped": pairs(&outcome.skipped),
        "blobs": outcome.blobs, "data_added": outcome.added, "data_added_packed": outcome.stored,
    });
    let text = format!(
        "{} snapshots copied, {} existed already; {} added ({} stored)",
        outcome.copied.len(),
        outcome.skipped.len(),
        units::bytes(outcome.added),
        units::bytes(outcome.stored)
    );
    output::summary(session, &message, &text)
}
