//! Selecting snapshots: by ID, the start of one, or `latest` with filters.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use jiff::Zoned;
use lifeboat_kopia::Filter;
use lifeboat_repository::node::NodeTime;

use crate::error::CliError;
use crate::units;

/// The filters of a command that takes one snapshot; they apply to `latest`.
#[derive(clap::Args, Clone, Default)]
pub(super) struct FilterArgs {
    /// Only snapshots of this host
    #[arg(short = 'H', long, value_name = "NAME")]
    host: Option<String>,
    /// Only snapshots of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only snapshots of this path
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only snapshots with this tag; if repeated, with all of them
    #[arg(long = "tag", value_name = "KEY[:VALUE]")]
    tags: Vec<String>,
    /// Only snapshots that were started at or before this time, as in '2026-01-31 12:00:00'
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    until: Option<Zoned>,
    /// Also incomplete snapshots: checkpoints of an upload that ran or was stopped
    #[arg(long)]
    incomplete: bool,
}

impl FilterArgs {
    pub(super) fn resolve(&self) -> Filter {
        let time = |time: &Zoned| {
            let time = time.timestamp();
            NodeTime::new(time.as_second(), u32::try_from(time.subsec_nanosecond()).unwrap_or(0))
        };
        Filter {
            host: self.host.clone(),
            user: self.user.clone(),
            path: self.path.clone(),
            tags: self.tags.clone(),
            until: self.until.as_ref().map(time),
            incomplete: self.incomplete,
        }
    }
}

/// A snapshot, and a folder in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) name: String,
    pub(super) folder: Option<PathBuf>,
}

/// Parses `SNAPSHOT[:FOLDER]`.
pub(super) fn selection() -> impl TypedValueParser<Value = Selection> {
    OsStringValueParser::new().try_map(parse)
}

fn parse(text: OsString) -> Result<Selection, CliError> {
    let text = text.into_string().map_err(|_| CliError::usage("the name of the snapshot is not UTF-8"))?;
    Ok(match text.split_once(':') {
        Some((name, folder)) => Selection { name: name.to_owned(), folder: Some(folder.into()) },
        None => Selection { name: text, folder: None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_follows_the_first_colon() {
        let one = parse("latest:/etc/a:b".into()).unwrap();
        assert_eq!((one.name.as_str(), one.folder), ("latest", Some("/etc/a:b".into())));
        assert_eq!(parse("1a2b".into()).unwrap().folder, None);
    }
}
