//! `dump`: writes a file of a snapshot, or a folder as an archive, to standard output or into a file.

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
use lifeboat_repository::snapshots::{Filter, Selection, Selector};

use super::select::{self, FilterArgs};
use super::session::Session;
use crate::error::CliError;
use crate::printer::StandardOutput;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id, prefix of an id, or "latest"; with ":/folder" the path is relative to that folder
    #[arg(value_name = "SNAPSHOT[:FOLDER]", value_parser = select::selection())]
    snapshot: Selection,
    /// File or folder in the snapshot
    #[arg(value_name = "PATH")]
    path: PathBuf,
    #[command(flatten)]
    filter: FilterArgs,
    /// Archive format of a folder: tar or zip
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

/// The path below the folder, whether or not it begins with "/".
fn below(folder: Option<PathBuf>, path: &Path) -> PathBuf {
    match folder {
        None => path.to_owned(),
        Some(folder) => folder.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// The short form under the name `restic`: writes the only file of a stream's snapshot to standard output. Without a
/// snapshot it is the latest one of a stream.
pub(crate) async fn stream(
    session: &Session,
    selection: Option<&Selection>,
    filter: &FilterArgs,
) -> Result<(), CliError> {
    let repository = session.open().await?;
    let filter = filter.resolve(&session.settings);
    session
        .reading(&repository, |cancel| async {
            let reader = BlobReader::new(&repository, Arc::new(repository.load_index().await?));
            let (snapshot, name) = match selection {
                Some(selection) => named_stream(&repository, &reader, selection, &filter).await?,
                None => latest_stream(&repository, &reader, &filter).await?,
            };
            Ok(dump(&repository, &snapshot, &name, DumpFormat::Raw, StandardOutput, cancel).await?)
        })
        .await
}

const NO_STREAM: &str = "give a directory to restore to with --target, or use `dump` for one file";

async fn named_stream(
    repository: &Repository,
    reader: &BlobReader,
    selection: &Selection,
    filter: &Filter,
) -> Result<(Snapshot, PathBuf), CliError> {
    let ((id, snapshot), _) = select::one(repository, selection, filter).await?;
    let Some(name) = stream_name(reader, &snapshot).await? else {
        let (id, paths) = (id.short(), snapshot.paths.join(", "));
        let message = format!("--target is missing: snapshot {id} is not a stream, it contains {paths}");
        return Err(CliError::usage(message).help(NO_STREAM));
    };
    Ok((snapshot, name))
}

/// Newer snapshots may be of files, or damaged; both are skipped.
async fn latest_stream(
    repository: &Repository,
    reader: &BlobReader,
    filter: &Filter,
) -> Result<(Snapshot, PathBuf), CliError> {
    let all = repository.load_readable_snapshots().await?;
    all.find(&Selector::Latest { back: 0 }, filter)?;
    for (_, snapshot) in all.find_all(&[], filter)?.into_iter().rev() {
        if let Some(name) = stream_name(reader, snapshot).await? {
            return Ok((snapshot.clone(), name));
        }
    }
    Err(CliError::usage("--target is missing: no snapshot in this repository is a stream").help(NO_STREAM))
}

/// The path of the only file if the snapshot is of a stream: a chain of directories with one entry, ending in a file
/// without an inode, because it was never on a disk.
async fn stream_name(reader: &BlobReader, snapshot: &Snapshot) -> Result<Option<PathBuf>, CliError> {
    /// Deeper than any name that a stream can have.
    const DEEPEST: usize = 2048;
    let mut path = PathBuf::from("/");
    let mut tree = snapshot.tree;
    for _ in 0..DEEPEST {
        let nodes = reader.load_tree(&tree).await?;
        let [node] = nodes.as_slice() else { return Ok(None) };
        path.push(OsStr::from_bytes(&node.name));
        match node.subtree {
            None if node.is_file() && node.inode == 0 => return Ok(Some(path)),
            Some(below) => tree = below,
            None => return Ok(None),
        }
    }
    Ok(None)
}
