//! Locks between clones: a permanent file and a lock on it that the kernel releases when the process ends.
use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

use super::layout::CACHE;
use super::progress;

pub(super) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Waits for the lock; prints the holder if it takes a while.
    pub(super) fn acquire(name: &str, holder: &str) -> Result<Self> {
        fs::create_dir_all(CACHE).with_context(|| format!("cannot create {CACHE}"))?;
        let path = Path::new(CACHE).join(format!("{name}.lock"));
        let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            progress::note(&format!("{holder}; waiting for it"));
        }
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Self(file))
    }
}
