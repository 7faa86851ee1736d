//! `repair index|packs|snapshots`: repairs a damaged repository as far as possible.

use std::sync::Arc;

use lifeboat_repository::id::PackId;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repair::{
    RepairIndexOptions, RepairPacksOptions, RepairSnapshotsOptions, repair_index, repair_packs,
    repair_snapshots,
};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::Selector;
use serde_json::json;

use super::output;
use super::progress::Shown;
use super::select::{self, FilterArgs};
use super::session::Session;
use crate::error::CliError;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Rebuild wrong or missing parts of the index from the packs
    Index(IndexArgs),
    /// Save the intact blobs of damaged packs, and remove the packs
    Packs(PacksArgs),
    /// Remove lost files from snapshots, so that the rest can be used
    Snapshots(SnapshotsArgs),
}

#[derive(clap::Args)]
pub(crate) struct IndexArgs {
    /// Ignore the existing index: read the header of every pack
    #[arg(long)]
    read_all_packs: bool,
}

#[derive(clap::Args)]
pub(crate) struct PacksArgs {
    /// Ids of damaged packs, as `check --read-data` names them
    #[arg(value_name = "PACK", required = true)]
    packs: Vec<PackId>,
}

#[derive(clap::Args)]
pub(crate) struct SnapshotsArgs {
    /// Only these snapshots [default: all that match the filter]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<Selector>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Remove the damaged originals
    #[arg(long)]
    forget: bool,
    /// Change nothing, show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
}

pub(crate) async fn run(session: &Session, command: Command) -> Result<(), CliError> {
    let repository = session.open().await?;
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, None);
    let outcome = match command {
        Command::Index(args) => index(session, &repository, args, &progress).await,
        Command::Packs(args) => packs(session, &repository, args, &progress).await,
        Command::Snapshots(args) => snapshots(session, &repository, args, &progress).await,
    };
    shown.stop();
    let Report { message, text, unfinished } = outcome?;
    output::summary(session, &message, &text)?;
    unfinished.map_or(Ok(()), Err)
}

/// What was repaired, and what remains to be done.
struct Report {
    message: serde_json::Value,
    text: String,
    unfinished: Option<CliError>,
}

impl Report {
    fn done(message: serde_json::Value, text: String) -> Self {
        Self { message, text, unfinished: None }
    }
}

async fn index(
    session: &Session,
    repository: &Repository,
    args: IndexArgs,
    progress: &Progress,
) -> Result<Report, CliError> {
    let options = RepairIndexOptions { read_all_packs: args.read_all_packs };
    let (lock, cancel) = (&session.settings.lock, &session.interrupted);
    let outcome = repair_index(repository, options, lock, progress, cancel).await?;
    for (id, problem) in &outcome.damaged_indexes {
        session.say(format!("index {} could not be read: {problem}", id.short()));
    }
    for (id, problem) in &outcome.unreadable_packs {
        session.say(format!("pack {id} could not be read: {problem}"));
    }
    for cut in &outcome.cut_packs {
        session.say(format!(
            "pack {} is truncated: {}; {} of its blobs stay in the index, {} were removed from it",
            cut.id, cut.problem, cut.kept, cut.lost
        ));
    }
    let text = if outcome.changed_anything() {
        format!(
            "the index is repaired: {} packs added, {} read again, {} missing ones removed",
            outcome.added_packs.len(),
            outcome.reindexed_packs.len(),
            outcome.missing_packs.len()
        )
    } else {
        "the index was correct".to_owned()
    };
    let message = json!({
        "message_type": "summary",
        "changed": outcome.changed_anything(),
        "damaged_indexes": outcome.damaged_indexes.iter().map(|(id, _)| id).collect::<Vec<_>>(),
        "added_packs": outcome.added_packs,
        "reindexed_packs": outcome.reindexed_packs,
        "missing_packs": outcome.missing_packs,
        "unreadable_packs": outcome.unreadable_packs.iter().map(|(id, _)| id).collect::<Vec<_>>(),
        "cut_packs": outcome.cut_packs,
    });
    let cut: Vec<_> = outcome.cut_packs.iter().map(|cut| cut.id.to_string()).collect();
    let unfinished = (!cut.is_empty()).then(|| {
        CliError::restic(1, format!("{} packs are truncated; the repository is not complete yet", cut.len()))
            .help(format!(
                "save their intact blobs with `repair packs {}`, then run `repair snapshots`",
                cut.join(" ")
            ))
    });
    Ok(Report { message, text, unfinished })
}

/// The damaged packs are copied into the current directory first, as restic does.
async fn packs(
    session: &Session,
    repository: &Repository,
    args: PacksArgs,
    progress: &Progress,
) -> Result<Report, CliError> {
    let copies = std::env::current_dir().map_err(|error| {
        CliError::failed("cannot find the current directory for copies of the packs", error)
    })?;
    let options = RepairPacksOptions { packs: args.packs, copies: Some(copies.clone()) };
    let (lock, cancel) = (&session.settings.lock, &session.interrupted);
    let outcome = repair_packs(repository, &options, lock, progress, cancel).await?;
    let text = format!(
        "{} packs repaired: {} blobs saved, {} lost; copies of the packs are in {}{}",
        outcome.removed_packs.len(),
        outcome.salvaged,
        outcome.lost.len(),
        copies.display(),
        if outcome.lost.is_empty() {
            ""
        } else {
            "\nrun `repair snapshots --forget` to remove lost files from snapshots"
        }
    );
    let lost: Vec<_> = outcome.lost.iter().map(|(kind, id)| json!({"type": kind, "id": id})).collect();
    let message = json!({
        "message_type": "summary", "salvaged": outcome.salvaged, "lost": lost, "removed_packs": outcome.removed_packs,
    });
    Ok(Report::done(message, text))
}

async fn snapshots(
    session: &Session,
    repository: &Repository,
    args: SnapshotsArgs,
    progress: &Progress,
) -> Result<Report, CliError> {
    let filter = args.filter.resolve(&session.settings);
    let finding = select::many_or_damaged(repository, &args.snapshots, &filter);
    let snapshots = session.interruptible(finding).await?;
    let options = RepairSnapshotsOptions { snapshots, forget: args.forget, dry_run: args.dry_run };
    let (lock, cancel) = (&session.settings.lock, &session.interrupted);
    let outcome = repair_snapshots(repository, &options, lock, progress, cancel).await?;
    for one in &outcome.repaired {
        for mended in &one.mended {
            session.say(format!("snapshot {}: {}: {:?}", one.old.short(), mended.path, mended.kind));
        }
        let new = one.new.map(|id| format!(", repaired as {}", id.short())).unwrap_or_default();
        let removed = if one.old_was_removed { ", original removed" } else { "" };
        let lost = if one.root_is_lost { ", nothing of it can be read" } else { "" };
        session.say(format!("snapshot {} is damaged{lost}{new}{removed}", one.old.short()));
    }
    let repaired: Vec<_> = outcome
        .repaired
        .iter()
        .map(|one| {
            json!({"old": one.old, "new": one.new, "root_is_lost": one.root_is_lost,
                "old_was_removed": one.old_was_removed, "mended": one.mended})
        })
        .collect();
    let text = format!("{} of {} snapshots are damaged", outcome.repaired.len(), outcome.looked_at);
    let message = json!({"message_type": "summary", "looked_at": outcome.looked_at, "repaired": repaired});
    Ok(Report::done(message, text))
}
