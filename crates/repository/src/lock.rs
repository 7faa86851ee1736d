//! Locks in restic's format: a small file per holder, shared or exclusive, renewed every five minutes. A holder that
//! could not renew its lock in time gives up (`lost`), and every operation that would be unsafe without the lock
//! calls `verify` first. A lock that its holder did not renew for thirty minutes, by the store's clock, has expired
//! and is removed (after sixty minutes by the lock's own time if the store reports no times); earlier only if the
//! caller knows that the holder is dead. Process IDs prove nothing: processes in another container have the same
//! ones.

pub(crate) mod clock;
mod file;
mod keep;
mod remove;

pub use file::LockFile;
pub(crate) use remove::store_clock;
pub use remove::{Kept, Removed, remove_all_locks, remove_stale_locks};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Holder, Result};
use crate::files::FileKind;
use crate::id::LockId;
use crate::repository::Repository;

/// A lock that was not renewed for this time has expired.
pub const STALE: Duration = Duration::from_mins(30);
/// A holder gives up a bit earlier, so that clocks may differ.
const GIVE_UP: Duration = Duration::from_secs(22 * 60 + 30);
const REFRESH: Duration = Duration::from_mins(5);
/// The longest time that a step of renewing a lock waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the write of a lock may take after its taker was cancelled, before the lock is removed again.
const CANCELLED_WRITE_LIMIT: Duration = Duration::from_secs(5);
/// The pause between writing an exclusive lock and listing the locks again, for stores that list new objects with a
/// delay.
const SETTLE: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const TOO_LATE: &str = "it could not be renewed in time";

/// Shared for readers and writers, exclusive for operations that delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Shared,
    Exclusive,
}

/// Options for taking a lock.
#[derive(Debug, Clone, Default)]
pub struct LockOptions {
    /// How long to wait for a conflicting lock.
    pub wait: Duration,
    /// Host names in locks whose owners are known to be dead: these locks are removed at once.
    pub dead_owners: Vec<String>,
    /// Cancels taking the lock and removes what was written of it; a lock that is held remains until it is released.
    pub cancel: CancellationToken,
    /// Called with the holder of the conflicting lock after each failed attempt, as long as there is time left.
    pub on_wait: OnWait,
}

type WaitCallback = dyn Fn(&Holder) + Send + Sync;

/// A callback for waiting on a lock.
#[derive(Clone, Default)]
pub struct OnWait(Option<Arc<WaitCallback>>);

impl OnWait {
    pub fn new(callback: impl Fn(&Holder) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    fn call(&self, holder: &Holder) {
        if let Some(callback) = &self.0 {
            callback(holder);
        }
    }
}

impl std::fmt::Debug for OnWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "callback" } else { "none" })
    }
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
    held: Mutex<Held>,
    /// Other files of ours that may be in the store: older ones that could not be removed, and new ones for which it
    /// is unknown whether they were written.
    leftover: Mutex<Vec<LockId>>,
    /// Renewing changes the ID; `verify` must not check it in between.
    renewing: tokio::sync::Mutex<()>,
    lost: CancellationToken,
    stop: CancellationToken,
}

/// The current lock file.
#[derive(Debug)]
struct Held {
    file: LockFile,
    id: LockId,
    renewed: Timestamp,
}

