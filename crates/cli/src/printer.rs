//! Prints data: tables, JSON and YAML. If the reader closes the pipe (`lifeboat crds | head`), the program ends without
//! an error message; any other failed write ends it with exit code 1. For a command that holds a lock, a failed write
//! cancels a token instead, so that the lock can be released.

use std::io::{Error, ErrorKind, Result, Write};
use std::sync::OnceLock;

use comfy_table::{Table, presets};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::{Format, Output};
use crate::error::CliError;

/// Cancelled when standard output can no longer be written.
static STOP: OnceLock<CancellationToken> = OnceLock::new();
/// The first write that failed after `stop_on_failure` was called.
static FAILURE: OnceLock<Error> = OnceLock::new();

/// From now on a failed write cancels this token instead of ending the program.
pub(crate) fn stop_on_failure(token: CancellationToken) {
    let _ = STOP.set(token);
}

/// The error for which standard output can no longer be written.
pub(crate) fn failure() -> Option<&'static Error> {
    FAILURE.get()
}

/// Prints one value; the caller makes the table.
pub(crate) fn print<T: Serialize>(
    output: Output,
    value: &T,
    table: impl FnOnce() -> Table,
) -> std::result::Result<(), CliError> {
    match output {
        Output::Table => line(&table().trim_fmt()),
        Output::Json => line(&json(value)?),
        Output::Yaml => text(&yaml(value)?),
    }
    Ok(())
}

/// Prints a line on standard output.
pub(crate) fn line(text: &str) {
    self::text(&format!("{text}\n"));
}

/// Prints on standard output.
pub(crate) fn text(text: &str) {
    bytes(text.as_bytes());
}

/// Prints bytes that need not be UTF-8, such as names of files.
pub(crate) fn bytes(bytes: &[u8]) {
    let Err(error) = StandardOutput.write_all(bytes).and_then(|()| StandardOutput.flush()) else { return };
    if STOP.get().is_some() {
        return;
    }
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    eprintln!("cannot write to standard output: {error}");
    std::process::exit(1);
}

/// Standard output as a writer. Its first error is kept for `failure`.
pub(crate) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if let Some(error) = FAILURE.get() {
            return Err(error.kind().into());
        }
        std::io::stdout().write(bytes).map_err(noticed)
    }

    fn flush(&mut self) -> Result<()> {
        std::io::stdout().flush().map_err(noticed)
    }
}

fn noticed(error: Error) -> Error {
    let Some(stop) = STOP.get().filter(|_| error.kind() != ErrorKind::Interrupted) else { return error };
    let same = error.raw_os_error().map_or_else(|| error.kind().into(), Error::from_raw_os_error);
    let _ = FAILURE.set(error);
    stop.cancel();
    same
}

/// A table in kubectl's style: headings and columns, no lines.
pub(crate) fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table
}

/// Prints an object instead of creating it.
pub(crate) fn object<T: Serialize>(object: &T, format: Format) -> std::result::Result<(), CliError> {
    match format {
        Format::Json => line(&json(object)?),
        Format::Yaml => text(&yaml(object)?),
    }
    Ok(())
}

pub(crate) fn json<T: Serialize>(value: &T) -> std::result::Result<String, CliError> {
    serde_json::to_string_pretty(value).map_err(|error| CliError::failed("cannot write JSON", error))
}

pub(crate) fn yaml<T: Serialize>(value: &T) -> std::result::Result<String, CliError> {
    // Converted to JSON first, so that both formats have the same fields in the same order.
    let value = serde_json::to_value(value).map_err(|error| CliError::failed("cannot write YAML", error))?;
    serde_saphyr::to_string(&value).map_err(|error| CliError::failed("cannot write YAML", error))
}

/// Several objects as a list, as kubectl prints them.
pub(crate) fn list<T: Serialize>(items: &[T]) -> serde_json::Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Several YAML documents, as `kubectl apply -f` accepts them.
pub(crate) fn documents<T: Serialize>(values: &[T]) -> std::result::Result<String, CliError> {
    let mut all = String::new();
    for value in values {
        all.push_str("---\n");
        all.push_str(&yaml(value)?);
    }
    Ok(all)
}
