//! `backup`: stores paths, standard input or the output of a command as a snapshot. With LIFEBOAT_PREPARED_SNAPSHOT the
//! snapshot is only prepared (see `prepared`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Zoned;
use lifeboat_repository::Error;
use lifeboat_repository::backup::{BackupOptions, BackupOutcome, Parent, Source, backup};
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::{Identity, Repository};
use lifeboat_repository::snapshots::{Filter, GroupBy, Selection, Selector, TagList};
use lifeboat_repository::source::change::ChangeOptions;
use serde_json::json;

use super::pipes::{self, Input};
use super::progress::{Shown, backup_status};
use super::session::Session;
use super::settings::PasswordSource;
use super::source::{self, FilesFromArgs, LeaveOutArgs};
use super::{output, prepared, select};
use crate::error::CliError;
use crate::units;

/// The default name of the file for a stream.
const STDIN: &str = "stdin";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files and directories; with --stdin-from-command the command and its arguments, after "--"
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Back up standard input as one file. The right side of a pipe cannot see whether the left side failed: use
    /// --stdin-from-command, or a prepared snapshot
    #[arg(long, conflicts_with = "stdin_from_command")]
    stdin: bool,
    /// Back up the output of a command as one file; creates a snapshot only if the command exits with 0
    #[arg(long)]
    stdin_from_command: bool,
    /// Name of that file
    #[arg(long, value_name = "NAME", default_value = STDIN)]
    stdin_filename: String,
    /// Accept empty standard input or output of a command
    #[arg(long)]
    allow_empty_input: bool,
    #[command(flatten)]
    files: FilesFromArgs,
    #[command(flatten)]
    leave_out: LeaveOutArgs,
    /// Tags of the snapshot; can be repeated
    #[arg(long = "tag", value_name = "TAG[,TAG…]")]
    tags: Vec<TagList>,
    /// Host of the snapshot (default: $RESTIC_HOST, then this machine's name)
    #[arg(short = 'H', long, value_name = "NAME", alias = "hostname")]
    host: Option<String>,
    /// Time of the snapshot, as in '2026-01-31 12:00:00' (default: now)
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    time: Option<Zoned>,
    /// Parent snapshot, whose unchanged files are not read again (default: the newest of the group)
    #[arg(long, value_name = "SNAPSHOT")]
    parent: Option<Selector>,
    /// How to select the parent: same host, paths, tags; "" for any
    #[arg(short, long, value_name = "host,paths,tags", default_value = "host,paths")]
    group_by: GroupBy,
    /// Read every file, even if it is unchanged since the parent
    #[arg(short, long)]
    force: bool,
    /// Ignore inode number and ctime when comparing with the parent
    #[arg(long)]
    ignore_inode: bool,
    /// Ignore ctime when comparing with the parent
    #[arg(long)]
    ignore_ctime: bool,
    /// Store access times
    #[arg(long)]
    with_atime: bool,
    /// Create no snapshot if nothing changed since the parent
    #[arg(long)]
    skip_if_unchanged: bool,
    /// Change nothing, show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not scan first; progress then has no totals
    #[arg(long)]
    no_scan: bool,
    /// Threads that read, chunk and compress (default: $RESTIC_READ_CONCURRENCY, then one for each core)
    #[arg(long, value_name = "N")]
    read_concurrency: Option<usize>,
    /// Without paths, standard input is the source if it is a pipe. Set under the name `restic`.
    #[arg(skip)]
    pub(crate) pipe_is_source: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let mut session = session.clone();
    session.settings.threads = args.threads(&session)?;
    let preparing = prepared::PreparedFile::of(&session.settings, args.dry_run)?;
    let (source, missing) = args.source(&session)?;
    let repository = session.open().await?;
    let options = args.options(&session, &repository, source).await?;
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(&session, &progress, Some(backup_status));
    let lock = &session.settings.lock;
    let is_prepared = preparing.is_some();
    let outcome = match preparing {
        None => backup(&repository, options, lock, progress, session.interrupted.clone()).await,
        Some(file) => file.prepare(&session, &repository, options, progress).await,
    };
    shown.stop();
    // To the engine, a stream that ends because of a signal looks like a failed read.
    let outcome =
        outcome.map_err(|error| if session.interrupted.is_cancelled() { Error::Cancelled } else { error })?;
    report(&session, &args, &outcome, &missing, is_prepared)
}

