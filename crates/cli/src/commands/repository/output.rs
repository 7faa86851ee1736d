//! What repository commands print: restic's JSON in one line, values in the chosen format, errors, and the log.

use std::io::Write;
use std::sync::OnceLock;

use comfy_table::Table;
use indicatif::MultiProgress;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::Found;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use super::session::Session;
use super::settings::Settings;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::units;

/// A snapshot as restic's JSON shows it in lists.
#[derive(Serialize)]
pub(crate) struct ShownSnapshot<'a> {
    #[serde(flatten)]
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) id: SnapshotId,
    pub(crate) short_id: String,
}

impl<'a> From<&'a Found> for ShownSnapshot<'a> {
    fn from((id, snapshot): &'a Found) -> Self {
        Self { snapshot, id: *id, short_id: id.short() }
    }
}

/// A value in the chosen format. JSON is one line, as restic prints it.
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

/// One message of a stream of messages.
pub(crate) fn line_of_json<T: Serialize>(value: &T) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(|error| CliError::failed("cannot write JSON", error))?;
    bars().suspend(|| printer::line(&text));
    Ok(())
}

/// A value for machines in JSON or YAML, a text for people.
pub(crate) fn summary<T: Serialize>(session: &Session, value: &T, text: &str) -> Result<(), CliError> {
    match session.settings.output {
        Output::Json => line_of_json(value)?,
        Output::Yaml => printer::text(&printer::yaml(value)?),
        Output::Table if session.settings.quiet || text.is_empty() => {}
        Output::Table => printer::line(text),
    }
    Ok(())
}

/// Snapshots for people, oldest first.
pub(crate) fn snapshot_table(snapshots: &[Found], compact: bool) -> Table {
    let sizes = snapshots.iter().any(|(_, snapshot)| snapshot.summary.is_some());
    let mut headings = vec!["ID", "TIME", "HOST", "TAGS"];
    if !compact {
        headings.push("PATHS");
    }
    if sizes {
        headings.push("SIZE");
    }
    let mut sorted: Vec<&Found> = snapshots.iter().collect();
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

/// The end of a command that failed, on standard error.
pub(crate) fn exit_error(error: &CliError) {
    let message = serde_json::json!({
        "message_type": "exit_error", "code": error.code(), "message": error.full_text(),
    });
    tell!("{message}");
}

/// The progress bars of the process. What is printed beside them goes through `suspend`.
pub(crate) fn bars() -> &'static MultiProgress {
    static BARS: OnceLock<MultiProgress> = OnceLock::new();
    BARS.get_or_init(MultiProgress::new)
}

/// The engine's own words: warnings, with -v also what it does. Problems of single files are reported at the end.
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
    // A second start in one process (tests) keeps the first.
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
