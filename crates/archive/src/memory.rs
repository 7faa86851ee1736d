//! Budgets in bytes for what is read from buckets. A bucket decides how large its files are, and many are read at once:
//! each reader takes its share before it parses, and waits while others have it. Together the budgets stay below the
//! memory of a server with a limit of 1 GiB.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

const MIB: usize = 1024 * 1024;

/// How long a reader waits for its share. Shares are given back within the time of a few requests, except those that
/// whole restores and deletions hold.
const PATIENCE: Duration = Duration::from_mins(10);

/// The memory that was asked for is in use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it needs {needed} bytes of memory, and other backups that are read now use most of the {total} bytes for that; try again \
     when their restores and deletions have ended"
)]
pub struct NoMemory {
    needed: usize,
    total: usize,
}

/// Bytes that readers share. Clones share them.
#[derive(Clone, Debug)]
pub struct Budget {
    free: Arc<Semaphore>,
    total: usize,
    patience: Duration,
}

/// A share of a budget, given back when it is dropped.
#[derive(Debug, Default)]
pub struct Share(Option<OwnedSemaphorePermit>);

impl Share {
    /// Adds `other`, which has to be of the same budget.
    fn add(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Some(own), Some(other)) => own.merge(other),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }
}

impl Budget {
    pub fn new(total: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(total)), total, patience: PATIENCE }
    }

    /// How long [`Self::take`] waits.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits until this share is free. What is larger than the budget takes all of it, and is alone.
    pub async fn take(&self, bytes: usize) -> Result<Share, NoMemory> {
        let (free, share) = (Arc::clone(&self.free), self.share(bytes));
        match timeout(self.patience, free.acquire_many_owned(share)).await {
            Ok(Ok(permit)) => Ok(Share(Some(permit))),
            Ok(Err(_)) | Err(_) => Err(self.refused(bytes)),
        }
    }

    /// Takes a share at once, or not at all. For shares that are held for long: two holders that waited for each other
    /// would not end.
    pub fn try_take(&self, bytes: usize) -> Result<Share, NoMemory> {
        let permit = Arc::clone(&self.free).try_acquire_many_owned(self.share(bytes));
        permit.map(|permit| Share(Some(permit))).map_err(|_| self.refused(bytes))
    }

    /// Makes a share larger.
    pub fn try_extend(&self, share: &mut Share, bytes: usize) -> Result<(), NoMemory> {
        share.add(self.try_take(bytes)?);
        Ok(())
    }

    /// The bytes that are free now.
    pub fn free(&self) -> usize {
        self.free.available_permits()
    }

    fn share(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.total)).unwrap_or(u32::MAX)
    }

    fn refused(&self, needed: usize) -> NoMemory {
        NoMemory { needed, total: self.total }
    }
}

/// The budgets of this process. A reader that needs several takes them in this order.
#[derive(Debug)]
pub struct Memory {
    /// Compressed files in memory.
    pub stored: Budget,
    /// What is being parsed, and items that are being restored or deleted.
    pub work: Budget,
    /// What is held for a whole restore or deletion: indexes of archives, and lists.
    pub held: Budget,
}

impl Memory {
    pub fn of_process() -> &'static Self {
        static MEMORY: LazyLock<Memory> = LazyLock::new(|| Memory {
            stored: Budget::new(64 * MIB),
            work: Budget::new(288 * MIB),
            held: Budget::new(288 * MIB),
        });
        &MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_share_a_budget_and_wait_for_each_other() {
        let budget = Budget::new(100);
        let first = budget.take(60).await.unwrap();
        let second = tokio::spawn({
            let budget = budget.clone();
            async move { budget.take(60).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap().unwrap();
        assert_eq!(budget.free(), 100);
    }

    #[tokio::test]
    async fn what_is_larger_than_the_budget_is_read_alone() {
        let budget = Budget::new(100);
        let all = budget.take(5000).await.unwrap();
        assert_eq!((budget.free(), budget.try_take(1).is_err()), (0, true));
        drop(all);
        assert_eq!(budget.free(), 100);
    }

    #[tokio::test]
    async fn a_reader_does_not_wait_for_ever() {
        let budget = Budget::new(100).with_patience(Duration::ZERO);
        let mut held = budget.try_take(50).unwrap();
        budget.try_extend(&mut held, 50).unwrap();
        let message = budget.take(1).await.unwrap_err().to_string();
        assert!(message.contains("restores and deletions have ended"), "{message}");
    }
}
