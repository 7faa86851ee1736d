//! Inspects a repository (a look): its ID, its snapshots and, if requested, its size; in the server, or with a mover
//! if only movers open it. Little of the result is kept, because the server inspects many repositories. A tenant's
//! storage may be slow, so every inspection is bounded and waits for a permit.

use std::time::Duration;

use lifeboat_mover::report::SnapshotLine;
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_repository::Error;
use lifeboat_repository::files::FileKind;
use lifeboat_repository::repository::Repository as OpenRepository;
use lifeboat_repository::snapshots::{FoundSnapshot, Loaded};
use lifeboat_transfer::repositories::{Access, RepositoryProblem};

use super::by_mover;
use crate::context::Context;
use crate::looks::Looked;
use crate::repository_key::parts_of;

/// How long a repository may take to list its snapshots and packs.
const LISTING: Duration = Duration::from_mins(10);
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

/// Ends a listing that takes too long.
pub(super) async fn in_time<T>(
    listing: impl Future<Output = Result<T, Error>>,
) -> Result<T, RepositoryProblem> {
    match tokio::time::timeout(LISTING, listing).await {
        Ok(listed) => Ok(listed?),
        Err(_elapsed) => {
            let message =
                format!("the repository could not be listed within {} minutes", LISTING.as_secs() / 60);
            Err(RepositoryProblem::Storage(message))
        }
    }
}

/// All snapshots of an open repository that can be read.
pub(super) async fn loaded(repository: &OpenRepository) -> Result<Loaded, RepositoryProblem> {
    in_time(repository.load_readable_snapshots()).await
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
    let found = loaded(&repository).await?.found;
    let bytes = if with_size {
        let packs = in_time(repository.list(FileKind::Pack)).await?;
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
