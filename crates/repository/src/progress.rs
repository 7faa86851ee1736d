//! The progress of an operation. The operation updates the counters of a `Progress`, and the display takes a
//! `Reading` of them at any time: hot loops call nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The counters of a running operation. Shared by `Arc`.
#[derive(Debug, Default)]
pub struct Progress {
    files_done: AtomicU64,
    files_total: AtomicU64,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    total_known: AtomicBool,
    errors: AtomicU64,
    step: Mutex<&'static str>,
    current: Mutex<String>,
}

/// The values of the counters at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Files for backup and restore; packs, snapshots or blobs for other operations.
    pub files_done: u64,
    pub files_total: u64,
    pub bytes_done: u64,
    pub bytes_total: u64,
    /// Whether the totals are final; they grow while a scan is running.
    pub total_known: bool,
    pub errors: u64,
    /// The current step, such as "reading the index".
    pub step: &'static str,
    /// The current file.
    pub current: String,
}

impl Progress {
    pub fn add_done(&self, files: u64, bytes: u64) {
        self.files_done.fetch_add(files, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn add_total(&self, files: u64, bytes: u64) {
        self.files_total.fetch_add(files, Ordering::Relaxed);
        self.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn total_is_known(&self) {
        self.total_known.store(true, Ordering::Relaxed);
    }

    pub fn add_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts a new step and resets the counters.
    pub fn begin(&self, step: &'static str) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        for counter in [&self.files_done, &self.files_total, &self.bytes_done, &self.bytes_total] {
            counter.store(0, Ordering::Relaxed);
        }
        self.total_known.store(false, Ordering::Relaxed);
        self.set_current("");
    }

    pub fn set_current(&self, file: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clear();
        current.push_str(file);
    }

    pub fn read(&self) -> Reading {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reading {
            files_done: value(&self.files_done),
            files_total: value(&self.files_total),
            bytes_done: value(&self.bytes_done),
            bytes_total: value(&self.bytes_total),
            total_known: self.total_known.load(Ordering::Relaxed),
            errors: value(&self.errors),
            step: *self.step.lock().unwrap_or_else(PoisonError::into_inner),
            current: self.current.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
