//! The worker: runs one operation on a repository through a store with faults, in a process that may be killed at any
//! moment. `src/bin/torture_worker.rs` is its `main`.

use std::fs::File;
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lifeboat_repository::backup::{self, BackupOptions, LockOwner, Source};
use lifeboat_repository::change_password::change_password;
use lifeboat_repository::forget::policy::{Count, Policy};
use lifeboat_repository::forget::{ForgetOptions, forget};
use lifeboat_repository::keys::NewKey;
use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
use lifeboat_repository::progress::Progress;
use lifeboat_repository::prune::plan::{self, MaxUnused};
use lifeboat_repository::prune::{PruneOptions, prune};
use lifeboat_repository::repository::{Identity, Options, Repository};
use lifeboat_repository::restore::{RestoreOptions, restore};
use lifeboat_repository::{copy, testing};
use lifeboat_store::layers::Layered;
use lifeboat_store::testing::Faults;
use lifeboat_store::{Backend, RetryPolicy, Store, Tuning};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::chaos::Chaos;
use super::place;
use super::task::{End, HOST, Operation, SECOND_PASSWORD, STREAM, Task, WhichRepository};
use crate::tree::Random;

/// The smallest pack size, so that there are several packs.
pub(super) const PACK_SIZE: usize = 4 << 20;

/// Runs a task.
pub async fn work(task: &Task) -> Result<()> {
    Worker::new(task)?.run().await
}

struct Worker<'a> {
    task: &'a Task,
    lock: LockOptions,
    requests: Arc<AtomicU64>,
    log: Arc<File>,
}

impl<'a> Worker<'a> {
    fn new(task: &'a Task) -> Result<Self> {
        let log = File::options().create(true).append(true).open(&task.log).context("no log of faults")?;
        let lock = LockOptions {
            wait: Duration::from_millis(task.wait_ms),
            dead_owners: task.dead.clone(),
            ..LockOptions::default()
        };
        Ok(Self { task, lock, requests: Arc::default(), log: Arc::new(log) })
    }

    async fn run(&self) -> Result<()> {
        match &self.task.operation {
            Operation::Backup { source } => self.backup(paths(source)).await,
            Operation::Stream { seed, length } => self.backup(stream(*seed, *length)).await,
            Operation::Prepared { source, end } => self.prepared(source, *end).await,
            Operation::Forget { place, snapshots } => {
                let selectors = snapshots.iter().map(|id| id.parse()).collect::<Result<_, _>>()?;
                self.forget(*place, ForgetOptions { selectors, ..ForgetOptions::default() }).await
            }
            Operation::ForgetByPolicy { place, keep_last } => {
                let policy = Policy { last: Count::Limited(*keep_last), ..Policy::default() };
                self.forget(*place, ForgetOptions { policy, ..ForgetOptions::default() }).await
            }
            Operation::Prune { place, grace_ms, thorough } => {
                self.prune(*place, Duration::from_millis(*grace_ms), *thorough).await
            }
            Operation::Restore { snapshot, target } => self.restore(snapshot, target).await,
            Operation::ChangePassword { password } => self.change_password(password).await,
            Operation::Copy { snapshots } => self.copy(snapshots).await,
            Operation::Restic { .. } => bail!("restic does its own work"),
        }
    }

    async fn backup(&self, source: Source) -> Result<()> {
        let repository = self.open(WhichRepository::Main).await?;
        let outcome =
            backup::backup(&repository, BackupOptions::new(source, HOST), &self.lock, progress(), never())
                .await?;
        let complete = !outcome.is_incomplete() && outcome.changed_while_read.is_empty();
        let id = outcome.snapshot_id.filter(|_| complete).context("the backup is incomplete")?;
        acknowledge(id)
    }

    async fn prepared(&self, source: &Path, end: End) -> Result<()> {
        let repository = self.open(WhichRepository::Main).await?;
        Lock::hold(&repository, LockKind::Shared, &self.lock, async |_| {
            let owner = LockOwner { host: self.task.owner.clone(), process: i64::from(std::process::id()) };
            let options = BackupOptions::new(paths(source), HOST);
            let (prepared, _) =
                backup::prepare(&repository, options, owner, &self.lock, progress(), never()).await?;
            match end {
                End::Commit => Ok(Some(backup::commit(&repository, &prepared, &never()).await?)),
                End::Discard => backup::discard(&repository, &prepared).map(|()| None),
                End::Nothing => Ok(None),
            }
        })
        .await?
        .map_or(Ok(()), acknowledge)
    }

