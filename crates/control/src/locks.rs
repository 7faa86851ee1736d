//! Locks a mutex whose holder may have panicked. The values behind these mutexes are consistent after every
//! statement, so that one panicked task does not stop all others.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
