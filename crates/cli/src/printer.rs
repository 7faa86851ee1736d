//! Printing data: tables for people, JSON and YAML for machines.

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::args::Output;
use crate::error::CliError;

/// Prints one value; a table has to be made by the caller.
pub(crate) fn print<T: Serialize>(
    output: Output,
    value: &T,
    table: impl FnOnce() -> Table,
) -> Result<(), CliError> {
    match output {
        Output::Table => println!("{}", table().trim_fmt()),
        Output::Json => println!("{}", json(value)?),
        Output::Yaml => print!("{}", yaml(value)?),
    }
    Ok(())
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

/// Several YAML documents, as `kubectl apply -f` takes them.
pub(crate) fn documents<T: Serialize>(values: &[T]) -> Result<String, CliError> {
    let mut text = String::new();
    for value in values {
        text.push_str("---\n");
        text.push_str(&yaml(value)?);
    }
    Ok(text)
}
