//! The limits of what the gateway uses: concurrent requests, for each task and in total, bytes in temporary files,
//! and bytes of files that are being written to storage. Requests wait for their turn, first come first served; after
//! a minute the response asks the client to try again.
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

/// Requests that move data, in total and of one task. A mover sends three packs and reads four at once.
const BULK: usize = 48;
const BULK_OF_TASK: usize = 8;
/// Other requests: locks, the config, sizes.
const LIGHT: usize = 64;
const LIGHT_OF_TASK: usize = 8;
/// Bytes in temporary files, and of files that are being written to storage. Two packs of the usual size at a time
/// keep storage busy; the others wait on disk.
const SPOOLED: u64 = 128 * 1024 * 1024;
const MEMORY: u64 = 40 * 1024 * 1024;
// The largest file fits, and of the 64 MiB that the gateway may use, 16 MiB are left for connections.
const _: () = assert!(LARGEST <= MEMORY && LARGEST <= SPOOLED);
const _: () = assert!(MEMORY + (BULK * PIECE) as u64 <= 48 * 1024 * 1024);
/// Bytes are counted in units of this size.
const UNIT: u64 = 4 * 1024;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many tasks are known before those without requests are forgotten.
const TASKS: usize = 256;

/// The limits of one gateway.
pub(super) struct Limits {
    bulk: Arc<Semaphore>,
    light: Arc<Semaphore>,
    spooled: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    tasks: Mutex<HashMap<String, Arc<TaskLimits>>>,
    patience: Duration,
}

struct TaskLimits {
    bulk: Arc<Semaphore>,
    light: Arc<Semaphore>,
}

/// The right to carry out one request; given back when it is dropped.
pub(super) struct Turn {
    _of_task: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
    /// Keeps the task known.
    _task: Arc<TaskLimits>,
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
            bulk: Arc::new(Semaphore::new(BULK)),
            light: Arc::new(Semaphore::new(LIGHT)),
            spooled: bytes(SPOOLED),
            memory: bytes(MEMORY),
            tasks: Mutex::default(),
            patience: PATIENCE,
        }
    }
}

impl Limits {
    #[cfg(test)]
    pub(super) fn hasty() -> Self {
        Self { patience: Duration::from_millis(20), ..Self::default() }
    }

    /// Waits for the turn of a request.
    pub(super) async fn turn(&self, task: &str, is_bulk: bool) -> Result<Turn, Refusal> {
        let limits = self.of_task(task);
        let (of_task, of_all) =
            if is_bulk { (&limits.bulk, &self.bulk) } else { (&limits.light, &self.light) };
        let waiting = async {
            let of_task = Arc::clone(of_task).acquire_owned().await.ok()?;
            Some((of_task, Arc::clone(of_all).acquire_owned().await.ok()?))
        };
        match timeout(self.patience, waiting).await {
            Ok(Some((of_task, of_all))) => {
                Ok(Turn { _of_task: of_task, _of_all: of_all, _task: limits.clone() })
            }
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

    fn of_task(&self, task: &str) -> Arc<TaskLimits> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= TASKS && !tasks.contains_key(task) {
            tasks.retain(|_, limits| Arc::strong_count(limits) > 1);
        }
        let made = || {
            Arc::new(TaskLimits {
                bulk: Arc::new(Semaphore::new(BULK_OF_TASK)),
                light: Arc::new(Semaphore::new(LIGHT_OF_TASK)),
            })
        };
        tasks.entry(task.to_owned()).or_insert_with(made).clone()
    }
}

/// No file is larger than the limits.
fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_task_cannot_take_the_turns_of_others_and_locks_have_turns_of_their_own() {
        let limits = Limits::hasty();
        let mut turns = Vec::new();
        for _ in 0..BULK_OF_TASK {
            turns.push(limits.turn("a", true).await.ok().unwrap());
        }
        assert_eq!(limits.turn("a", true).await.err(), Some(Refusal::Busy));
        assert!(limits.turn("b", true).await.is_ok());
        assert!(limits.turn("a", false).await.is_ok());
        turns.pop();
        assert!(limits.turn("a", true).await.is_ok());
    }

    #[tokio::test]
    async fn there_are_no_more_requests_at_once_than_the_limit_says() {
        let limits = Limits::hasty();
        let mut turns = Vec::new();
        for number in 0..BULK {
            turns.push(limits.turn(&format!("task-{number}"), true).await.ok().unwrap());
        }
        assert_eq!(limits.turn("another", true).await.err(), Some(Refusal::Busy));
        drop(turns);
        assert!(limits.turn("another", true).await.is_ok());
    }

    #[tokio::test]
    async fn tasks_without_requests_are_forgotten() {
        let limits = Limits::hasty();
        let kept = limits.turn("kept", false).await;
        for number in 0..3 * TASKS {
            drop(limits.turn(&format!("task-{number}"), false).await);
        }
        let tasks = limits.tasks.lock().unwrap();
        assert!(tasks.len() <= TASKS && tasks.contains_key("kept"), "{}", tasks.len());
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