    async fn forget(&self, place: WhichRepository, options: ForgetOptions) -> Result<()> {
        let repository = self.open(place).await?;
        let forgotten = forget(&repository, &options, &self.lock, &never()).await?;
        match forgotten.failed.first() {
            Some((id, error)) => bail!("snapshot {id} stays: {error}"),
            None => Ok(()),
        }
    }

    async fn prune(&self, place: WhichRepository, grace: Duration, thorough: bool) -> Result<()> {
        let repository = self.open(place).await?;
        let mut plan = plan::Options { grace, pack_size: PACK_SIZE as u64, ..plan::Options::default() };
        if thorough {
            plan.max_unused = MaxUnused::Bytes(0);
        }
        let options = PruneOptions { plan, ..PruneOptions::default() };
        prune(&repository, &options, &self.lock, &progress(), &never()).await?;
        Ok(())
    }

    async fn restore(&self, snapshot: &str, target: &Path) -> Result<()> {
        let (repository, id) = (self.open(WhichRepository::Main).await?, snapshot.parse()?);
        Lock::hold(&repository, LockKind::Shared, &self.lock, async |_| {
            let snapshot = repository.load_snapshot(id).await?;
            let options =
                RestoreOptions { target: target.to_owned(), delete: true, ..RestoreOptions::default() };
            restore(&repository, &snapshot, options, progress(), never()).await
        })
        .await?
        .problems
        .first()
        .map_or(Ok(()), |problem| bail!("{}: {}", problem.path, problem.message))
    }

    async fn change_password(&self, password: &str) -> Result<()> {
        let repository = self.open(WhichRepository::Main).await?;
        let cost = testing::cheap(repository.config().version).cost;
        let (password, identity) = (SecretString::from(password), &repository.options().identity);
        let new = NewKey { password: &password, allow_empty: false, cost, identity };
        change_password(&repository, &new, &self.lock).await?;
        Ok(())
    }

    async fn copy(&self, snapshots: &[String]) -> Result<()> {
        let (source, target) =
            (self.open(WhichRepository::Main).await?, self.open(WhichRepository::Second).await?);
        let ids = snapshots.iter().map(|id| id.parse()).collect::<Result<Vec<_>, _>>()?;
        copy::copy(&source, &target, &ids, Some(&self.lock), &self.lock, progress(), never())
            .await?
            .copied
            .into_iter()
            .try_for_each(|copied| acknowledge(copied.target))
    }

    async fn open(&self, place: WhichRepository) -> Result<Repository> {
        let (location, password) = match place {
            WhichRepository::Main => (&self.task.main, self.task.password.as_str()),
            WhichRepository::Second => (&self.task.second, SECOND_PASSWORD),
        };
        let identity = Identity { host: self.task.owner.clone(), ..Identity::of_system() };
        let options = Options { identity, pack_size: PACK_SIZE, ..Options::default() };
        let password = SecretString::from(password);
        Ok(Repository::open(self.store(location).await?, &password, options).await?)
    }

    /// The layers from the outside: retries, death and out-of-date listings, faults, the directory or S3.
    async fn store(&self, location: &str) -> Result<Store> {
        let trouble = self.task.trouble;
        let faults = Faults::random(trouble.seed, trouble.faults).logged_to(Arc::clone(&self.log));
        let wrap = |backend: Arc<dyn Backend>, prefix: &str| -> Arc<dyn Backend> {
            Arc::new(Chaos {
                inner: Arc::new(Layered::new(faults, backend)),
                prefix: prefix.to_owned(),
                trouble,
                requests: Arc::clone(&self.requests),
                log: Arc::clone(&self.log),
                seen: Mutex::default(),
            })
        };
        let retry = RetryPolicy {
            attempts: trouble.attempts.max(1),
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(10),
            deadline: None,
            outage: None,
        };
        place::open_through(location, Tuning { retry, ..Tuning::default() }, wrap).await
    }
}

/// From here on the snapshot must never be lost.
fn acknowledge(id: impl std::fmt::Display) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "snapshot {id}")?;
    Ok(output.flush()?)
}

fn paths(source: &Path) -> Source {
    Source::Paths(vec![source.to_owned()])
}

fn stream(seed: u64, length: usize) -> Source {
    let bytes = Random::new(seed).bytes(length);
    Source::Stream { name: STREAM.to_owned(), reader: Box::new(Cursor::new(bytes)) }
}

fn progress() -> Arc<Progress> {
    Arc::default()
}

fn never() -> CancellationToken {
    CancellationToken::new()
}
