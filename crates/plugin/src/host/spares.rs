//! Spare processes of a program. A program that serves one call at a time is busy for minutes when an action answers
//! AreAdditionalItemsReady only once the items are ready. Such a question keeps its process, and the program's other
//! calls go to a spare one until it ends. Quick questions, which are most of them, need no spare, so an action that
//! remembers what it was asked before is asked in one process.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use super::error::PluginError;
use super::process::Process;
use super::slot::{Call, Slot};

/// The question whether the additional items of an item are ready. It may take as long as the item may wait.
pub(crate) const ARE_READY: &str = "AreAdditionalItemsReady";

/// A question that has no answer for this long gives its process's other calls to a spare one.
const LONG: Duration = Duration::from_secs(1);

/// The most spare processes of a program: each takes memory of the server's pod. Also the most questions at once, so
/// that a process is always left for other calls.
const MOST: usize = 4;

/// The long questions of one process, and its spares.
pub(super) struct Spares {
    /// How many long questions run in the process.
    long: watch::Sender<usize>,
    /// How many calls the process takes at once; one until it has said more.
    calls: AtomicUsize,
    /// None if the slot was closed.
    slots: Mutex<Option<Vec<Arc<Slot>>>>,
    turns: Arc<Semaphore>,
}

/// The process that takes a call, and its permit.
pub(super) struct Seat {
    pub(super) slot: Arc<Slot>,
    pub(super) process: Arc<Process>,
    pub(super) permit: OwnedSemaphorePermit,
}

impl Default for Spares {
    fn default() -> Self {
        Self {
            long: watch::Sender::new(0),
            calls: AtomicUsize::new(1),
            slots: Mutex::new(Some(Vec::new())),
            turns: Arc::new(Semaphore::new(MOST)),
        }
    }
}

impl Spares {
    /// Records how many calls a process that was started takes at once.
    pub(super) fn started(&self, calls: usize) {
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// Waits until another question may be asked; None if the slot was closed.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// Returns the spares to close; no more are made.
    pub(super) fn close(&self) -> Vec<Arc<Slot>> {
        self.turns.close();
        self.slots().take().unwrap_or_default()
    }

    /// Runs a call in the process. A question that lasts long is counted until it ends.
    pub(super) async fn run<T>(&self, call: &Call, answer: impl Future<Output = T>) -> T {
        if call.what != ARE_READY {
            return answer.await;
        }
        tokio::pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = sleep(LONG) => {}
        }
        let _long = Long::begin(&self.long);
        answer.await
    }

    fn is_occupied(&self) -> bool {
        *self.long.borrow() >= self.calls.load(Ordering::Relaxed)
    }

    /// Waits until long questions occupy the process.
    async fn occupied(&self) {
        let mut long = self.long.subscribe();
        let calls = &self.calls;
        if long.wait_for(|count| *count >= calls.load(Ordering::Relaxed)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn slots(&self) -> MutexGuard<'_, Option<Vec<Arc<Slot>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the process for a call, and waits for its permit there. When a question turns out to be a long one, calls that
/// wait behind it go elsewhere.
pub(super) async fn seat(slot: &Arc<Slot>, call: &Call) -> Result<Seat, PluginError> {
    loop {
        let Some(chosen) = free(slot) else {
            let (process, permit) = slot.permit(call).await?;
            return Ok(Seat { slot: Arc::clone(slot), process, permit });
        };
        tokio::select! {
            biased;
            permit = chosen.permit(call) => {
                let (process, permit) = permit?;
                return Ok(Seat { slot: Arc::clone(&chosen), process, permit });
            }
            () = chosen.spares.occupied() => {}
        }
    }
}

/// The slot itself, or the first spare that no long question occupies; None if there is no such process.
fn free(slot: &Arc<Slot>) -> Option<Arc<Slot>> {
    if !slot.spares.is_occupied() {
        return Some(Arc::clone(slot));
    }
    let mut slots = slot.spares.slots();
    let spares = slots.as_mut()?;
    if let Some(spare) = spares.iter().find(|spare| !spare.spares.is_occupied()) {
        return Some(Arc::clone(spare));
    }
    if spares.len() >= MOST {
        return None;
    }
    let spare = slot.spare();
    spares.push(Arc::clone(&spare));
    Some(spare)
}

/// A long question, until it ends or is dropped.
struct Long<'a>(&'a watch::Sender<usize>);

impl<'a> Long<'a> {
    fn begin(long: &'a watch::Sender<usize>) -> Self {
        long.send_modify(|count| *count += 1);
        Self(long)
    }
}

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::host::{HostSettings, ServerLog};

    fn slot() -> Arc<Slot> {
        let settings = HostSettings::new("/plugins".into());
        Slot::new("/plugins/p".into(), settings, Arc::new(ServerLog), Arc::default(), false)
    }

    fn call(what: &'static str) -> Call {
        Call { plugin: "example.io/a".into(), what, limit: Duration::from_secs(1), init: None }
    }

    /// A call in a slot that lasts until the sender is used.
    fn running(slot: &Arc<Slot>, what: &'static str) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
        let (end, ended) = oneshot::channel();
        let slot = Arc::clone(slot);
        let task = tokio::spawn(async move {
            slot.spares.run(&call(what), async { drop(ended.await) }).await;
        });
        (end, task)
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_question_gives_other_calls_a_spare_process_until_it_ends() {
        let slot = slot();
        assert!(Arc::ptr_eq(&free(&slot).unwrap(), &slot));
        let (end, task) = running(&slot, ARE_READY);
        slot.spares.occupied().await;
        let spare = free(&slot).unwrap();
        assert!(!Arc::ptr_eq(&spare, &slot));
        assert!(Arc::ptr_eq(&free(&slot).unwrap(), &spare), "one spare is enough");
        end.send(()).unwrap();
        task.await.unwrap();
        assert!(Arc::ptr_eq(&free(&slot).unwrap(), &slot));
    }

    #[tokio::test(start_paused = true)]
    async fn other_calls_wait_for_each_other_however_long_they_take() {
        let slot = slot();
        let (_end, _task) = running(&slot, "Execute");
        sleep(Duration::from_hours(1)).await;
        assert!(Arc::ptr_eq(&free(&slot).unwrap(), &slot));
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_takes_several_calls_has_room_for_long_questions() {
        let slot = slot();
        slot.spares.started(2);
        let (_one, _first) = running(&slot, ARE_READY);
        sleep(Duration::from_mins(1)).await;
        assert!(Arc::ptr_eq(&free(&slot).unwrap(), &slot));
        let (_two, _second) = running(&slot, ARE_READY);
        slot.spares.occupied().await;
        assert!(!Arc::ptr_eq(&free(&slot).unwrap(), &slot));
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_questions_wait_for_their_turn_one_process_is_left_for_other_calls() {
        let slot = slot();
        let mut questions = Vec::new();
        for _ in 0..MOST {
            let turn = slot.spares.turn().await.unwrap();
            let chosen = free(&slot).unwrap();
            questions.push((turn, running(&chosen, ARE_READY), chosen.clone()));
            chosen.spares.occupied().await;
        }
        assert!(slot.spares.turns.try_acquire().is_err(), "the next question waits");
        assert!(free(&slot).is_some());
    }

    #[tokio::test]
    async fn a_closed_slot_makes_no_spares() {
        let slot = slot();
        slot.spares.long.send_modify(|count| *count += 1);
        slot.close().await;
        assert!(free(&slot).is_none() && slot.spares.turn().await.is_none());
    }
}
