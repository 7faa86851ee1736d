//! The limits of what the gateway uses: concurrent requests, for each task, for the repositories of each namespace and
//! in total, bytes in temporary files, and bytes of files that are being written to storage. Requests wait for their
//! turn, first come first served; after a minute the response asks the client to try again.
//!
//! Memory: [`MEMORY`] for files that are being written to storage, [`super::spool::PIECE`] for each upload that is
//! being received, and the buffers of connections, whose number is limited in `serve`. Everything else is streamed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::refusal::Refusal;
use super::rules::LARGEST;
use super::spool::PIECE;

/// Requests at once: those that move data, and others: locks, the config, sizes.
#[derive(Clone, Copy)]
struct AtOnce {
    bulk: usize,
    light: usize,
}

const OF_ALL: AtOnce = AtOnce { bulk: 48, light: 64 };
/// A mover sends three packs and reads four at once.
const OF_TASK: AtOnce = AtOnce { bulk: 8, light: 8 };
/// Of the repositories of one namespace: their storage may not answer, and its requests would keep the turns of others.
const OF_NAMESPACE: AtOnce = AtOnce { bulk: 32, light: 48 };
/// Bytes in temporary files, and of files that are being written to storage. Two packs of the usual size at a time
/// keep storage busy; the others wait on disk.
const SPOOLED: u64 = 128 * 1024 * 1024;
const MEMORY: u64 = 40 * 1024 * 1024;
// The largest file fits, and of the 64 MiB that the gateway may use, 16 MiB are left for connections.
const _: () = assert!(LARGEST <= MEMORY && LARGEST <= SPOOLED);
const _: () = assert!(MEMORY + (OF_ALL.bulk * PIECE) as u64 <= 48 * 1024 * 1024);
/// Bytes are counted in units of this size.
const UNIT: u64 = 4 * 1024;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many tasks and namespaces are known before those without requests are forgotten.
const KNOWN: usize = 256;

/// The limits of one gateway.
pub(super) struct Limits {
    all: Turns,
    spooled: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    tasks: Shares,
    namespaces: Shares,
    patience: Duration,
}

/// The turns that are free.
struct Turns {
    bulk: Arc<Semaphore>,
    light: Arc<Semaphore>,
}

/// The turns of each task, or of each namespace.
struct Shares {
    of_each: AtOnce,
    known: Mutex<HashMap<String, Arc<Turns>>>,
}

/// The right to carry out one request; given back when it is dropped.
pub(super) struct Turn {
    _permits: [OwnedSemaphorePermit; 3],
    /// Keeps the task and the namespace known.
    _shares: [Arc<Turns>; 2],
}

/// The right to hold some bytes.
pub(super) struct Room {
    _permit: OwnedSemaphorePermit,
}

impl Default for Limits {
    fn default() -> Self {
        let bytes =
            |count: u64| Arc::new(Semaphore::new(usize::try_from(count / UNIT).unwrap_or(usize::MAX)));
        Self {
            all: Turns::new(OF_ALL),
            spooled: bytes(SPOOLED),
            memory: bytes(MEMORY),
            tasks: Shares::new(OF_TASK),
            namespaces: Shares::new(OF_NAMESPACE),
            patience: PATIENCE,
        }
    }
}

impl Turns {
    fn new(at_once: AtOnce) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { bulk: places(at_once.bulk), light: places(at_once.light) }
    }

    /// None if the semaphores were closed, which they never are.
    async fn next(&self, is_bulk: bool) -> Option<OwnedSemaphorePermit> {
        let turns = if is_bulk { &self.bulk } else { &self.light };
        Arc::clone(turns).acquire_owned().await.ok()
    }
}

impl Shares {
    fn new(of_each: AtOnce) -> Self {
        Self { of_each, known: Mutex::default() }
    }

    fn of(&self, name: &str) -> Arc<Turns> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN && !known.contains_key(name) {
            known.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        known.entry(name.to_owned()).or_insert_with(|| Arc::new(Turns::new(self.of_each))).clone()
    }
}

impl Limits {
    #[cfg(test)]
    pub(super) fn hasty() -> Self {
        Self { patience: Duration::from_millis(20), ..Self::default() }
    }

    /// Waits for the turn of a request of a task. `repository` is its path, as in `stash/shop/backups`.
    pub(super) async fn turn(&self, task: &str, repository: &str, is_bulk: bool) -> Result<Turn, Refusal> {
        let namespace = repository.rsplit_once('/').map_or(repository, |(namespace, _)| namespace);
        let shares = [self.tasks.of(task), self.namespaces.of(namespace)];
        let waiting = async {
            let of_task = shares[0].next(is_bulk).await?;
            let of_namespace = shares[1].next(is_bulk).await?;
            Some([of_task, of_namespace, self.all.next(is_bulk).await?])
        };
        match timeout(self.patience, waiting).await {
            Ok(Some(permits)) => Ok(Turn { _permits: permits, _shares: shares.clone() }),
            _ => Err(Refusal::Busy),
        }
    }

