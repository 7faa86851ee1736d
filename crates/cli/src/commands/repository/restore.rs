//! `restore`: restores a snapshot, or a part of it, to a directory. Under the name `restic`, without a target and with
//! a pipe as standard output, it writes the only file of a stream's snapshot to standard output.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lifeboat_repository::progress::Progress;
use lifeboat_repository::restore::{self, Action, Event, Overwrite, RestoreOptions, RestoreOutcome};
use lifeboat_repository::snapshots::{FoundSnapshot, Selection};
use lifeboat_repository::source::patterns::{Case, Patterns};
use lifeboat_repository::source::selection::Selection as Wanted;
use serde_json::json;

use super::backup::problem;
use super::progress::{Shown, restore_status};
use super::select::{self, FilterArgs};
use super::session::Session;
use super::source::{ExcludeArgs, IncludeArgs};
use super::{dump, output, pipes};
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id, prefix of an id, or "latest"; with ":/folder" only the content of that folder
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = select::selection())]
    snapshot: Option<Selection>,
    /// Directory to restore to; "/" restores to the original paths
    #[arg(short, long, value_name = "DIRECTORY")]
    target: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    include: IncludeArgs,
    #[command(flatten)]
    exclude: ExcludeArgs,
    /// Restore only extended attributes that match; can be repeated
    #[arg(long, value_name = "PATTERN")]
    include_xattr: Vec<String>,
    /// Exclude matching extended attributes; can be repeated
    #[arg(long, value_name = "PATTERN", conflicts_with = "include_xattr")]
    exclude_xattr: Vec<String>,
    /// Delete files in the target that are not in the snapshot
    #[arg(long)]
    delete: bool,
    /// When to overwrite existing files: always, if-changed, if-newer or never
    #[arg(long, value_name = "WHEN", default_value = "always")]
    overwrite: Overwrite,
    /// Write sparse files
    #[arg(long)]
    sparse: bool,
    /// Read all restored files again and compare
    #[arg(long)]
    verify: bool,
    /// Restore owners by name instead of by number
    #[arg(long)]
    ownership_by_name: bool,
    /// Change nothing, show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Without a target, write a stream's file to standard output if that is a pipe. Set under the name `restic`.
    #[arg(skip)]
    pub(crate) pipe_is_target: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    if args.target.is_none() && args.pipe_is_target && pipes::stdout_is_pipe() {
        return dump::stream(session, args.snapshot.as_ref(), &args.filter).await;
    }
    let Some(selection) = args.snapshot.clone() else {
        return Err(CliError::usage("no snapshot is named").help("give an id, the start of one, or latest"));
    };
    let Some(target) = args.target.clone() else {
        return Err(CliError::usage("the directory to restore to is missing").help("give one with --target"));
    };
    let select = selected(session, &args.include, &args.exclude)?;
    let repository = session.open().await?;
    let filter = args.filter.resolve(&session.settings);
    let progress = Arc::new(Progress::default());
    let start = Instant::now();
    let outcome = session
        .reading(&repository, |cancel| async {
            let (found, subfolder) = select::one(&repository, &selection, &filter).await?;
            let options = args.options(session, target, subfolder, select)?;
            announce(session, &found, &args);
            let shown = Shown::start(session, &progress, Some(restore_status));
            let work = restore::restore(&repository, &found.1, options, Arc::clone(&progress), cancel);
            let outcome = work.await;
            shown.stop();
            Ok(outcome?)
        })
        .await?;
    report(session, args.dry_run, &outcome, start.elapsed())
}

fn announce(session: &Session, (id, snapshot): &FoundSnapshot, args: &Args) {
    let target = args.target.as_deref().unwrap_or_else(|| std::path::Path::new("")).display();
    let time = units::moment(&snapshot.time);
    session.say(format!("restoring snapshot {} of {} at {time} to {target}", id.short(), snapshot.hostname));
}

