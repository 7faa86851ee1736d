//! `forget`: removes snapshots by a policy or by id and, with --prune, the data that no snapshot uses afterwards.

use std::sync::Arc;

use lifeboat_repository::forget::policy::{Age, Count, Policy};
use lifeboat_repository::forget::{
    ForgetGroup, ForgetOptions, Forgotten, JsonSnapshot, decide, forget_locked,
};
use lifeboat_repository::lock::{Lock, LockKind};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::{GroupBy, Selector, TagList};
use tokio_util::sync::CancellationToken;

use super::output::{self, snapshot_table};
use super::prune::{self, PruneArgs};
use super::select::{TagAndPathArgs, filter};
use super::session::Session;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Snapshots to remove, regardless of the policy
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<Selector>,
    /// Keep the newest N; "unlimited" for all
    #[arg(short = 'l', long, value_name = "N", allow_hyphen_values = true)]
    keep_last: Option<Count>,
    /// Keep the newest snapshot of each of the last N hours that have one
    #[arg(short = 'H', long, value_name = "N", allow_hyphen_values = true)]
    keep_hourly: Option<Count>,
    /// Keep the newest snapshot of each of the last N days that have one
    #[arg(short = 'd', long, value_name = "N", allow_hyphen_values = true)]
    keep_daily: Option<Count>,
    /// Keep the newest snapshot of each of the last N weeks that have one
    #[arg(short = 'w', long, value_name = "N", allow_hyphen_values = true)]
    keep_weekly: Option<Count>,
    /// Keep the newest snapshot of each of the last N months that have one
    #[arg(short = 'm', long, value_name = "N", allow_hyphen_values = true)]
    keep_monthly: Option<Count>,
    /// Keep the newest snapshot of each of the last N years that have one
    #[arg(short = 'y', long, value_name = "N", allow_hyphen_values = true)]
    keep_yearly: Option<Count>,
    /// Keep all snapshots within this age of the newest, as in 1y5m7d2h
    #[arg(long, value_name = "AGE")]
    keep_within: Option<Age>,
    /// Keep the newest snapshot of each hour within this age
    #[arg(long, value_name = "AGE")]
    keep_within_hourly: Option<Age>,
    /// Keep the newest snapshot of each day within this age
    #[arg(long, value_name = "AGE")]
    keep_within_daily: Option<Age>,
    /// Keep the newest snapshot of each week within this age
    #[arg(long, value_name = "AGE")]
    keep_within_weekly: Option<Age>,
    /// Keep the newest snapshot of each month within this age
    #[arg(long, value_name = "AGE")]
    keep_within_monthly: Option<Age>,
    /// Keep the newest snapshot of each year within this age
    #[arg(long, value_name = "AGE")]
    keep_within_yearly: Option<Age>,
    /// Keep all snapshots with these tags; can be repeated
    #[arg(long = "keep-tag", value_name = "TAG[,TAG…]")]
    keep_tags: Vec<TagList>,
    /// With a filter and no policy: remove every snapshot that matches the filter
    #[arg(long)]
    unsafe_allow_remove_all: bool,
    /// Only snapshots of this host; can be repeated; "" for any (default: $RESTIC_HOST)
    #[arg(long = "host", value_name = "NAME", alias = "hostname")]
    hosts: Vec<String>,
    #[command(flatten)]
    others: TagAndPathArgs,
    /// Apply the policy to groups of the same host, paths and/or tags; "" for one group
    #[arg(short, long, value_name = "host,paths,tags", default_value = "host,paths")]
    group_by: GroupBy,
    /// Omit paths
    #[arg(short, long)]
    compact: bool,
    /// Remove nothing, show what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Prune afterwards, if snapshots were removed
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    pruning: PruneArgs,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    if session.settings.no_lock && !args.dry_run {
        return Err(CliError::usage("--no-lock is for reading, and for forget with --dry-run")
            .help("leave out --no-lock: removing needs the lock"));
    }
    let repository = session.open().await?;
    let options = args.options(session);
    if session.settings.no_lock {
        let deciding = async { Ok(decide(&repository, &options, jiff::Timestamp::now()).await?) };
        let forgotten = session.interruptible(deciding).await?;
        return finish(session, &repository, &args, &options, forgotten, None).await;
    }
    // Both run under one lock, so that prune sees exactly the snapshots that forget kept.
    let both = |lock: Arc<Lock>, stop: CancellationToken| {
        let (repository, args, options) = (&repository, &args, &options);
        async move {
            let forgotten = forget_locked(repository, options, &lock, &stop).await?;
            finish(session, repository, args, options, forgotten, Some((&lock, &stop))).await
        }
    };
    session.locked_by(&repository, LockKind::Exclusive, both).await
}

