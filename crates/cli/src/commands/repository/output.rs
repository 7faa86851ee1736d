//! Output of repository commands: restic's JSON on one line, values in the chosen format, errors, and the log.

use std::io::Write;
use std::sync::OnceLock;

use comfy_table::Table;
use indicatif::MultiProgress;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::FoundSnapshot;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use super::session::Session;
use super::settings::Settings;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::units;

/// A snapshot in restic's JSON format for lists.
#[derive(Serialize)]
pub(crate) struct ShownSnapshot<'a> {
    #[serde(flatten)]
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) id: SnapshotId,
    pub(crate) short_id: String,
}

impl<'a> From<&'a FoundSnapshot> for ShownSnapshot<'a> {
    fn from((id, snapshot): &'a FoundSnapshot) -> Self {
        Self { snapshot, id: *id, short_id: id.short() }
    }
}

/// Prints a value in the chosen format. JSON is on one line, as restic prints it.
pub(crate) fn value<T: Serialize>(
    session: &Session,
    value: &T,
    table: impl FnOnce() -> Table,
) -> Result<(), CliError> {
    match session.settings.output {
        Output::Json => line_of_json(value),
        other => printer::print(other, value, table),
    }
}

/// Prints one message of a stream of JSON messages.
pub(crate) fn line_of_json<T: Serialize>(value: &T) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(|error| CliError::failed("cannot write JSON", error))?;
    bars().suspend(|| printer::line(&text));
    Ok(())
}

/// Prints the value as JSON or YAML, or the text.
pub(crate) fn summary<T: Serialize>(session: &Session, value: &T, text: &str) -> Result<(), CliError> {
    match session.settings.output {
        Output::Json => line_of_json(value)?,
        Output::Yaml => printer::text(&printer::yaml(value)?),
        Output::Table if session.settings.quiet || text.is_empty() => {}
        Output::Table => printer::line(text),
    }
    Ok(())
}

/// A table of snapshots, oldest first.
pub(crate) fn snapshot_table(snapshots: &[FoundSnapshot], compact: bool) -> Table {
    let sizes = snapshots.iter().any(|(_, snapshot)| snapshot.summary.is_some());
    let mut headings = vec!["ID", "TIME", "HOST", "TAGS"];
    if !compact {
        headings.push("PATHS");
    }
    if sizes {
        headings.push("SIZE");
    }
    let mut sorted: Vec<&FoundSnapshot> = snapshots.iter().collect();
    sorted.sort_by_key(|(id, snapshot)| (snapshot.time.timestamp(), *id));
    let rows = sorted.into_iter().map(|(id, snapshot)| {
        let tags = snapshot.tags.join(",");
        let mut row = vec![id.short(), units::moment(&snapshot.time), snapshot.hostname.clone(), tags];
        if !compact {
            row.push(snapshot.paths.join("\n"));
        }
        if sizes {
            let size = snapshot.summary.as_ref().map(|summary| summary.counts.total_bytes_processed);
            row.push(size.map(units::bytes).unwrap_or_default());
        }
        row
    });
    printer::table(&headings, rows)
}

/// Prints the error that a command failed with on standard error.
pub(crate) fn exit_error(error: &CliError) {
    let message = serde_json::json!({
        "message_type": "exit_error", "code": error.code(), "message": error.full_text(),
    });
    message!("{message}");
}

/// The progress bars of the process. Everything printed while they are shown goes through `suspend`.
pub(crate) fn bars() -> &'static MultiProgress {
    static BARS: OnceLock<MultiProgress> = OnceLock::new();
    BARS.get_or_init(MultiProgress::new)
}

/// Starts the engine's log: warnings, with -v also what it does. Problems of single files are reported at the end.
pub(crate) fn start_log(settings: &Settings) {
    let level = match (settings.quiet, settings.verbosity) {
        (true, _) => "error",
        (false, 0) => "warn,lifeboat_repository::backup=error,lifeboat_repository::restore=error",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let filter = settings.variable("LIFEBOAT_LOG").unwrap_or(level);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| BesideBars).with_ansi(false);
    // Tests start the log several times in one process; the first one stays.
    let _ = log.without_time().with_target(false).try_init();
}

struct BesideBars;

impl Write for BesideBars {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        bars().suspend(|| std::io::stderr().write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
