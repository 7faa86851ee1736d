//! Locks as restic takes them: a small file for each holder, shared or exclusive, written anew every five minutes.
//! A holder that could not renew its lock in time gives up (`lost`), and everything that would be dangerous
//! without it asks `verify` first. A lock that nobody renewed for thirty minutes, by the store's clock, counts for
//! nothing and is removed; earlier only if the caller knows that its owner is dead. Process ids prove nothing:
//! the next container has the same ones.

mod file;
mod keep;
mod remove;

pub use file::LockFile;
pub(crate) use remove::store_clock;
pub use remove::{remove_all_locks, remove_stale_locks};

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Holder, Result};
use crate::files::FileKind;
use crate::id::LockId;
use crate::repository::Repository;

/// After this time without renewal a lock counts for nothing.
pub const STALE: Duration = Duration::from_mins(30);
/// A holder gives up a bit earlier, so that clocks may differ.
const GIVE_UP: Duration = Duration::from_secs(22 * 60 + 30);
const REFRESH: Duration = Duration::from_mins(5);
/// Between writing an exclusive lock and looking again: for stores that show new objects late.
const SETTLE: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Shared by readers and writers, exclusive for whoever deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Shared,
    Exclusive,
}

/// How to get a lock.
#[derive(Debug, Clone, Default)]
pub struct LockOptions {
    /// How long to wait for one that is in the way.
    pub wait: Duration,
    /// Host names in locks whose owners are known to be dead: these locks are removed at once.
    pub dead_owners: Vec<String>,
}

/// A lock that is held, and renewed in the background.
#[derive(Debug)]
pub struct Lock {
    repository: Repository,
    state: Arc<State>,
    keeper: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    file: Mutex<LockFile>,
    id: Mutex<LockId>,
    /// Renewing changes the id; `verify` must not look in between.
    renewing: tokio::sync::Mutex<()>,
    renewed: Mutex<Timestamp>,
    lost: CancellationToken,
    stop: CancellationToken,
}

