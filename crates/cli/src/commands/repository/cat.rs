//! `cat`: an object's content, for experts.

use std::io::Write;
use std::sync::Arc;

use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::files::FileKind;
use lifeboat_repository::id::{BlobId, BlobKind, Id};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::{Filter, Selection};
use serde_json::json;

use super::select;
use super::session::Session;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to print
    #[arg(value_enum)]
    kind: Kind,
    /// Its id; a snapshot for "snapshot" and "tree", as in latest:/srv
    #[arg(value_name = "ID")]
    id: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Config,
    Masterkey,
    Key,
    Lock,
    Snapshot,
    Index,
    Pack,
    Blob,
    Tree,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let needs_id = !matches!(args.kind, Kind::Config | Kind::Masterkey);
    if needs_id && args.id.is_none() {
        return Err(CliError::usage("cat needs an id").help("`list` shows the ids of a kind"));
    }
    let repository = session.open().await?;
    let id = args.id.unwrap_or_default();
    session.reading(&repository, |_| print(&repository, args.kind, &id)).await
}

async fn print(repository: &Repository, kind: Kind, id: &str) -> Result<(), CliError> {
    match kind {
        Kind::Config => {
            let config = repository.config();
            let polynomial = format!("{:x}", config.chunker_polynomial);
            json_text(&json!({
                "version": config.version.number(), "id": config.id, "chunker_polynomial": polynomial,
            }))
        }
        Kind::Masterkey => json_text(repository.key().material()),
        Kind::Snapshot => json_text(&select::one(repository, &id.parse()?, &Filter::default()).await?.0.1),
        Kind::Key => text_as_json(&raw(repository, FileKind::Key, id).await?),
        Kind::Lock => text_as_json(&file(repository, FileKind::Lock, id).await?),
        Kind::Index => text_as_json(&file(repository, FileKind::Index, id).await?),
        Kind::Pack => bytes(&raw(repository, FileKind::Pack, id).await?),
        Kind::Blob => blob(repository, BlobId(parse(id)?)).await,
        Kind::Tree => tree(repository, &id.parse()?).await,
    }
}

async fn blob(repository: &Repository, id: BlobId) -> Result<(), CliError> {
    let index = Arc::new(repository.load_index().await?);
    for kind in [BlobKind::Data, BlobKind::Tree] {
        if index.has(kind, &id)? {
            return bytes(&BlobReader::new(repository, index).load(kind, &id).await?);
        }
    }
    Err(CliError::usage(format!("there is no blob {id} in the index")))
}

async fn tree(repository: &Repository, selection: &Selection) -> Result<(), CliError> {
    let (found, subfolder) = select::one(repository, selection, &Filter::default()).await?;
    let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
    let mut id = found.1.tree;
    for name in subfolder.iter().flat_map(|path| path.split('/')).filter(|part| !part.is_empty()) {
        let nodes = reader.load_tree(&id).await?;
        let node = nodes.into_iter().find(|node| node.name == name.as_bytes());
        id = node.and_then(|node| node.subtree).ok_or_else(|| {
            CliError::usage(format!("there is no directory '{name}' on the way to '{}'", subfolder.as_deref().unwrap_or_default()))
        })?;
    }
    bytes(&reader.load(BlobKind::Tree, &id).await?)
}

async fn file(repository: &Repository, kind: FileKind, id: &str) -> Result<Vec<u8>, CliError> {
    Ok(repository.load_file(kind, parse(id)?).await?)
}

async fn raw(repository: &Repository, kind: FileKind, id: &str) -> Result<Vec<u8>, CliError> {
    let id = parse(id)?;
    let content = repository.load_raw(kind, id).await?;
    if Id::of(&content) != id {
        eprintln!("warning: the content of {} does not match its name", kind.describe(id));
    }
    Ok(content.into())
}

fn parse(id: &str) -> Result<Id, CliError> {
    id.parse().map_err(|error| CliError::failed(format!("cannot use '{id}' as an id"), error).help("give all 64 digits"))
}

fn json_text(value: &impl serde::Serialize) -> Result<(), CliError> {
    printer::line(&printer::json(value)?);
    Ok(())
}

fn text_as_json(content: &[u8]) -> Result<(), CliError> {
    let value: serde_json::Value =
        serde_json::from_slice(content).map_err(|error| CliError::failed("cannot read the object as JSON", error))?;
    json_text(&value)
}

fn bytes(content: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(content).and_then(|()| out.flush());
    written.map_err(|error| CliError::failed("cannot write to standard output", error))
}
