//! Files generated from the code: the chart's custom resource definitions and templates, and the reference pages. Used
//! by the example `generate`, which `cargo xtask gen` runs.

mod chart;
mod reference;

use std::collections::BTreeMap;

/// Every generated file, by its path in the repository.
pub fn files() -> BTreeMap<String, String> {
    let mut files = chart::files();
    files.insert("docs/reference/cli.md".to_owned(), reference::cli());
    files.insert("docs/reference/kinds.md".to_owned(), reference::kinds());
    files
}
