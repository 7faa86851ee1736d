//! Saving blobs: hash, look whether it is there, compress, seal, read it back, pack, upload, and at last the index
//! that makes it count. `save` does the CPU work on its caller's thread, so that as many threads as the caller
//! likes work at once; packs are uploaded by tasks of the runtime, a bounded number at a time, and a caller that is
//! faster than the store waits.
//!
//! Order is what makes it safe: a pack is complete in the store before any index names it, and an index is
//! complete before any snapshot needs it. Whatever dies in between leaves packs that nobody names.

mod claims;
mod packer;
mod pending;
mod seal;
mod upload;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Id};
use crate::index::Index;
use crate::lock::Lock;
use crate::repository::Repository;
use claims::Claims;
use packer::Packer;
use pending::PendingIndex;

/// What `save` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    pub id: BlobId,
    /// It was not in the repository.
    pub new: bool,
    /// Bytes that it takes in its pack; 0 if it was there.
    pub stored: u64,
}

/// What was saved in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaverTotals {
    pub data_blobs: u64,
    pub tree_blobs: u64,
    /// Plain bytes of new blobs.
    pub added: u64,
    /// What they take in packs.
    pub stored: u64,
    pub packs: u64,
    /// Bytes that were uploaded, with headers and indexes.
    pub uploaded: u64,
}

/// Saves blobs into one repository. Share it by `Arc`.
#[derive(Debug)]
pub struct Saver {
    shared: Arc<Shared>,
    index: Arc<Index>,
    claims: Claims,
    packers: [Mutex<Packer>; 2],
    /// Everything is done but storing.
    dry: bool,
    /// Uploads must not go on after an error, when the lock may be gone.
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    repository: Repository,
    runtime: Handle,
    lock: Option<Arc<Lock>>,
    cancel: CancellationToken,
    /// One permit for each pack in memory: those being uploaded, and the one being filled.
    permits: Arc<Semaphore>,
    /// Buffers of packs that were uploaded, for the next ones.
    buffers: Mutex<Vec<Vec<u8>>>,
    pending: tokio::sync::Mutex<PendingIndex>,
    problem: Mutex<Option<Error>>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    data_blobs: AtomicU64,
    tree_blobs: AtomicU64,
    added: AtomicU64,
    stored: AtomicU64,
    packs: AtomicU64,
    uploaded: AtomicU64,
    /// Blobs in index files that were written.
    indexed: AtomicU64,
}

impl Saver {
    /// Must be called within a runtime, which carries out the uploads. `lock` is verified before each index file.
    /// `cancel` is this saver's own: it is cancelled when an upload fails, and when the saver has finished or is
    /// dropped.
    pub fn start(
        repository: &Repository,
        index: Arc<Index>,
        lock: Option<Arc<Lock>>,
        cancel: CancellationToken,
    ) -> Self {
        let stop = cancel.clone().drop_guard();
        let shared = Shared {
            repository: repository.clone(),
            runtime: Handle::current(),
            lock,
            cancel,
            permits: Arc::new(Semaphore::new(permits(repository) as usize)),
            buffers: Mutex::new(Vec::new()),
            pending: tokio::sync::Mutex::new(PendingIndex::default()),
            problem: Mutex::new(None),
            counters: Counters::default(),
        };
        Self {
            shared: Arc::new(shared),
            index,
            claims: Claims::new(&repository.options().temporary),
            packers: Default::default(),
            dry: false,
            _stop: stop,
        }
    }

    /// One that stores nothing: for a dry run.
    pub fn dry(repository: &Repository, index: Arc<Index>, cancel: CancellationToken) -> Self {
        Self { dry: true, ..Self::start(repository, index, None, cancel) }
    }

    /// What stopped it, if something did.
    pub fn problem(&self) -> Option<Error> {
        self.shared.take_problem()
    }

    /// Saves a blob unless it is there. Blocks while uploads are behind: call it from a thread, not from a task.
    pub fn save(&self, kind: BlobKind, plain: &[u8]) -> Result<Saved> {
        self.save_known(kind, BlobId(Id::of(plain)), plain)
    }