impl Args {
    /// Refuses what a task decides that runs the commands of an agent: the source is standard input, and the snapshot's file,
    /// host and tags are the server's.
    pub(crate) fn must_be_of_an_agent(&self) -> Result<(), CliError> {
        let given = [
            (!self.paths.is_empty() && !self.stdin_from_command, "paths"),
            (self.files.is_given(), "--files-from"),
            (self.stdin_from_command, "--stdin-from-command"),
            (self.allow_empty_input, "--allow-empty-input"),
            (self.stdin_filename != STDIN, "--stdin-filename"),
            (!self.tags.is_empty(), "--tag"),
            (self.host.is_some(), "--host"),
            (self.time.is_some(), "--time"),
            (self.parent.is_some(), "--parent"),
            (self.dry_run, "--dry-run"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, name)) => Err(CliError::usage(format!("{name}: not supported in the commands of an agent"))
                .help("write `DUMP | restic -r {{RepoName}} backup`; what is stored, and its name and tags, is decided by the server")),
        }
    }

    fn threads(&self, session: &Session) -> Result<Option<usize>, CliError> {
        let variable = session.settings.variable("RESTIC_READ_CONCURRENCY");
        match (self.read_concurrency, variable) {
            (Some(count), _) => Ok(Some(count.max(1))),
            (None, Some(text)) => text.parse().map(Some).map_err(|_| {
                CliError::usage(format!("RESTIC_READ_CONCURRENCY: '{text}' is not a number"))
                    .help("write it like 4")
            }),
            (None, None) => Ok(None),
        }
    }

    /// The source, and errors for paths that do not exist.
    fn source(&self, session: &Session) -> Result<(Source, Vec<Error>), CliError> {
        let is_stream = self.stdin || self.stdin_from_command;
        if is_stream && self.files.is_given() {
            return Err(CliError::usage("--files-from is for paths, not for a stream")
                .help("leave out --files-from or --stdin"));
        }
        let name = self.stdin_filename.clone();
        if self.stdin_from_command {
            if self.paths.is_empty() {
                return Err(CliError::usage("--stdin-from-command needs a command")
                    .help("write it after two dashes: backup --stdin-from-command -- pg_dump db"));
            }
            return Ok((Source::Command { name, argv: self.paths.clone() }, Vec::new()));
        }
        let without_paths = self.paths.is_empty() && !self.files.is_given();
        let is_piped = self.pipe_is_source && without_paths && pipes::stdin_is_pipe();
        let reads_password = matches!(session.settings.target.password, PasswordSource::Question);
        if (self.stdin || is_piped || self.files.is_stdin()) && reads_password {
            return Err(CliError::usage("the password and the data cannot both come from standard input")
                .help("give the password with --password-file or RESTIC_PASSWORD"));
        }
        if self.stdin && !self.paths.is_empty() {
            let path = self.paths[0].display();
            return Err(CliError::usage(format!("--stdin takes no paths, but '{path}' was given"))
                .help("the name of the file in the snapshot is --stdin-filename"));
        }
        if self.stdin || is_piped {
            return Ok((
                Source::Stream { name, reader: Box::new(Input(session.interrupted.clone())) },
                Vec::new(),
            ));
        }
        let mut paths: Vec<Vec<u8>> = self.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        paths.extend(self.files.paths()?);
        if paths.is_empty() {
            return Err(CliError::usage("there is nothing to back up")
                .help("name files or directories, or use --stdin or --stdin-from-command -- COMMAND"));
        }
        let (found, missing) = source::existing(paths);
        if found.is_empty() {
            let first = missing.first().map(ToString::to_string).unwrap_or_default();
            return Err(CliError::usage(format!("none of the paths can be backed up: {first}")));
        }
        Ok((Source::Paths(found), missing))
    }

    async fn options(
        &self,
        session: &Session,
        repository: &Repository,
        source: Source,
    ) -> Result<BackupOptions, CliError> {
        let settings = &session.settings;
        let host = self.host.clone().or_else(|| settings.variable("RESTIC_HOST").map(str::to_owned));
        let host = host.unwrap_or_else(|| Identity::of_system().host);
        let targets: &[PathBuf] = if let Source::Paths(paths) = &source { paths } else { &[] };
        let mut filter = self.leave_out.filter(settings, targets)?;
        if let Some(cache) = &repository.options().cache {
            filter.own_directories.push(cache.as_os_str().as_bytes().to_vec());
        }
        let parent = match &self.parent {
            _ if self.force => Parent::None,
            None => Parent::Newest(self.group_by),
            Some(selector) => {
                let selection = Selection { snapshot: selector.clone(), subfolder: None };
                Parent::Given(select::one(repository, &selection, &Filter::default()).await?.0.0)
            }
        };
        let mut options = BackupOptions::new(source, host);
        options.tags =
            self.tags.iter().flat_map(|list| &list.0).filter(|tag| !tag.is_empty()).cloned().collect();
        options.time.clone_from(&self.time);
        options.parent = parent;
        options.filter = filter;
        let excludes = self.leave_out.patterns.exclude.iter();
        options.excludes = excludes.map(|pattern| pattern.to_string_lossy().into_owned()).collect();
        options.change = ChangeOptions { ignore_ctime: self.ignore_ctime, ignore_inode: self.ignore_inode };
        options.metadata.with_atime = self.with_atime;
        options.allow_empty = self.allow_empty_input;
        options.skip_if_unchanged = self.skip_if_unchanged;
        options.dry_run = self.dry_run;
        options.scan = !self.no_scan && Shown::is_wanted(session);
        Ok(options)
    }
}

