//! `dump`: a file of a snapshot, or a folder as an archive, to standard output or into a file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use lifeboat_repository::repository::Repository;
use lifeboat_repository::restore::{DumpFormat, dump};
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::{Selection, Selector};

use super::select::{self, FilterArgs};
use super::session::Session;
use super::walk;
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id, start of an id, or "latest"; with ":/folder" the path is below that folder
    #[arg(value_name = "SNAPSHOT[:FOLDER]")]
    snapshot: Selection,
    /// File or folder in the snapshot
    #[arg(value_name = "PATH")]
    path: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// Archive that a folder becomes: tar or zip
    #[arg(short, long, value_name = "FORMAT", default_value = "tar", value_parser = format)]
    archive: DumpFormat,
    /// File to write to instead of standard output
    #[arg(short, long, value_name = "FILE")]
    target: Option<PathBuf>,
}
