//! `list KIND`: prints the ids of all objects of a kind, one per line.

use lifeboat_repository::files::FileKind;
use lifeboat_repository::repository::Repository;

use super::output;
use super::session::Session;
use crate::args::Output;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to list
    #[arg(value_enum)]
    kind: Kind,
    /// Print lines even with --json. Set under the name `restic`.
    #[arg(skip)]
    pub(crate) always_lines: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Blobs,
    Packs,
    Index,
    Snapshots,
    Keys,
    Locks,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let output = if args.always_lines { Output::Table } else { session.settings.output };
    let listing = |_| async {
        match file_kind(args.kind) {
            Some(kind) => ids(output, &repository, kind).await,
            None => blobs(&repository).await,
        }
    };
    // Listing locks must not create one.
    if args.kind == Kind::Locks {
        return session.interruptible(ids(output, &repository, FileKind::Lock)).await;
    }
    session.reading(&repository, listing).await
}

fn file_kind(kind: Kind) -> Option<FileKind> {
    match kind {
        Kind::Blobs => None,
        Kind::Packs => Some(FileKind::Pack),
        Kind::Index => Some(FileKind::Index),
        Kind::Snapshots => Some(FileKind::Snapshot),
        Kind::Keys => Some(FileKind::Key),
        Kind::Locks => Some(FileKind::Lock),
    }
}

async fn ids(output: Output, repository: &Repository, kind: FileKind) -> Result<(), CliError> {
    let ids: Vec<String> = repository.list(kind).await?.iter().map(|file| file.id.to_string()).collect();
    match output {
        Output::Table => ids.iter().for_each(|id| printer::line(id)),
        Output::Json => output::line_of_json(&ids)?,
        Output::Yaml => printer::text(&printer::yaml(&ids)?),
    }
    Ok(())
}

/// Prints blobs while the indexes are read, because there may be millions.
async fn blobs(repository: &Repository) -> Result<(), CliError> {
    let index = repository.load_index().await?;
    let mut lines = String::new();
    index.for_each(&mut |entry| {
        use std::fmt::Write;
        let _ = writeln!(lines, "{} {}", entry.kind, entry.id);
        if lines.len() > 1 << 16 {
            printer::text(&lines);
            lines.clear();
        }
        Ok(())
    })?;
    printer::text(&lines);
    Ok(())
}