impl Args {
    /// The snapshot that the command of an agent names, if any. The target is standard output.
    pub(crate) fn snapshot_for_an_agent(&self) -> Result<Option<String>, CliError> {
        let has_folder = self.snapshot.as_ref().is_some_and(|selection| selection.subfolder.is_some());
        let given = [
            (self.target.is_some(), "--target"),
            (has_folder, "a folder"),
            (self.include.is_given(), "--include"),
            (self.exclude.is_given(), "--exclude"),
            (self.dry_run, "--dry-run"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            None => Ok(self.snapshot.as_ref().map(|selection| selection.snapshot.to_string())),
            Some((_, name)) => Err(CliError::usage(format!("{name}: not supported in the commands of an agent"))
                .help("write `restic -r {{RepoName}} restore | LOAD`; the snapshot's file is written to standard output")),
        }
    }

    /// Restores a snapshot to a directory, with its paths below it.
    pub(crate) fn whole(snapshot: Selection, target: PathBuf) -> Self {
        Self {
            snapshot: Some(snapshot),
            target: Some(target),
            filter: FilterArgs::default(),
            include: IncludeArgs::default(),
            exclude: ExcludeArgs::default(),
            include_xattr: Vec::new(),
            exclude_xattr: Vec::new(),
            delete: false,
            overwrite: Overwrite::Always,
            sparse: true,
            verify: true,
            ownership_by_name: false,
            dry_run: false,
            pipe_is_target: false,
        }
    }

    fn options(
        &self,
        session: &Session,
        target: PathBuf,
        subfolder: Option<PathBuf>,
        select: Option<restore::Select>,
    ) -> Result<RestoreOptions, CliError> {
        Ok(RestoreOptions {
            target,
            subfolder,
            select,
            select_xattr: self.attributes()?,
            delete_last: false,
            delete: self.delete,
            overwrite: self.overwrite,
            sparse: self.sparse,
            verify: self.verify,
            dry_run: self.dry_run,
            ownership_by_name: self.ownership_by_name,
            notify: notify(session),
            stop_when_full: false,
        })
    }

    fn attributes(&self) -> Result<Option<restore::SelectXattr>, CliError> {
        let (given, keeps) = match (self.include_xattr.as_slice(), self.exclude_xattr.as_slice()) {
            ([], []) => return Ok(None),
            ([], exclude) => (exclude, false),
            (include, _) => (include, true),
        };
        let patterns = Patterns::parse(given.iter().map(String::as_bytes), Case::Matters)?;
        Ok(Some(Arc::new(move |name: &str| patterns.matches(name.as_bytes()) == keeps)))
    }
}

/// What the patterns select; None for everything.
pub(crate) fn selected(
    session: &Session,
    include: &IncludeArgs,
    exclude: &ExcludeArgs,
) -> Result<Option<restore::Select>, CliError> {
    let settings = &session.settings;
    let wanted = match (include.is_given(), exclude.is_given()) {
        (true, true) => {
            return Err(CliError::usage("--include and --exclude cannot be combined").help("use one of them"));
        }
        (true, false) => Wanted::Include(include.patterns(settings)?),
        (false, true) => Wanted::Exclude(exclude.patterns(settings)?),
        (false, false) => return Ok(None),
    };
    Ok(Some(Arc::new(move |path: &[u8], is_directory| {
        let found = wanted.select(path, is_directory);
        restore::Selection { include: found.matched, descend: found.below }
    })))
}

/// Prints every entry with -vv.
pub(crate) fn notify(session: &Session) -> Option<restore::Notify> {
    if session.settings.verbosity < 2 {
        return None;
    }
    let is_json = session.is_json();
    Some(Arc::new(move |event: &Event<'_>| {
        let action = match event.action {
            Action::Restored => "restored",
            Action::Updated => "updated",
            Action::Unchanged => "unchanged",
            Action::Skipped => "skipped",
            Action::Deleted => "deleted",
        };
        let path = event.path.display();
        if is_json {
            let _ = output::line_of_json(&json!({
                "message_type": "verbose_status", "action": action, "item": path.to_string(), "size": event.size,
            }));
        } else {
            output::bars().suspend(|| message!("{action:9} {path}"));
        }
    }))
}

/// Prints what a restore did, and fails if it is incomplete.
pub(crate) fn report(
    session: &Session,
    dry_run: bool,
    outcome: &RestoreOutcome,
    took: Duration,
) -> Result<(), CliError> {
    for found in &outcome.problems {
        problem(session, "restore", &found.path, &found.message);
    }
    output::summary(session, &summary(outcome, took), &summary_text(dry_run, outcome, took))?;
    match outcome.problem_count {
        0 => Ok(()),
        count => Err(CliError::restic(1, format!("the restore is incomplete: {count} problems"))
            .help("they are listed above; everything else was restored")),
    }
}

/// restic's summary; fields that are zero are left out.
fn summary(outcome: &RestoreOutcome, took: Duration) -> serde_json::Value {
    let mut message = json!({"message_type": "summary"});
    for (name, number) in [
        ("seconds_elapsed", took.as_secs()),
        ("total_files", outcome.total_files),
        ("files_restored", outcome.files_restored),
        ("files_skipped", outcome.files_skipped),
        ("files_deleted", outcome.files_deleted),
        ("total_bytes", outcome.total_bytes),
        ("bytes_restored", outcome.bytes_restored),
        ("bytes_skipped", outcome.bytes_skipped),
        ("files_verified", outcome.files_verified.unwrap_or_default()),
    ] {
        if number > 0 {
            message[name] = number.into();
        }
    }
    message
}

fn summary_text(dry_run: bool, outcome: &RestoreOutcome, took: Duration) -> String {
    let did = if dry_run { "Would restore" } else { "Restored" };
    let mut text = format!(
        "{did} {} of {} files and directories ({} of {}) in {}",
        outcome.files_restored,
        outcome.total_files,
        units::bytes(outcome.bytes_restored),
        units::bytes(outcome.total_bytes),
        units::clock(took),
    );
    for (count, effect) in [(outcome.files_skipped, "left unchanged"), (outcome.files_deleted, "deleted")] {
        if count > 0 {
            let _ = write!(text, ", {count} {effect}");
        }
    }
    if let Some(verified) = outcome.files_verified {
        let _ = write!(text, ", {verified} verified");
    }
    text
}
