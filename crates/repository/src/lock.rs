//! Locks as restic takes them: a small file for each holder, shared or exclusive, written anew every five minutes.
//! A holder that could not renew its lock in time gives up (`lost`), and everything that would be dangerous
//! without it asks `verify` first. A lock that nobody renewed for thirty minutes, by the store's clock, counts for
//! nothing and is removed (sixty by the lock's own time where the store tells none); earlier only if the caller knows
//! that its owner is dead. Process ids prove nothing: the next container has the same ones.

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

/// After this time without renewal a lock counts for nothing.
pub const STALE: Duration = Duration::from_mins(30);
/// A holder gives up a bit earlier, so that clocks may differ.
const GIVE_UP: Duration = Duration::from_secs(22 * 60 + 30);
const REFRESH: Duration = Duration::from_mins(5);
/// No step of keeping a lock waits longer for the store than this.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a lock that is being written when its taker is cancelled may take, before it is removed again.
const LAST_MOMENT: Duration = Duration::from_secs(5);
/// Between writing an exclusive lock and looking again: for stores that show new objects late.
const SETTLE: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const TOO_LATE: &str = "it could not be renewed in time";

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
    /// Ends the taking, and what was written of the lock goes; a lock that is held stays until it is released.
    pub cancel: CancellationToken,
    /// Is told who is in the way, at each attempt that fails while there is time left.
    pub on_wait: OnWait,
}

type Tell = dyn Fn(&Holder) + Send + Sync;

/// Whoever wants to know that a lock is waited for.
#[derive(Clone, Default)]
pub struct OnWait(Option<Arc<Tell>>);

impl OnWait {
    pub fn new(tell: impl Fn(&Holder) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    fn tell(&self, holder: &Holder) {
        if let Some(tell) = &self.0 {
            tell(holder);
        }
    }
}

impl std::fmt::Debug for OnWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "told" } else { "silent" })
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
    /// Files of ours that may be in the store beside the lock: older ones that could not be removed, and new ones of
    /// which nobody knows whether they were written.
    leftover: Mutex<Vec<LockId>>,
    /// Renewing changes the id; `verify` must not look in between.
    renewing: tokio::sync::Mutex<()>,
    lost: CancellationToken,
    stop: CancellationToken,
}

/// The lock file that counts.
#[derive(Debug)]
struct Held {
    file: LockFile,
    id: LockId,
    renewed: Timestamp,
}

impl Lock {
    /// Takes a lock; waits for others as long as `options` say, then fails with `Locked`.
    pub async fn acquire(repository: &Repository, kind: LockKind, options: &LockOptions) -> Result<Self> {
        let deadline = tokio::time::Instant::now() + options.wait;
        let mut pause = FIRST_PAUSE;
        loop {
            // Boxed: it is part of every operation's future.
            match Box::pin(Self::attempt(repository, kind, options)).await {
                Err(Error::Locked { holder }) if tokio::time::Instant::now() < deadline => {
                    tracing::info!(host = %holder.host, exclusive = holder.exclusive, "waiting for a lock");
                    options.on_wait.tell(&holder);
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

    /// First a look, so that nobody who waits disturbs; then our own file; then a second look, which decides: of
    /// two that write at the same time at least one sees the other.
    async fn attempt(repository: &Repository, kind: LockKind, options: &LockOptions) -> Result<Self> {
        unless_cancelled(options, remove::conflict(repository, kind, None, options)).await?;
        let file = LockFile::new(kind, &repository.options().identity, clock::now());
        let sealed = file.seal(repository)?;
        let id = sealed.id;
        // Held before it is written: whatever happens from here on, the file goes again.
        let held = Self::start(repository, file, id);
        let taking = async {
            write_in_peace(repository, sealed, options).await?;
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

    /// Cancelled when the lock is lost: whoever works under it stops.
    pub fn lost(&self) -> CancellationToken {
        self.state.lost.clone()
    }

    pub fn kind(&self) -> LockKind {
        if self.state.held().file.exclusive { LockKind::Exclusive } else { LockKind::Shared }
    }

    /// Fails unless it is exclusive: for whoever deletes.
    pub(crate) fn must_be_exclusive(&self) -> Result<()> {
        match self.kind() {
            LockKind::Exclusive => Ok(()),
            LockKind::Shared => Err(Error::invalid("the lock", "deleting needs the exclusive one")),
        }
    }

    pub fn id(&self) -> LockId {
        self.state.held().id
    }

    /// Fails unless the lock is still in the store and was renewed in time. Called before an index or a snapshot
    /// is written, and before anything is deleted. A store that does not answer is no reason to wait for ever.
    pub async fn verify(&self) -> Result<()> {
        let lost = |detail: &str| Error::LockLost { detail: detail.to_owned() };
        tokio::select! {
            outcome = tokio::time::timeout(PATIENCE * 2, self.look()) => {
                outcome.unwrap_or_else(|_| Err(lost("the store did not tell in time whether it is still there")))
            }
            () = self.state.lost.cancelled() => Err(lost(TOO_LATE)),
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
            () = lost.cancelled() => Err(Error::LockLost { detail: TOO_LATE.to_owned() }),
        };
        lock.release().await;
        outcome
    }

    fn take_keeper(&self) -> Option<tokio::task::JoinHandle<()>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the lock back. That it cannot be removed is no failure of the work done under it: it grows stale.
    pub async fn release(&self) {
        self.state.stop.cancel();
        let Some(keeper) = self.take_keeper() else { return };
        let _ = keeper.await;
        self.state.give_up_held();
        if tokio::time::timeout(PATIENCE, keep::tidy(&self.repository, &self.state)).await.is_err() {
            tracing::warn!(
                "the store did not answer when our lock was to be removed; it grows stale by itself"
            );
        }
    }
}

/// Waits for `work` unless the caller gives up.
async fn unless_cancelled<T>(options: &LockOptions, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        outcome = work => outcome,
        () = options.cancel.cancelled() => Err(Error::Cancelled),
    }
}

/// Writes a lock. A request that is broken off may still take effect after the lock was removed again, so it gets a
/// moment to end.
async fn write_in_peace(repository: &Repository, lock: file::Sealed, options: &LockOptions) -> Result<()> {
    let mut writing = std::pin::pin!(lock.write(repository));
    tokio::select! {
        outcome = &mut writing => outcome,
        () = options.cancel.cancelled() => {
            let _ = tokio::time::timeout(LAST_MOMENT, writing).await;
            Err(Error::Cancelled)
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

    /// The lock file is now one of those that are to be removed.
    fn give_up_held(&self) {
        let id = self.held().id;
        self.leftover().push(id);
    }

    /// By the wall clock, which goes on while a machine sleeps.
    fn is_overdue(&self) -> bool {
        let age = clock::now().duration_since(self.held().renewed);
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