    /// Waits for room in temporary files.
    pub(super) async fn spool(&self, bytes: u64) -> Result<Room, Refusal> {
        self.room(&self.spooled, bytes).await
    }

    /// Waits for room in memory. A file that is on disk waits as long as it takes: the client has sent it.
    pub(super) async fn memory(&self, bytes: u64) -> Result<Room, Refusal> {
        let permit = Arc::clone(&self.memory).acquire_many_owned(units(bytes)).await;
        permit.map(|permit| Room { _permit: permit }).map_err(|_| Refusal::Busy)
    }

    async fn room(&self, of: &Arc<Semaphore>, bytes: u64) -> Result<Room, Refusal> {
        match timeout(self.patience, Arc::clone(of).acquire_many_owned(units(bytes))).await {
            Ok(Ok(permit)) => Ok(Room { _permit: permit }),
            _ => Err(Refusal::Busy),
        }
    }
}

/// No file is larger than the limits.
fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = "stash/shop/r";

    #[tokio::test]
    async fn one_task_cannot_take_the_turns_of_others_and_locks_have_turns_of_their_own() {
        let limits = Limits::hasty();
        let mut turns = Vec::new();
        for _ in 0..OF_TASK.bulk {
            turns.push(limits.turn("a", SHOP, true).await.ok().unwrap());
        }
        assert_eq!(limits.turn("a", SHOP, true).await.err(), Some(Refusal::Busy));
        assert!(limits.turn("b", SHOP, true).await.is_ok());
        assert!(limits.turn("a", SHOP, false).await.is_ok());
        turns.pop();
        assert!(limits.turn("a", SHOP, true).await.is_ok());
    }

    /// The storage of a namespace that answers nothing keeps no other waiting.
    #[tokio::test]
    async fn the_tasks_of_one_namespaces_repositories_cannot_take_all_turns() {
        let limits = Limits::hasty();
        let mut turns = Vec::new();
        for number in 0..OF_NAMESPACE.light {
            let task = format!("task-{}", number / OF_TASK.light);
            turns.push(limits.turn(&task, SHOP, false).await.ok().unwrap());
        }
        assert_eq!(limits.turn("another", SHOP, false).await.err(), Some(Refusal::Busy));
        assert_eq!(limits.turn("another", "stash/shop/other", false).await.err(), Some(Refusal::Busy));
        assert!(limits.turn("another", "stash/bank/r", false).await.is_ok());
    }

    #[tokio::test]
    async fn there_are_no_more_requests_at_once_than_the_limit_says() {
        let limits = Limits::hasty();
        let mut turns = Vec::new();
        for number in 0..OF_ALL.bulk {
            let (task, repository) = (format!("task-{number}"), format!("stash/team-{number}/r"));
            turns.push(limits.turn(&task, &repository, true).await.ok().unwrap());
        }
        assert_eq!(limits.turn("another", SHOP, true).await.err(), Some(Refusal::Busy));
        drop(turns);
        assert!(limits.turn("another", SHOP, true).await.is_ok());
    }

    #[tokio::test]
    async fn tasks_without_requests_are_forgotten() {
        let limits = Limits::hasty();
        let kept = limits.turn("kept", SHOP, false).await;
        for number in 0..3 * KNOWN {
            drop(limits.turn(&format!("task-{number}"), SHOP, false).await);
        }
        let tasks = limits.tasks.known.lock().unwrap();
        assert!(tasks.len() <= KNOWN && tasks.contains_key("kept"), "{}", tasks.len());
        drop(kept);
    }

    #[tokio::test]
    async fn bytes_on_disk_and_in_memory_are_limited() {
        let limits = Limits::hasty();
        let mut rooms = Vec::new();
        for _ in 0..SPOOLED / LARGEST {
            rooms.push(limits.spool(LARGEST).await.ok().unwrap());
        }
        assert_eq!(limits.spool(1).await.err(), Some(Refusal::Busy));
        drop(rooms);
        assert!(limits.spool(1).await.is_ok());
        let held = limits.memory(LARGEST).await.ok().unwrap();
        let waiting = timeout(Duration::from_millis(20), limits.memory(LARGEST)).await;
        assert!(waiting.is_err(), "the second one waits");
        drop(held);
        assert!(limits.memory(LARGEST).await.is_ok());
    }
}
