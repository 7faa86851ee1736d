//! `prune`: frees the space of data that no snapshot uses, in two phases: packs are removed from the index first and
//! deleted after a grace time.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_repository::lock::Lock;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::prune::plan::{self, MaxUnused, PrunePlan};
use lifeboat_repository::prune::{Done, PruneOptions, dry_run, prune, prune_locked};
use lifeboat_repository::repository::Repository;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::output;
use super::progress::Shown;
use super::session::Session;
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing, show the plan
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) pruning: PruneArgs,
    /// Prune a repository without any snapshot: deletes all data in it
    #[arg(long)]
    pub(crate) allow_no_snapshots: bool,
    #[arg(long, value_name = "CONFIRMATION", hide = true)]
    pub(crate) unsafe_recover_no_free_space: Option<String>,
}

/// The flags that `prune` and `forget --prune` share.
#[derive(clap::Args)]
pub(crate) struct PruneArgs {
    /// Unused data that may stay in partly used packs: 5%, 200M or unlimited
    #[arg(long, value_name = "LIMIT", default_value = "5%", alias = "max-unused-limit")]
    max_unused: MaxUnused,
    /// Stop after this much data was repacked
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    max_repack_size: Option<u64>,
    /// Repack only tree packs, not data packs
    #[arg(long)]
    repack_cacheable_only: bool,
    /// Repack packs that are much smaller than --pack-size
    #[arg(long)]
    repack_small: bool,
    /// Repack packs that are smaller than this
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    repack_smaller_than: Option<u64>,
    /// Repack all uncompressed data
    #[arg(long)]
    repack_uncompressed: bool,
    /// How long a pack is kept after it was removed from the index; 0 deletes it at once
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = units::duration)]
    grace: Duration,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    if args.unsafe_recover_no_free_space.is_some() {
        return Err(CliError::usage("--unsafe-recover-no-free-space is not supported")
            .help("free some space first, or use restic itself for this one step"));
    }
    if session.settings.no_lock && !args.dry_run {
        return Err(CliError::usage("--no-lock is for reading, and for prune with --dry-run")
            .help("leave out --no-lock: deleting needs the lock"));
    }
    let repository = session.open().await?;
    let mut options = args.pruning.options(&repository, args.dry_run);
    options.plan.allow_no_snapshots = args.allow_no_snapshots;
    carry_out(session, &repository, &options, None, Report::Shown).await
}

/// Whether a prune prints a report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    Shown,
    Silent,
}

/// Prunes under a new lock, or under the given one.
pub(crate) async fn carry_out(
    session: &Session,
    repository: &Repository,
    options: &PruneOptions,
    held: Option<(&Arc<Lock>, &CancellationToken)>,
    wanted: Report,
) -> Result<(), CliError> {
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(session, &progress, None);
    if options.dry_run {
        let deciding = dry_run(repository, options, &progress);
        let plan = session.interruptible(async { Ok(deciding.await?) }).await;
        shown.stop();
        let plan = plan?;
        return if wanted == Report::Shown { report(session, &plan, None, options) } else { Ok(()) };
    }
    let pruned = match held {
        Some((lock, stop)) => prune_locked(repository, options, lock, &progress, stop).await,
        None => prune(repository, options, &session.settings.lock, &progress, &session.interrupted).await,
    };
    shown.stop();
    let pruned = pruned?;
    if !pruned.marks_kept && !options.plan.grace.is_zero() {
        session.say(
            "note: this server cannot store marks; packs removed from the index stay until a prune with --grace 0",
        );
    }
    match wanted {
        Report::Shown => report(session, &pruned.plan, Some(pruned.done), options),
        Report::Silent => Ok(()),
    }
}

impl PruneArgs {
    pub(crate) fn options(&self, repository: &Repository, dry_run: bool) -> PruneOptions {
        let pack_size = repository.options().pack_size as u64;
        let small = self.repack_smaller_than.or_else(|| self.repack_small.then_some(pack_size / 5 * 4));
        let plan = plan::Options {
            max_unused: self.max_unused,
            max_repack: self.max_repack_size,
            repack_cacheable_only: self.repack_cacheable_only,
            repack_uncompressed: self.repack_uncompressed,
            small_pack: small,
            pack_size,
            grace: self.grace,
            ..plan::Options::default()
        };
        PruneOptions { plan, dry_run, ..PruneOptions::default() }
    }
}

fn report(
    session: &Session,
    plan: &PrunePlan,
    done: Option<Done>,
    options: &PruneOptions,
) -> Result<(), CliError> {
    let message = json!({
        "message_type": "summary",
        "dry_run": done.is_none(),
        "plan": plan.totals,
        "packs_taken_out": plan.take_out.len() + plan.repack.len(),
        "packs_waiting": plan.mark.len() + plan.waiting.len(),
        "next_due": plan.next_due.map(|time| time.to_string()),
        "done": done,
    });
    output::summary(session, &message, &summary_text(session, plan, done, options))
}

fn summary_text(session: &Session, plan: &PrunePlan, done: Option<Done>, options: &PruneOptions) -> String {
    let totals = &plan.totals;
    let line = |name: &str, sum: plan::Sum| {
        format!("{name:14}{:>10} blobs / {}", sum.blobs, units::bytes(sum.bytes))
    };
    let mut lines = Vec::new();
    if session.settings.verbosity > 0 {
        lines.extend([
            line("used:", totals.used),
            line("duplicates:", totals.duplicate),
            line("unused:", totals.unused),
            line("total:", totals.total()),
            String::new(),
        ]);
    }
    lines.extend([
        line("to repack:", totals.repack),
        line("this removes:", totals.repack_removes),
        line("to delete:", totals.to_delete()),
        line("total prune:", totals.total_prune()),
        line("remaining:", totals.remaining()),
        format!("unused size after prune: {}", units::bytes(totals.unused_after())),
        String::new(),
    ]);
    lines.push(match done {
        None => "dry run: nothing was changed".to_owned(),
        Some(done) => format!(
            "{} packs written ({}), {} packs deleted ({})",
            done.packs_written,
            units::bytes(done.bytes_written),
            done.packs_deleted,
            units::bytes(done.bytes_deleted)
        ),
    });
    if let Some(count) = done.map(|done| done.unfinished_removed).filter(|count| *count > 0) {
        lines.push(format!("{count} unfinished files of dead writers removed"));
    }
    let waiting = plan.mark.len() + plan.waiting.len();
    if waiting > 0 && !options.plan.grace.is_zero() {
        let due = plan.next_due.map(|time| format!(", the first from {time} on")).unwrap_or_default();
        lines.push(format!("{waiting} packs are within their grace time; a later prune deletes them{due}"));
    }
    lines.join("\n")
}
