//! The connections of each task: the holder of one token must not keep all connections of the gateway, each for half an hour. Whose a
//! connection is shows with the first token on it, so it is counted then, before the body of that request is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections of a task at once. A mover has about ten.
const OF_TASK: usize = 32;

/// How many connections each task has. Clones share it; tasks without connections are not in it.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<Mutex<HashMap<String, usize>>>);

/// One connection, counted until it is dropped.
pub(super) struct Connection {
    all: Connections,
    /// The task whose token came first.
    task: Mutex<Option<String>>,
}

impl Connections {
    /// A new connection, on which no token was shown yet.
    pub(super) fn begin(&self) -> Connection {
        Connection { all: self.clone(), task: Mutex::default() }
    }

    /// Counts a connection of a task. False if it has too many.
    fn add(&self, task: &str) -> bool {
        let mut counts = locked(&self.0);
        let count = counts.get(task).copied().unwrap_or_default();
        if count >= OF_TASK {
            return false;
        }
        counts.insert(task.to_owned(), count + 1);
        true
    }

    fn remove(&self, task: &str) {
        let mut counts = locked(&self.0);
        match counts.get_mut(task) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = counts.remove(task),
        }
    }
}

impl Connection {
    /// Called for each request that has the valid token of a task. False if the connection is one too many of its task.
    pub(super) fn admit(&self, task: &str) -> bool {
        let mut first = locked(&self.task);
        if first.is_none() && self.all.add(task) {
            *first = Some(task.to_owned());
        }
        first.is_some()
    }

    /// Whether a valid token was shown, and there was a place for the connection.
    pub(super) fn is_admitted(&self) -> bool {
        locked(&self.task).is_some()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(task) = locked(&self.task).take() {
            self.all.remove(&task);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_some_connections_and_never_those_of_others() {
        let all = Connections::default();
        let mut of_task: Vec<Connection> = (0..=OF_TASK).map(|_| all.begin()).collect();
        let admitted = of_task.iter().filter(|connection| connection.admit("a")).count();
        assert_eq!(admitted, OF_TASK);
        let last = of_task.pop().unwrap();
        assert!(!last.is_admitted() && of_task.iter().all(Connection::is_admitted));
        let other = all.begin();
        assert!(other.admit("b"));
        // The token of another task does not change whose a connection is.
        assert!(of_task[0].admit("b"));
        of_task.pop();
        assert!(last.admit("a"), "one was given back");
        drop((of_task, last, other));
        assert!(locked(&all.0).is_empty(), "tasks without connections are forgotten");
    }
}
