//! `cat`: prints the content of an object, for debugging.

use std::io::Write;

use lifeboat_repository::cat::{Content, Object, cat};
use lifeboat_repository::id::{BlobId, Id, IndexId, KeyId, LockId, PackId};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::Filter;

use super::select;
use super::session::Session;
use crate::error::CliError;
use crate::printer::{self, StandardOutput};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to print
    #[arg(value_enum)]
    kind: Kind,
    /// Id of the object; a snapshot for "snapshot" and "tree", as in latest:/srv
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
    let object = session.interruptible(object(&repository, args.kind, &id)).await?;
    let reading = cat(&repository, &object, session.lock_for_reading());
    match session.interruptible(async { Ok(reading.await?) }).await? {
        Content::Text(text) => {
            printer::line(&text);
            Ok(())
        }
        Content::Bytes(content) => bytes(&content),
        Content::DamagedPack { content, hash } => {
            message!("warning: the content does not match its name, its hash is {hash}");
            bytes(&content)
        }
    }
}

async fn object(repository: &Repository, kind: Kind, id: &str) -> Result<Object, CliError> {
    Ok(match kind {
        Kind::Config => Object::Config,
        Kind::Masterkey => Object::MasterKey,
        Kind::Key => Object::Key(KeyId(parse(id)?)),
        Kind::Lock => Object::Lock(LockId(parse(id)?)),
        Kind::Index => Object::Index(IndexId(parse(id)?)),
        Kind::Pack => Object::Pack(PackId(parse(id)?)),
        Kind::Blob => Object::Blob(BlobId(parse(id)?)),
        Kind::Snapshot => {
            Object::Snapshot(select::one(repository, &id.parse()?, &Filter::default()).await?.0.0)
        }
        Kind::Tree => {
            let (found, subfolder) = select::one(repository, &id.parse()?, &Filter::default()).await?;
            Object::Tree { snapshot: found.0, subfolder }
        }
    })
}

fn parse(id: &str) -> Result<Id, CliError> {
    id.parse().map_err(|error| {
        CliError::failed(format!("cannot use '{id}' as an id"), error).help("give the full id of 64 digits")
    })
}

fn bytes(content: &[u8]) -> Result<(), CliError> {
    let written = StandardOutput.write_all(content).and_then(|()| StandardOutput.flush());
    written.map_err(|error| CliError::failed("cannot write to standard output", error))
}
