//! Printing data: tables for people, JSON and YAML for machines. A reader that goes away (`lifeboat crds | head`) ends the
//! program quietly; a command that holds a lock is told instead, so that it can give it back.

use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use comfy_table::{Table, presets};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::Output;
use crate::error::CliError;

/// Cancelled when the reader of standard output goes away.
static READER_GONE: OnceLock<[CancellationToken; 2]> = OnceLock::new();

/// From now on a reader that goes away cancels these tokens instead of ending the program.
pub(crate) fn tell_when_reader_goes(tokens: [CancellationToken; 2]) {
    let _ = READER_GONE.set(tokens);
}

/// Prints one value; a table has to be made by the caller.
pub(crate) fn print<T: Serialize>(
    output: Output,
    value: &T,
    table: impl FnOnce() -> Table,
) -> Result<(), CliError> {
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
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => match READER_GONE.get() {
            Some(tokens) => tokens.iter().for_each(CancellationToken::cancel),
            None => std::process::exit(0),
        },
        Err(error) => {
            eprintln!("cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}

/// A table in kubectl's manner: headings, columns, no lines.
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

pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map_err(|error| CliError::failed("cannot write JSON", error))
}

pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, CliError> {
    // Through JSON first: both outputs then show the same fields in the same order.
    let value = serde_json::to_value(value).map_err(|error| CliError::failed("cannot write YAML", error))?;
    serde_saphyr::to_string(&value).map_err(|error| CliError::failed("cannot write YAML", error))
}

/// Several objects as one, as kubectl prints them.
pub(crate) fn list<T: Serialize>(items: &[T]) -> serde_json::Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Several YAML documents, as `kubectl apply -f` takes them.
pub(crate) fn documents<T: Serialize>(values: &[T]) -> Result<String, CliError> {
    let mut all = String::new();
    for value in values {
        all.push_str("---\n");
        all.push_str(&yaml(value)?);
    }
    Ok(all)
}