impl Lock {
    /// Takes a lock; waits for conflicting ones as long as `options` allow, then fails with `Locked`.
    pub async fn acquire(repository: &Repository, kind: LockKind, options: &LockOptions) -> Result<Self> {
        let deadline = tokio::time::Instant::now() + options.wait;
        let mut pause = FIRST_PAUSE;
        loop {
            // Boxed, because it is part of every operation's future.
            match Box::pin(Self::attempt(repository, kind, options)).await {
                Err(Error::Locked { holder }) if tokio::time::Instant::now() < deadline => {
                    tracing::info!(host = %holder.host, exclusive = holder.exclusive, "waiting for a lock");
                    options.on_wait.call(&holder);
                    let left = deadline.saturating_duration_since(tokio::time::Instant::now());
                    let waiting = async {
                        tokio::time::sleep(pause.min(left)).await;
                        Ok(())
                    };
                    unless_cancelled(options, waiting).await?;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// Checks for conflicting locks first, so that a waiting process does not disturb others; then writes our own
    /// file; then checks again, which decides: of two processes that write at the same time, at least one sees the
    /// other.
    async fn attempt(repository: &Repository, kind: LockKind, options: &LockOptions) -> Result<Self> {
        unless_cancelled(options, remove::conflict(repository, kind, None, options)).await?;
        let file = LockFile::new(kind, &repository.options().identity, clock::now());
        let sealed = file.seal(repository)?;
        let id = sealed.id;
        // Held before it is written: whatever happens from here on, the file is removed again.
        let held = Self::start(repository, file, id);
        let taking = async {
            write_uninterrupted(repository, sealed, options).await?;
            let looking = async {
                if kind == LockKind::Exclusive {
                    tokio::time::sleep(SETTLE).await;
                }
                remove::conflict(repository, kind, Some(id), options).await
            };
            unless_cancelled(options, looking).await
        };
        match taking.await {
            Ok(()) => Ok(held),
            Err(error) => {
                held.release().await;
                Err(error)
            }
        }
    }

    fn start(repository: &Repository, file: LockFile, id: LockId) -> Self {
        let renewed = file.time();
        let state = Arc::new(State {
            held: Mutex::new(Held { file, id, renewed }),
            leftover: Mutex::default(),
            renewing: tokio::sync::Mutex::new(()),
            lost: CancellationToken::new(),
            stop: CancellationToken::new(),
        });
        let keeper = tokio::spawn(keep::keep(repository.clone(), Arc::clone(&state)));
        Self { repository: repository.clone(), state, keeper: Mutex::new(Some(keeper)) }
    }

    /// Cancelled when the lock is lost: the work under it must stop.
    pub fn lost(&self) -> CancellationToken {
        self.state.lost.clone()
    }

    pub fn kind(&self) -> LockKind {
        if self.state.held().file.exclusive { LockKind::Exclusive } else { LockKind::Shared }
    }

    /// Fails unless the lock is exclusive: for operations that delete.
    pub(crate) fn must_be_exclusive(&self) -> Result<()> {
        match self.kind() {
            LockKind::Exclusive => Ok(()),
            LockKind::Shared => Err(Error::invalid("the lock", "deleting needs an exclusive lock")),
        }
    }

    pub fn id(&self) -> LockId {
        self.state.held().id
    }

    /// Fails unless the lock is still in the store and was renewed in time. Called before an index or a snapshot is
    /// written, and before anything is deleted. A store that does not respond is asked again for as long as the lock is
    /// valid without being renewed.
    pub async fn verify(&self) -> Result<()> {
        loop {
            tokio::select! {
                looked = tokio::time::timeout(STORE_TIMEOUT * 2, self.look()) => match looked {
                    Ok(outcome) => return outcome,
                    Err(_elapsed) => tracing::warn!("the store does not confirm that our lock still exists"),
                },
                () = self.state.lost.cancelled() => return Err(Error::LockLost { detail: TOO_LATE.to_owned() }),
            }
        }
    }

    async fn look(&self) -> Result<()> {
        let _quiet = self.state.renewing.lock().await;
        if self.state.lost.is_cancelled() || self.state.is_overdue() {
            self.state.lost.cancel();
            return Err(Error::LockLost { detail: TOO_LATE.to_owned() });
        }
        let id = self.id();
        if self.repository.list(FileKind::Lock).await?.iter().any(|file| file.id == id.0) {
            return Ok(());
        }
        self.state.lost.cancel();
        Err(Error::LockLost { detail: format!("another process removed lock {}", id.short()) })
    }

    /// Takes a lock, runs the work under it, and releases it whatever the outcome. If the lock is lost, the work is
    /// dropped at its next await.
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
            // Boxed, because the future of a whole backup would make every future above it large.
            outcome = Box::pin(work(Arc::clone(&lock))) => outcome,
            () = lost.cancelled() => Err(Error::LockLost { detail: TOO_LATE.to_owned() }),
        };
        lock.release().await;
        outcome
    }

    fn take_keeper(&self) -> Option<tokio::task::JoinHandle<()>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Releases the lock. If it cannot be removed, the work done under it has not failed: the lock expires.
    pub async fn release(&self) {
        self.state.stop.cancel();
        let Some(keeper) = self.take_keeper() else { return };
        let _ = keeper.await;
        self.state.give_up_held();
        if tokio::time::timeout(STORE_TIMEOUT, keep::tidy(&self.repository, &self.state)).await.is_err() {
            tracing::warn!(
                "the store did not respond when our lock was removed; the lock expires on its own"
            );
        }
    }
}

/// Waits for `work` unless the caller cancels.
async fn unless_cancelled<T>(options: &LockOptions, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        outcome = work => outcome,
        () = options.cancel.cancelled() => Err(Error::Cancelled),
    }
}

/// Writes a lock. A request that is interrupted may still take effect after the lock was removed again, so it gets
/// some time to finish.
async fn write_uninterrupted(
    repository: &Repository,
    lock: file::Sealed,
    options: &LockOptions,
) -> Result<()> {
    let mut writing = std::pin::pin!(lock.write(repository));
    tokio::select! {
        outcome = &mut writing => outcome,
        () = options.cancel.cancelled() => {
            let _ = tokio::time::timeout(CANCELLED_WRITE_LIMIT, writing).await;
            Err(Error::Cancelled)
        }
    }
}

impl Drop for Lock {
    /// For a task that was dropped in the middle: the lock is removed in the background, if the runtime still exists.
    fn drop(&mut self) {
        if self.take_keeper().is_none() {
            return;
        }
        self.state.stop.cancel();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (repository, state) = (self.repository.clone(), Arc::clone(&self.state));
            runtime.spawn(async move {
                let _quiet = state.renewing.lock().await;
                state.give_up_held();
                keep::tidy(&repository, &state).await;
            });
        }
    }
}

impl State {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leftover(&self) -> MutexGuard<'_, Vec<LockId>> {
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the current lock file for removal.
    fn give_up_held(&self) {
        let id = self.held().id;
        self.leftover().push(id);
    }

    /// By the wall clock, which continues while a machine sleeps.
    fn is_overdue(&self) -> bool {
        let age = clock::now().duration_since(self.held().renewed);
        // A clock that was set back by much is as bad as one that ran ahead.
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
