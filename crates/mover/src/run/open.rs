//! Opens the repository of a task, or creates it if the task says so: the store by its transport, the password, and the
//! lock options.

mod storage;

use std::time::Duration;

use lifeboat_repository::lock::{LockOptions, OnWait, STALE};
use lifeboat_repository::repository::{Identity, InitOptions, Options, Repository};
use lifeboat_repository::{Error, error::Holder};
use lifeboat_store::{Guard, Store};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::WorkContext;
use super::failure::{self, Failed, message};
use crate::report::{Cause, Failure, LogLine};
use crate::task::{LockTerms, RepositoryAccess, Task, Transport, lock_user};
use storage::{Storage, content};

/// Defaults of a mover: threads and packs that wait for their upload take the most memory.
const MOST_THREADS: usize = 4;
const UPLOADS: usize = 3;
const READS: usize = 4;

/// The opened repository and its location.
pub(super) struct Opened {
    /// The location, without the repository's path: the full report is stored there. None if the storage holds
    /// nothing but the repository.
    pub(super) location: Option<Store>,
    pub(super) repository: Repository,
    pub(super) lock: LockOptions,
    /// Whether this mover created the repository.
    pub(super) is_new: bool,
}

impl Opened {
    pub(super) async fn open(
        context: &WorkContext,
        task: &Task,
        access: &RepositoryAccess,
        cancel: &CancellationToken,
    ) -> Result<Self, Failed> {
        let creates = task.creates_repository();
        let RepositoryAccess { transport, guarded, .. } = access;
        let guard = guarded.then(Guard::default);
        let storage = Storage { context, transport, limits: &task.limits, guard: guard.as_ref() };
        if creates {
            storage.create_directory()?;
        }
        let (location, store) = storage.open().await?;
        let options = options(task, access, &context.pod_uid);
        let (repository, is_new) = match unlock(context, access, store.clone(), &options).await {
            Err(Failed::Because(failure)) if creates && failure.cause == Cause::NoRepository => {
                storage.create_on_server().await?;
                create(context, access, store, &options).await?
            }
            unlocked => (unlocked?, false),
        };
        Ok(Self { location, repository, lock: lock(context, &task.lock, cancel), is_new })
    }
}

/// Creates the repository with the first password. The flag is false if another process was faster.
async fn create(
    context: &WorkContext,
    access: &RepositoryAccess,
    store: Store,
    options: &Options,
) -> Result<(Repository, bool), Failed> {
    context.progress.begin("creating the repository");
    let first = access.passwords.first().map_or("", String::as_str);
    let password = password(context, first)?;
    let made = Repository::init(store.clone(), &password, InitOptions::default(), options.clone()).await;
    match made {
        Err(Error::RepositoryExists { .. }) => Ok((unlock(context, access, store, options).await?, false)),
        made => Ok((made.map_err(failure::of(Cause::Other))?, true)),
    }
}

/// The password in a file beside the task.
fn password(context: &WorkContext, name: &str) -> Result<SecretString, Failure> {
    let password = content(&context.directory, name)?;
    match std::str::from_utf8(password.trim_ascii_end()) {
        Ok(text) => Ok(SecretString::from(text.to_owned())),
        Err(_) => Err(Failure {
            cause: Cause::Task,
            message: format!("the password in the file '{name}' is not UTF-8 text"),
        }),
    }
}

/// Tries the passwords one after the other.
async fn unlock(
    context: &WorkContext,
    access: &RepositoryAccess,
    store: Store,
    options: &Options,
) -> Result<Repository, Failed> {
    context.progress.begin("opening the repository");
    let mut wrong = None;
    for name in &access.passwords {
        let password = password(context, name)?;
        match Repository::open(store.clone(), &password, options.clone()).await {
            Err(error @ Error::WrongPassword { .. }) => wrong = Some(message(&error)),
            other => return other.map_err(failure::of(Cause::Other)),
        }
    }
    Err(Failed::new(Cause::Password, wrong.unwrap_or_default()))
}

fn options(task: &Task, access: &RepositoryAccess, pod_uid: &str) -> Options {
    let Task { limits, lock, .. } = task;
    let mut identity = Identity { host: format!("{}/{pod_uid}", lock.cluster), ..Identity::of_system() };
    if matches!(access.transport, Transport::Gateway { .. }) {
        identity.user = lock_user(&task.uid);
    }
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Options {
        threads: limits.threads.unwrap_or_else(|| cores.min(MOST_THREADS)).max(1),
        uploads: UPLOADS,
        reads: READS,
        cache: limits.scratch.as_ref().map(|scratch| scratch.join("cache")),
        temporary: limits.scratch.clone().unwrap_or_else(std::env::temp_dir),
        identity,
        ..Options::default()
    }
}

fn lock(context: &WorkContext, terms: &LockTerms, cancel: &CancellationToken) -> LockOptions {
    let reporter = context.reporter.clone();
    let report = move |holder: &Holder| {
        let until = holder.since.checked_add(STALE).ok();
        let name = format!("{}{}", holder.host, if holder.exclusive { " (exclusive)" } else { "" });
        reporter.line(&LogLine::Waiting { holder: name, until: until.map(|until| until.to_string()) });
    };
    LockOptions {
        wait: Duration::from_secs(terms.wait_seconds),
        dead_owners: terms.dead_owners.clone(),
        cancel: cancel.clone(),
        on_wait: OnWait::new(report),
    }
}
