//! Opens the repository of a task: the store by its transport, the password, and the lock options.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use lifeboat_repository::lock::{LockOptions, OnWait, STALE};
use lifeboat_repository::repository::{Identity, Options, Repository};
use lifeboat_repository::{Error, error::Holder};
use lifeboat_store::{Bandwidth, RetryPolicy, Store, StoreConfig, Tuning};
use secrecy::{SecretSlice, SecretString};
use tokio_util::sync::CancellationToken;

use super::failure::{self, Failed, message};
use super::{WorkContext, beside};
use crate::report::{Cause, Failure, LogLine};
use crate::task::{Direct, Limits, LockTerms, Task, Transport};

/// Storage may be unreachable for some minutes.
const STORAGE_RETRY: RetryPolicy = RetryPolicy {
    attempts: 22,
    first_pause: Duration::from_millis(200),
    longest_pause: Duration::from_secs(20),
    deadline: None,
};
/// Defaults of a mover: threads and packs that wait for their upload take the most memory.
const MOST_THREADS: usize = 4;
const UPLOADS: usize = 3;
const READS: usize = 4;

/// The opened repository and its location.
pub(super) struct Opened {
    /// The location, without the repository's path: the full report is stored there.
    pub(super) location: Store,
    pub(super) repository: Repository,
    pub(super) lock: LockOptions,
}

impl Opened {
    pub(super) async fn open(
        context: &WorkContext,
        task: &Task,
        cancel: &CancellationToken,
    ) -> Result<Self, Failed> {
        let (location, store) = store(context, task).await?;
        let options = options(&task.limits, &task.lock, &context.pod_uid);
        let repository = unlock(context, task, store, &options).await?;
        Ok(Self { location, repository, lock: lock(context, &task.lock, cancel) })
    }
}

async fn store(context: &WorkContext, task: &Task) -> Result<(Store, Store), Failed> {
    let direct = match &task.repository.transport {
        Transport::Direct(direct) => direct,
        Transport::Gateway { url, .. } => {
            let message = format!(
                "the task reaches its repository through the gateway '{url}', which this version of the mover does not \
                 know: use the server's image for movers"
            );
            return Err(Failed::new(Cause::Task, message));
        }
    };
    let config = config(direct, &context.directory)?;
    let rate = |bytes: Option<u64>| bytes.and_then(NonZeroU64::new);
    let tuning = Tuning {
        retry: STORAGE_RETRY,
        bandwidth: Bandwidth::new(rate(task.limits.upload), rate(task.limits.download)),
        ..Tuning::default()
    };
    let opened = lifeboat_store::open(&config, &context.environment, tuning).await;
    let location = opened.map_err(of_store("open the object storage"))?;
    let below = location.below(&direct.path).map_err(of_store("open the object storage"))?;
    let name = format!("{}/{}", direct.bucket, below.prefix().trim_end_matches('/'));
    Ok((location, below.with_name(&name)))
}

/// For `map_err` on a call of the store.
pub(super) fn of_store(action: &'static str) -> impl Fn(lifeboat_store::Error) -> Failed {
    move |error| failure::of(Cause::Storage)(Error::store(action)(error))
}

fn config(direct: &Direct, directory: &Path) -> Result<StoreConfig, Failure> {
    let read = |name: &Option<String>| {
        let content = name.as_deref().map(|name| content(directory, name));
        content.transpose()
    };
    let mut settings = direct.config.clone();
    if let (Some(name), Some(path)) = (&direct.customer_key, settings.get_mut("customerKeyEncryptionFile")) {
        *path = beside(directory, name)?.to_string_lossy().into_owned();
    }
    Ok(StoreConfig {
        provider: direct.provider.clone(),
        bucket: direct.bucket.clone(),
        prefix: direct.prefix.clone(),
        config: settings,
        ca_pem: read(&direct.ca)?,
        credentials: read(&direct.credentials)?.map(SecretSlice::from),
        customer_key: read(&direct.customer_key)?.map(SecretSlice::from),
    })
}

fn content(directory: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let path = beside(directory, name)?;
    std::fs::read(&path).map_err(|error| {
        let message = format!("cannot read '{}', which the task names: {error}", path.display());
        Failure { cause: Cause::Task, message }
    })
}

/// Tries the passwords one after the other.
async fn unlock(
    context: &WorkContext,
    task: &Task,
    store: Store,
    options: &Options,
) -> Result<Repository, Failed> {
    context.progress.begin("opening the repository");
    let mut wrong = None;
    for name in &task.repository.passwords {
        let password = content(&context.directory, name)?;
        let Ok(text) = std::str::from_utf8(password.trim_ascii_end()) else {
            return Err(Failed::new(
                Cause::Task,
                format!("the password in the file '{name}' is not UTF-8 text"),
            ));
        };
        match Repository::open(store.clone(), &SecretString::from(text.to_owned()), options.clone()).await {
            Err(error @ Error::WrongPassword { .. }) => wrong = Some(message(&error)),
            other => return other.map_err(failure::of(Cause::Other)),
        }
    }
    Err(Failed::new(Cause::Password, wrong.unwrap_or_default()))
}

fn options(limits: &Limits, lock: &LockTerms, pod_uid: &str) -> Options {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Options {
        threads: limits.threads.unwrap_or_else(|| cores.min(MOST_THREADS)).max(1),
        uploads: UPLOADS,
        reads: READS,
        cache: limits.scratch.as_ref().map(|scratch| scratch.join("cache")),
        temporary: limits.scratch.clone().unwrap_or_else(std::env::temp_dir),
        identity: Identity { host: format!("{}/{pod_uid}", lock.cluster), ..Identity::of_system() },
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
