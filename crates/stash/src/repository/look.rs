//! Inspects a repository (a look): its ID, its snapshots and, if requested, its size; in the server, or with a mover
//! if only movers open it. Little of the result is kept, because the server inspects many repositories. A tenant's
//! storage may be slow, so every inspection is bounded and waits for a permit.

use lifeboat_mover::report::SnapshotLine;
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_repository::Error;
use lifeboat_repository::files::FileKind;
use lifeboat_repository::repository::{ListedFile, Repository as OpenRepository};
use lifeboat_repository::snapshots::{FoundSnapshot, Loaded};
use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem};

use super::by_mover;
use crate::context::Context;
use crate::looks::Looked;
use crate::repository_key::parts_of;

/// A config has about 200 bytes.
const LARGEST_CONFIG: u64 = 64 * 1024;

/// Opens an existing repository, and checks that it still exists: a repository that is already open may have been
/// deleted, or replaced by another one.
pub(super) async fn open(context: &Context, access: &Access) -> Result<OpenRepository, RepositoryProblem> {
    let (namespace, _) = parts_of(&access.key);
    let opened = context.openings.run(namespace, opened(context, access)).await;
    opened.map_err(|slow| RepositoryProblem::Storage(slow.to_string()))?
}

async fn opened(context: &Context, access: &Access) -> Result<OpenRepository, RepositoryProblem> {
    let repository = context.repositories.open(access).await?;
    if is_there(&repository).await? {
        return Ok(repository);
    }
    context.repositories.close(&access.key);
    let repository = context.repositories.open(access).await?;
    if is_there(&repository).await? {
        return Ok(repository);
    }
    context.repositories.close(&access.key);
    Err(Error::NoRepository { location: access.identifier.clone() }.into())
}

/// Whether the config in storage is that of the open repository, whose key it is encrypted with.
async fn is_there(repository: &OpenRepository) -> Result<bool, RepositoryProblem> {
    let store = repository.store();
    let read = async {
        if store.head("config").await?.size > LARGEST_CONFIG {
            return Ok(None);
        }
        store.get("config").await.map(Some)
    };
    match read.await {
        Ok(Some(config)) => Ok(repository.key().open(&mut config.to_vec()).is_ok()),
        Ok(None) => Ok(false),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(Error::store("look for the repository")(error).into()),
    }
}

/// Lists something of an open repository when there is a place for it, and gives it up if it takes too long.
async fn in_turn<T, F: Future<Output = Result<T, Error>>>(
    context: &Context,
    key: &RepositoryKey,
    listing: impl Fn() -> F,
) -> Result<T, RepositoryProblem> {
    match context.listings.run_anew(parts_of(key).0, listing).await {
        Ok(listed) => Ok(listed?),
        Err(slow) => Err(RepositoryProblem::Storage(format!("it could not be listed: {slow}"))),
    }
}

/// All snapshots of an open repository that can be read.
pub(super) async fn loaded(
    context: &Context,
    key: &RepositoryKey,
    repository: &OpenRepository,
) -> Result<Loaded, RepositoryProblem> {
    in_turn(context, key, || repository.load_readable_snapshots()).await
}

/// All files of a kind of an open repository.
pub(super) async fn listed(
    context: &Context,
    key: &RepositoryKey,
    repository: &OpenRepository,
    kind: FileKind,
) -> Result<Vec<ListedFile>, RepositoryProblem> {
    in_turn(context, key, || repository.list(kind)).await
}

/// Inspects an existing repository.
pub(super) async fn look(
    context: &Context,
    access: &Access,
    with_size: bool,
) -> Result<Looked, RepositoryProblem> {
    if !access.is_opened_by_server() {
        return by_mover::look(context, &access.key).await;
    }
    let repository = open(context, access).await?;
    let found = loaded(context, &access.key, &repository).await?.found;
    let bytes = if with_size {
        let packs = listed(context, &access.key, &repository, FileKind::Pack).await?;
        Some(packs.iter().map(|pack| pack.size).sum())
    } else {
        None
    };
    let id = repository.config().id.clone();
    Ok(Looked { id, snapshots: found.iter().map(facts).collect(), bytes })
}

pub(super) fn facts((id, snapshot): &FoundSnapshot) -> SnapshotFacts {
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
pub(super) fn facts_of(line: SnapshotLine) -> SnapshotFacts {
    SnapshotFacts {
        id: line.id,
        time: line.time,
        hostname: line.host,
        paths: line.paths,
        tags: line.tags,
        ..SnapshotFacts::default()
    }
}