impl Lock {
    /// Takes a lock; waits for others as long as `options` say, then fails with `Locked`.
    pub async fn acquire(repository: &Repository, kind: LockKind, options: &LockOptions) -> Result<Self> {
        let deadline = tokio::time::Instant::now() + options.wait;
        let mut pause = FIRST_PAUSE;
        loop {
            match Self::attempt(repository, kind, options).await {
                Err(Error::Locked { holder }) if tokio::time::Instant::now() < deadline => {
                    tracing::info!(host = %holder.host, exclusive = holder.exclusive, "waiting for a lock");
                    let left = deadline.saturating_duration_since(tokio::time::Instant::now());
                    tokio::time::sleep(pause.min(left)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// First a look, so that nobody who waits disturbs; then our own file; then a second look, which decides: of
    /// two that write at the same time at least one sees the other.
    async fn attempt(repository: &Repository, kind: LockKind, options: &LockOptions) -> Result<Self> {
        remove::conflict(repository, kind, None, options).await?;
        let file = LockFile::new(kind, &repository.options().identity, Timestamp::now());
        let id = file.save(repository).await?;
        let held = Self::start(repository, file, id);
        if kind == LockKind::Exclusive {
            tokio::time::sleep(SETTLE).await;
        }
        match remove::conflict(repository, kind, Some(id), options).await {
            Ok(()) => Ok(held),
            Err(error) => {
                held.release().await;
                Err(error)
            }
        }
    }

    fn start(repository: &Repository, file: LockFile, id: LockId) -> Self {
        let state = Arc::new(State {
            renewed: Mutex::new(file.time()),
            file: Mutex::new(file),
            id: Mutex::new(id),
            renewing: tokio::sync::Mutex::new(()),
            lost: CancellationToken::new(),
            stop: CancellationToken::new(),
        });
        let keeper = tokio::spawn(keep::keep(repository.clone(), Arc::clone(&state)));
        Self { repository: repository.clone(), state, keeper: Mutex::new(Some(keeper)) }
    }

    /// Cancelled when the lock is lost: whoever works under it stops.
    pub fn lost(&self) -> CancellationToken {
        self.state.lost.clone()
    }

    pub fn kind(&self) -> LockKind {
        let file = self.state.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if file.exclusive { LockKind::Exclusive } else { LockKind::Shared }
    }

    /// Fails unless it is exclusive: for whoever deletes.
    pub(crate) fn must_be_exclusive(&self) -> Result<()> {
        match self.kind() {
            LockKind::Exclusive => Ok(()),
            LockKind::Shared => Err(Error::invalid("the lock", "deleting needs the exclusive one")),
        }
    }

    pub fn id(&self) -> LockId {
        *self.state.id()
    }

    /// Fails unless the lock is still in the store and was renewed in time. Called before an index or a snapshot
    /// is written, and before anything is deleted.
    pub async fn verify(&self) -> Result<()> {
        let _quiet = self.state.renewing.lock().await;
        if self.state.lost.is_cancelled() || self.state.is_overdue() {
            self.state.lost.cancel();
            return Err(Error::LockLost { detail: "it could not be renewed in time".to_owned() });
        }
        let id = self.id();
        if self.repository.list(FileKind::Lock).await?.iter().any(|file| file.id == id.0) {
            return Ok(());
        }
        self.state.lost.cancel();
        Err(Error::LockLost { detail: format!("someone removed lock {}", id.short()) })
    }

    /// Takes a lock, does the work under it, and gives it back whatever the outcome. Work whose lock is lost is
    /// dropped where it waits.
    pub async fn hold<T, F>(
        repository: &Repository,
        kind: LockKind,
        options: &LockOptions,
        work: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let lock = Arc::new(Self::acquire(repository, kind, options).await?);
        let lost = lock.lost();
        let outcome = tokio::select! {
            // Boxed: the work of a whole backup would make every future above it large.
            outcome = Box::pin(work(Arc::clone(&lock))) => outcome,
            () = lost.cancelled() => Err(Error::LockLost { detail: "it could not be renewed in time".to_owned() }),
        };
        lock.release().await;
        outcome
    }

    fn take_keeper(&self) -> Option<tokio::task::JoinHandle<()>> {
        self.keeper.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    /// Gives the lock back. That it cannot be removed is no failure of the work done under it: it grows stale.
    pub async fn release(&self) {
        self.state.stop.cancel();
        let Some(keeper) = self.take_keeper() else { return };
        let _ = keeper.await;
        let id = self.id();
        if let Err(error) = self.repository.remove_file(FileKind::Lock, id.0).await {
            tracing::warn!(%id, %error, "could not remove our lock; it counts for nothing in 30 minutes");
        }
    }
}

impl Drop for Lock {
    /// For a task that was dropped half-way: the lock goes in the background, if there is a runtime left.
    fn drop(&mut self) {
        if self.take_keeper().is_none() {
            return;
        }
        self.state.stop.cancel();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (repository, id) = (self.repository.clone(), self.id());
            runtime.spawn(async move { repository.remove_file(FileKind::Lock, id.0).await });
        }
    }
}

impl State {
    fn id(&self) -> std::sync::MutexGuard<'_, LockId> {
        self.id.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// By the wall clock, which goes on while a machine sleeps.
    fn is_overdue(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let age = Timestamp::now().duration_since(renewed);
        // A clock that was set back by much is as bad as one that ran on.
        age.unsigned_abs() > GIVE_UP
    }
}

impl LockFile {
    fn holder(&self, id: LockId) -> Holder {
        Holder {
            id,
            host: self.hostname.clone(),
            user: self.username.clone(),
            process: self.pid,
            exclusive: self.exclusive,
            since: self.time(),
        }
    }
}

#[cfg(test)]
mod tests;