/// Prints the result. If any item is missing from the snapshot, the backup is incomplete (exit code 3).
fn report(
    session: &Session,
    args: &Args,
    outcome: &BackupOutcome,
    missing: &[Error],
    is_prepared: bool,
) -> Result<(), CliError> {
    for error in missing {
        problem(session, "scan", "", &CliError::text_of(error));
    }
    for found in &outcome.unreadable {
        problem(session, "archival", &found.path, &found.message);
    }
    for path in &outcome.changed_while_read {
        session.say(format!("changed while it was read: {path}"));
    }
    let (unreadable, changed) = (outcome.unreadable.len() as u64, outcome.changed_while_read.len() as u64);
    if outcome.unreadable_count > unreadable {
        let more = outcome.unreadable_count - unreadable;
        problem(session, "archival", "", &format!("{more} more files could not be read"));
    }
    if outcome.changed_count > changed {
        session.say(format!("{} more files changed while they were read", outcome.changed_count - changed));
    }
    let (message, text) = (summary(args, outcome), summary_text(args, outcome, is_prepared));
    output::summary(session, &message, &text)?;
    let lacking = missing.len() as u64 + outcome.unreadable_count;
    if lacking == 0 {
        return Ok(());
    }
    Err(CliError::restic(3, format!("the backup is incomplete: {lacking} items could not be read"))
        .help("they are listed above; the snapshot contains everything else"))
}

/// Reports on standard error one item that could not be backed up or restored.
pub(crate) fn problem(session: &Session, during: &str, item: &str, message: &str) {
    if session.is_json() {
        let line =
            json!({"message_type": "error", "error": {"message": message}, "during": during, "item": item});
        message!("{line}");
    } else if item.is_empty() {
        message!("error: {message}");
    } else {
        message!("error: {item}: {message}");
    }
}

fn summary(args: &Args, outcome: &BackupOutcome) -> serde_json::Value {
    let mut message = json!({"message_type": "summary"});
    if let Some(summary) = &outcome.snapshot.summary
        && let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(summary)
        && let Some(all) = message.as_object_mut()
    {
        all.extend(fields);
    }
    message["total_duration"] = outcome.duration.as_secs_f64().into();
    if let Some(id) = outcome.snapshot_id {
        message["snapshot_id"] = id.to_string().into();
    }
    if args.dry_run {
        message["dry_run"] = true.into();
    }
    if !outcome.changed_while_read.is_empty() {
        message["changed_while_read"] = json!(outcome.changed_while_read);
    }
    message
}

fn summary_text(args: &Args, outcome: &BackupOutcome, is_prepared: bool) -> String {
    let counts = outcome.snapshot.summary.as_ref().map(|summary| summary.counts).unwrap_or_default();
    let would = if args.dry_run { "Would add" } else { "Added" };
    let end = match outcome.snapshot_id {
        Some(id) => format!("snapshot {} saved", id.short()),
        None if args.dry_run => "dry run: nothing was written".to_owned(),
        None if is_prepared => "snapshot prepared, not written yet".to_owned(),
        None => "nothing changed: no snapshot written".to_owned(),
    };
    format!(
        "Files:       {:>5} new, {:>5} changed, {:>5} unmodified\n\
         Dirs:        {:>5} new, {:>5} changed, {:>5} unmodified\n\
         {would} to the repository: {} ({} stored)\n\n\
         processed {} files, {} in {}\n{end}",
        counts.files_new,
        counts.files_changed,
        counts.files_unmodified,
        counts.dirs_new,
        counts.dirs_changed,
        counts.dirs_unmodified,
        units::bytes(counts.data_added),
        units::bytes(counts.data_added_packed),
        counts.total_files_processed,
        units::bytes(counts.total_bytes_processed),
        units::clock(outcome.duration),
    )
}
