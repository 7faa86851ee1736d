//! A look into a repository: its ID, its snapshots and, where wanted, its size. Little of it is kept: the server looks at many.

use lifeboat_mover::report::SnapshotLine;
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_repository::files::FileKind;
use lifeboat_repository::repository::Repository as OpenRepository;
use lifeboat_repository::snapshots::Found;
use lifeboat_transfer::repositories::{Access, RepositoryProblem};
use tokio::sync::Semaphore;

use crate::context::Context;

/// Opening a repository takes a second of work and 64 MB, so few are opened at once.
static OPENINGS: Semaphore = Semaphore::const_new(2);

/// What a look found, in the server or by a mover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// The ID of the restic repository.
    pub(crate) id: String,
    pub(crate) snapshots: Vec<SnapshotFacts>,
    /// The size of its packs, if they were counted.
    pub(crate) bytes: Option<u64>,
}

/// Opens a repository that exists, and makes sure that it still does: what was opened once may be gone.
pub(super) async fn open(context: &Context, access: &Access) -> Result<OpenRepository, RepositoryProblem> {
    let _turn = OPENINGS.acquire().await;
    let repository = context.repositories.open(access).await?;
    let there = repository.store().exists("config").await;
    if there.map_err(lifeboat_repository::Error::store("look for the repository"))? {
        return Ok(repository);
    }
    context.repositories.close(&access.key);
    Err(lifeboat_repository::Error::NoRepository { location: access.identifier.clone() }.into())
}

/// Looks into a repository that exists.
pub(super) async fn look(
    context: &Context,
    access: &Access,
    with_size: bool,
) -> Result<Looked, RepositoryProblem> {
    let repository = open(context, access).await?;
    let found = repository.load_readable_snapshots().await?.found;
    let bytes = if with_size {
        Some(repository.list(FileKind::Pack).await?.iter().map(|pack| pack.size).sum())
    } else {
        None
    };
    let id = repository.config().id.clone();
    Ok(Looked { id, snapshots: found.iter().map(facts).collect(), bytes })
}

pub(super) fn facts((id, snapshot): &Found) -> SnapshotFacts {
    SnapshotFacts {
        id: id.to_string(),
        time: snapshot.time.timestamp(),
        hostname: snapshot.hostname.clone(),
        paths: snapshot.paths.clone(),
        tags: snapshot.tags.clone(),
        tree: snapshot.tree.to_string(),
        username: snapshot.username.clone(),
        uid: Some(snapshot.uid),
        gid: Some(snapshot.gid),
    }
}

/// A snapshot that a mover listed.
#[allow(dead_code, reason = "for repositories that only movers open, which sessions do not use yet")]
pub(crate) fn facts_of(line: SnapshotLine) -> SnapshotFacts {
    SnapshotFacts {
        id: line.id,
        time: line.time,
        hostname: line.host,
        paths: line.paths,
        tags: line.tags,
        ..SnapshotFacts::default()
    }
}
