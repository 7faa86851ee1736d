//! `dump`: a file of a snapshot, or a folder as an archive, to standard output or into a file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lifeboat_repository::Error;
use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::dump::{DumpFormat, dump};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::{Selection, Selector};

use super::select::{self, FilterArgs};
use super::session::Session;
use crate::error::CliError;
use crate::printer::StandardOutput;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id, start of an id, or "latest"; with ":/folder" the path is below that folder
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = select::selection())]
    snapshot: Selection,
    /// File or folder in the snapshot
    #[arg(value_name = "PATH")]
    path: PathBuf,
    #[command(flatten)]
    filter: FilterArgs,
    /// Archive that a folder becomes: tar or zip
    #[arg(short, long, value_name = "FORMAT", default_value = "tar")]
    archive: DumpFormat,
    /// File to write to instead of standard output
    #[arg(short, long, value_name = "FILE")]
    target: Option<PathBuf>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let filter = args.filter.resolve(&session.settings);
    session
        .reading(&repository, |cancel| async {
            let (found, folder) = select::one(&repository, &args.snapshot, &filter).await?;
            let path = below(folder, &args.path);
            let writer: Box<dyn Write + Send> = match &args.target {
                Some(file) => Box::new(File::create(file).map_err(Error::file("create", file))?),
                None => Box::new(StandardOutput),
            };
            Ok(dump(&repository, &found.1, &path, args.archive, writer, cancel).await?)
        })
        .await
}

/// The path below the folder, however it begins.
fn below(folder: Option<PathBuf>, path: &Path) -> PathBuf {
    match folder {
        None => path.to_owned(),
        Some(folder) => folder.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// The short form of the name `restic`: the one file of a stream's snapshot, the latest if none is named, to standard
/// output.
pub(crate) async fn stream(
    session: &Session,
    selection: Option<&Selection>,
    filter: &FilterArgs,
) -> Result<(), CliError> {
    let repository = session.open().await?;
    let filter = filter.resolve(&session.settings);
    let latest = Selection { snapshot: Selector::Latest { back: 0 }, subfolder: None };
    let selection = selection.unwrap_or(&latest);
    session
        .reading(&repository, |cancel| async {
            let ((id, snapshot), _) = select::one(&repository, selection, &filter).await?;
            let Some(name) = stream_name(&repository, &snapshot).await? else {
                let paths = snapshot.paths.join(", ");
                return Err(CliError::usage(format!(
                    "--target is missing: snapshot {} is not of a stream but of {paths}",
                    id.short()
                ))
                .help("give a directory to restore to with --target, or use `dump` for one file"));
            };
            Ok(dump(&repository, &snapshot, &name, DumpFormat::Raw, StandardOutput, cancel).await?)
        })
        .await
}

/// The name of the only file, if the snapshot is of a stream.
async fn stream_name(repository: &Repository, snapshot: &Snapshot) -> Result<Option<PathBuf>, CliError> {
    let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
    Ok(match reader.load_tree(&snapshot.tree).await?.as_slice() {
        [node] if node.is_file() => Some(Path::new("/").join(OsStr::from_bytes(&node.name))),
        _ => None,
    })
}
