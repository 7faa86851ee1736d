//! Repositories of volume data: one for each namespace and location, at Velero's restic path (`restic/<namespace>`), with a
//! BackupRepository that shows how it stands. Called by whoever backs up, restores, deletes or maintains volume data.

mod access;
pub(crate) mod object;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::task::UID_TAG;
use lifeboat_plan::backup_repository::{self, About};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::forget::forget_named;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::lock::{LockOptions, remove_stale_locks};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::Found;
use tokio::sync::OnceCell;

use crate::context::Context;
use crate::locations::LocationError;
use crate::movers::{Key, Keys};
pub(crate) use access::{Access, access};

/// How long the server waits for a lock before it says who holds it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a repository cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepositoryProblem {
    #[error(transparent)]
    Location(#[from] LocationError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{0}")]
    Unusable(String),
    #[error("{}", words(.0))]
    Repository(#[from] lifeboat_repository::Error),
}

impl RepositoryProblem {
    /// The problem with its causes, for people.
    pub(crate) fn chain(&self) -> String {
        match self {
            Self::Location(error) => error.chain(),
            Self::Api(error) => error.chain(),
            other => other.to_string(),
        }
    }

    /// Whether it is the password that is missing or wrong.
    pub(crate) fn is_password(&self) -> bool {
        matches!(self, Self::Repository(lifeboat_repository::Error::WrongPassword { .. }))
    }
}

/// An error of the engine with its causes and what to do.
pub(crate) fn words(error: &lifeboat_repository::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    match error.hint() {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

/// The repository of a namespace in a location, ready to be used: made where there is none yet, and shown by its
/// BackupRepository.
pub(crate) async fn ensure(
    context: &Context,
    location: &str,
    namespace: &str,
) -> Result<Access, RepositoryProblem> {
    let access = access(context, location, namespace).await?;
    let place = context.repositories.place(location, namespace);
    let mut opened = place.lock().await;
    // Someone may have deleted the object meanwhile.
    let object = object::ensure(context, &access).await?;
    // Something is to come into it.
    object::set_emptied(context, &object, false).await?;
    if opened.as_ref().is_some_and(|opened| opened.access.is_same(&access)) {
        return Ok(access);
    }
    let repository = access.open_or_create().await;
    object::show(context, &object, repository.as_ref().map(|_| ()).map_err(RepositoryProblem::chain)).await?;
    *opened = Some(Opened { access: access.clone(), repository: repository? });
    Ok(access)
}

/// Opens a repository that exists; kept open, because the password costs a second of work each time.
pub(crate) async fn open(context: &Context, access: &Access) -> Result<Repository, RepositoryProblem> {
    let place = context.repositories.place(&access.location, &access.namespace);
    let mut opened = place.lock().await;
    if let Some(known) = opened.as_ref().filter(|known| known.access.is_same(access)) {
        return Ok(known.repository.clone());
    }
    let repository = access.open().await?;
    *opened = Some(Opened { access: access.clone(), repository: repository.clone() });
    Ok(repository)
}

/// The snapshot that a task made: the proof that it was done.
pub(crate) async fn of_task(
    repository: &Repository,
    uid: &str,
) -> Result<Option<Found>, lifeboat_repository::Error> {
    let tag = format!("{UID_TAG}{uid}");
    let found = repository.load_readable_snapshots().await?.found;
    Ok(found.into_iter().find(|(_, snapshot)| snapshot.tags.contains(&tag)))
}

/// Removes snapshots from a namespace's repository; their data goes with the next maintenance. Those that are gone
/// already, or whose whole repository is, are no error.
pub(crate) async fn forget(
    context: &Context,
    location: &str,
    namespace: &str,
    ids: &[String],
) -> Result<(), RepositoryProblem> {
    if ids.is_empty() {
        return Ok(());
    }
    let access = access(context, location, namespace).await?;
    let repository = match open(context, &access).await {
        Err(RepositoryProblem::Repository(lifeboat_repository::Error::NoRepository { .. })) => return Ok(()),
        other => other?,
    };
    let lock = LockOptions { wait: PATIENCE, ..LockOptions::default() };
    let there = repository.list(FileKind::Snapshot).await?;
    let there: Vec<_> = there.into_iter().map(|file| SnapshotId(file.id)).collect();
    let before = there.len();
    // Velero wrote down the first eight digits only.
    let named = there.into_iter().filter(|id| ids.iter().any(|wanted| is_named(*id, wanted)));
    let gone = forget_named(&repository, &named.collect::<Vec<_>>(), &lock).await?;
    tracing::info!(location, namespace, asked = ids.len(), removed = gone.len(), "snapshots forgotten");
    if !gone.is_empty() && gone.len() == before {
        object::emptied(context, &access, true).await?;
    }
    Ok(())
}

/// There is a snapshot: whoever believed that Lifeboat forgot the last one is wrong.
pub(crate) async fn is_not_empty(context: &Context, access: &Access) -> Result<(), ApiError> {
    object::emptied(context, access, false).await
}

/// Nobody wants what the mover of this task may still store: the controller of repositories looks for it.
pub(crate) async fn give_up(
    context: &Context,
    location: &str,
    namespace: &str,
    task: &str,
    deadline: Timestamp,
) {
    note(context, About { location, namespace }, backup_repository::give_up(task, deadline)).await;
}

/// Writes something down for the controller of repositories. That it cannot be done is only logged.
async fn note(context: &Context, about: About<'_>, patch: serde_json::Value) {
    let About { location, namespace } = about;
    if let Err(error) = object::note(context, about, patch).await {
        let words = error.chain();
        tracing::warn!(location, namespace, words, "a snapshot or a lock may be left behind");
    }
}

/// Forgets the snapshots of these tasks, where there are any.
pub(crate) async fn forget_tasks(
    context: &Context,
    location: &str,
    namespace: &str,
    tasks: &[String],
) -> Result<(), RepositoryProblem> {
    if tasks.is_empty() {
        return Ok(());
    }
    let access = access(context, location, namespace).await?;
    let repository = open(context, &access).await?;
    let found = repository.load_readable_snapshots().await?.found;
    let of_them =
        |tag: &String| tag.strip_prefix(UID_TAG).is_some_and(|task| tasks.iter().any(|one| one == task));
    let late = found.into_iter().filter(|(_, snapshot)| snapshot.tags.iter().any(of_them));
    let late: Vec<String> = late.map(|(id, _)| id.to_string()).collect();
    forget(context, location, namespace, &late).await
}

/// Removes the locks of an owner whose end was reported, so that nobody waits for them. Where that cannot be done now, the
/// controller of repositories tries again.
pub(crate) async fn unlock(context: &Context, location: &str, namespace: &str, owner: &str) {
    let owners = [owner.to_owned()];
    let removing = remove_locks(context, location, namespace, &owners);
    let words = match tokio::time::timeout(PATIENCE, removing).await {
        Ok(Ok(())) => return,
        Ok(Err(problem)) => problem.chain(),
        Err(_elapsed) => "storage did not answer".to_owned(),
    };
    tracing::warn!(location, namespace, owner, words, "locks of a dead mover are left for now");
    note(context, About { location, namespace }, backup_repository::note_dead(owner)).await;
}

pub(crate) async fn remove_locks(
    context: &Context,
    location: &str,
    namespace: &str,
    owners: &[String],
) -> Result<(), RepositoryProblem> {
    let access = access(context, location, namespace).await?;
    let repository = match open(context, &access).await {
        Err(RepositoryProblem::Repository(lifeboat_repository::Error::NoRepository { .. })) => return Ok(()),
        other => other?,
    };
    let locks = remove_stale_locks(&repository, owners).await?.locks;
    tracing::info!(location, namespace, ?owners, locks, "locks of dead movers removed");
    Ok(())
}

/// Whether a text names the snapshot: its ID, or eight digits of it at least.
fn is_named(id: SnapshotId, wanted: &str) -> bool {
    wanted.len() >= 8 && id.to_string().starts_with(wanted)
}

/// What opens the repository of a namespace in a location, for a mover.
pub(crate) struct KeysOf {
    pub(crate) location: String,
    pub(crate) namespace: String,
}

#[async_trait]
impl Keys for KeysOf {
    async fn read(&self, context: &Context) -> Result<Key, RepositoryProblem> {
        let access = access(context, &self.location, &self.namespace).await?;
        Ok(Key { repository: access.task, files: access.files })
    }
}

/// What is the same for all repositories of a term.
#[derive(Clone, Default)]
pub(crate) struct Repositories {
    cluster: Arc<OnceCell<String>>,
    opened: Arc<Mutex<BTreeMap<(String, String), Place>>>,
}

/// One repository; whoever opens it holds the lock, so that it is made and opened once.
type Place = Arc<tokio::sync::Mutex<Option<Opened>>>;

struct Opened {
    access: Access,
    repository: Repository,
}

impl Repositories {
    fn place(&self, location: &str, namespace: &str) -> Place {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.entry((location.to_owned(), namespace.to_owned())).or_default().clone()
    }

    /// Forgets that a repository was opened: its BackupRepository was changed or deleted.
    pub(crate) fn look_again(&self, location: &str, namespace: &str) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.remove(&(location.to_owned(), namespace.to_owned()));
    }
    /// The cluster's UID, which owners of locks carry: that of its oldest namespace or, where that may not be read, of
    /// Lifeboat's own.
    pub(crate) async fn cluster(&self, context: &Context) -> Result<String, ApiError> {
        let uid = self.cluster.get_or_try_init(|| async {
            let api: Api<Namespace> = Api::all(context.client.clone());
            if let Ok(namespace) = api.get("kube-system").await {
                return Ok(namespace.uid().unwrap_or_default());
            }
            let own = &context.settings.namespace;
            let namespace = api.get(own).await.attempt(format!("read Namespace {own}"))?;
            Ok(namespace.uid().unwrap_or_default())
        });
        uid.await.cloned()
    }
}