/// Prints what was removed, and prunes with --prune.
async fn finish(
    session: &Session,
    repository: &Repository,
    args: &Args,
    options: &ForgetOptions,
    forgotten: Forgotten,
    held: Option<(&Arc<Lock>, &CancellationToken)>,
) -> Result<(), CliError> {
    print(session, args, &options.policy, &forgotten)?;
    for (id, error) in &forgotten.failed {
        let named = if matches!(error, lifeboat_repository::Error::Store { .. }) {
            String::new()
        } else {
            format!("cannot remove snapshot {}: ", id.short())
        };
        message!("error: {named}{}", CliError::text_of(error));
    }
    if !forgotten.failed.is_empty() {
        let text = format!("{} snapshots could not be removed", forgotten.failed.len());
        return Err(CliError::restic(3, text).help("run the command again; nothing else was changed"));
    }
    if !args.prune || forgotten.remove.is_empty() {
        return Ok(());
    }
    let mut pruning = args.pruning.options(repository, args.dry_run);
    // --unsafe-allow-remove-all also allows the prune to remove all data.
    pruning.plan.allow_no_snapshots = args.unsafe_allow_remove_all;
    if args.dry_run {
        pruning.without = forgotten.remove.into_iter().collect();
    }
    // restic's JSON of a forget is only the list.
    let report =
        if session.settings.output == Output::Table { prune::Report::Shown } else { prune::Report::Silent };
    prune::carry_out(session, repository, &pruning, held, report).await
}

impl Args {
    fn options(&self, session: &Session) -> ForgetOptions {
        ForgetOptions {
            selectors: self.snapshots.clone(),
            filter: filter(&self.hosts, &self.others, &session.settings),
            group_by: self.group_by,
            policy: self.policy(),
            allow_remove_all: self.unsafe_allow_remove_all,
            dry_run: self.dry_run,
        }
    }

    fn policy(&self) -> Policy {
        Policy {
            last: self.keep_last.unwrap_or_default(),
            hourly: self.keep_hourly.unwrap_or_default(),
            daily: self.keep_daily.unwrap_or_default(),
            weekly: self.keep_weekly.unwrap_or_default(),
            monthly: self.keep_monthly.unwrap_or_default(),
            yearly: self.keep_yearly.unwrap_or_default(),
            within: self.keep_within.unwrap_or_default(),
            within_hourly: self.keep_within_hourly.unwrap_or_default(),
            within_daily: self.keep_within_daily.unwrap_or_default(),
            within_weekly: self.keep_within_weekly.unwrap_or_default(),
            within_monthly: self.keep_within_monthly.unwrap_or_default(),
            within_yearly: self.keep_within_yearly.unwrap_or_default(),
            tags: self.keep_tags.iter().cloned().collect(),
        }
    }
}

fn print(session: &Session, args: &Args, policy: &Policy, forgotten: &Forgotten) -> Result<(), CliError> {
    if session.settings.output != Output::Table {
        // restic prints no list if snapshots were named.
        return if forgotten.groups.is_empty() {
            Ok(())
        } else {
            output::summary(session, &forgotten.groups, "")
        };
    }
    if !session.settings.quiet {
        if !forgotten.groups.is_empty() {
            printer::line(&format!("policy: {policy}"));
        }
        forgotten.groups.iter().for_each(|group| print_group(group, args.compact));
    }
    let count = forgotten.remove.len() - forgotten.failed.len();
    session.say(match (args.dry_run, count) {
        (_, 0) => "no snapshots to remove".to_owned(),
        (true, count) => format!("would remove {count} snapshots"),
        (false, count) => format!("removed {count} snapshots"),
    });
    Ok(())
}

fn print_group(group: &ForgetGroup, compact: bool) {
    let mut parts = vec![];
    if !group.host.is_empty() {
        parts.push(format!("host {}", group.host));
    }
    for (word, list) in [("paths", &group.paths), ("tags", &group.tags)] {
        if let Some(list) = list {
            parts.push(format!("{word} {}", list.join(", ")));
        }
    }
    printer::line(&format!(
        "\nsnapshots of {}:",
        if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
    ));
    let found = |list: &[JsonSnapshot]| -> Vec<_> {
        list.iter().map(|shown| (shown.id, shown.snapshot.clone())).collect()
    };
    for (word, list) in [("keep", &group.keep), ("remove", &group.remove)] {
        if !list.is_empty() {
            printer::line(&format!("{word} {}:", list.len()));
            printer::line(&snapshot_table(&found(list), compact).trim_fmt());
        }
    }
}