    /// Like `save`, for a caller that has the id already (and has checked it).
    pub fn save_known(&self, kind: BlobKind, id: BlobId, plain: &[u8]) -> Result<Saved> {
        self.shared.go_on()?;
        let there = Saved { id, new: false, stored: 0 };
        if self.index.has(kind, &id)? || !self.claims.claim(kind, id)? {
            return Ok(there);
        }
        let stored = self.seal_and_pack(kind, id, plain)?;
        let counters = &self.shared.counters;
        counters.added.fetch_add(plain.len() as u64, Ordering::Relaxed);
        Ok(Saved { new: true, stored, ..there })
    }

    /// Whether this run or an earlier one has saved the blob.
    pub fn has(&self, kind: BlobKind, id: &BlobId) -> Result<bool> {
        Ok(self.claims.has(kind, id)? || self.index.has(kind, id)?)
    }

    /// Adds a blob as it is in another pack of the same repository, even if the index has it: for repacking. The
    /// caller has decoded it successfully.
    pub fn save_sealed(
        &self,
        kind: BlobKind,
        id: BlobId,
        sealed: &[u8],
        uncompressed_length: u32,
    ) -> Result<bool> {
        self.shared.go_on()?;
        if !self.claims.claim(kind, id)? {
            return Ok(false);
        }
        self.pack(kind, id, sealed, uncompressed_length)?;
        Ok(true)
    }

    /// Adds a blob again even if the index has it: for repacking with compression.
    pub fn save_again(&self, kind: BlobKind, id: BlobId, plain: &[u8]) -> Result<bool> {
        self.shared.go_on()?;
        if !self.claims.claim(kind, id)? {
            return Ok(false);
        }
        self.seal_and_pack(kind, id, plain)?;
        Ok(true)
    }

    fn pack(&self, kind: BlobKind, id: BlobId, sealed: &[u8], uncompressed_length: u32) -> Result<()> {
        let full = if self.dry {
            None
        } else {
            let slot = &self.packers[usize::from(kind == BlobKind::Tree)];
            slot.lock().unwrap_or_else(PoisonError::into_inner).add(
                &self.shared,
                kind,
                id,
                sealed,
                uncompressed_length,
            )?
        };
        let counters = &self.shared.counters;
        let blobs = if kind == BlobKind::Tree { &counters.tree_blobs } else { &counters.data_blobs };
        blobs.fetch_add(1, Ordering::Relaxed);
        counters.stored.fetch_add(sealed.len() as u64, Ordering::Relaxed);
        full.map_or(Ok(()), |full| upload::start(&self.shared, full))
    }

    /// What was saved so far.
    pub fn totals(&self) -> SaverTotals {
        let counters = &self.shared.counters;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SaverTotals {
            data_blobs: value(&counters.data_blobs),
            tree_blobs: value(&counters.tree_blobs),
            added: value(&counters.added),
            stored: value(&counters.stored),
            packs: value(&counters.packs),
            uploaded: value(&counters.uploaded),
        }
    }

    /// Uploads what is left and writes the index. After this, and not before, a snapshot may name the blobs.
    pub async fn finish(self) -> Result<SaverTotals> {
        for slot in &self.packers {
            let filling = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(filling) = filling {
                upload::start(&self.shared, filling)?;
            }
        }
        upload::wait_for_all(&self.shared).await?;
        upload::save_index(&self.shared, true).await?;
        self.is_all_indexed()?;
        Ok(self.totals())
    }

    /// Whoever names a blob after this relies on an index that has it, so it is counted.
    fn is_all_indexed(&self) -> Result<()> {
        let totals = self.totals();
        let (packed, indexed) =
            (totals.data_blobs + totals.tree_blobs, self.shared.counters.indexed.load(Ordering::Relaxed));
        if self.dry || packed == indexed {
            return Ok(());
        }
        let detail = format!("{indexed} of the {packed} new blobs are in it");
        Err(Error::damaged("the new index", detail))
    }
}

/// Packs that may be in memory at once.
fn permits(repository: &Repository) -> u32 {
    u32::try_from(repository.uploads()).unwrap_or(u32::MAX).saturating_add(1)
}

impl Shared {
    /// Fails once anything has: what went wrong itself is told by `finish`.
    fn go_on(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(self.take_problem().unwrap_or(Error::Cancelled));
        }
        if let Some(lock) = &self.lock
            && lock.lost().is_cancelled()
        {
            return Err(Error::LockLost { detail: "it could not be renewed in time".to_owned() });
        }
        Ok(())
    }

    fn fail(&self, error: Error) {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.cancel.cancel();
    }

    fn take_problem(&self) -> Option<Error> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests;
