//! Saves blobs: hashes, checks whether the repository has it, compresses, seals, verifies, packs, uploads, and
//! finally writes the index that makes it available. `save` does the CPU work on its caller's thread, so that the
//! caller chooses the number of threads; packs are uploaded by tasks of the runtime, a limited number at a time, and
//! a caller that is faster than the store waits.
//!
//! The order makes it safe: a pack is complete in the store before any index names it, and an index is complete
//! before any snapshot needs it. A crash in between leaves packs that no index names.

mod claims;
mod large_tree;
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
pub(crate) use large_tree::LargeTree;
use packer::{Filling, Packer, SealedBlob};
use pending::PendingIndex;

/// The result of `save`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    pub id: BlobId,
    /// The repository did not have it.
    pub new: bool,
    /// The bytes that it takes in its pack; 0 if the repository already had it.
    pub stored: u64,
}

/// The totals of a saver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaverTotals {
    pub data_blobs: u64,
    pub tree_blobs: u64,
    /// Plain size of new blobs, in bytes.
    pub added: u64,
    /// Their size in packs.
    pub stored: u64,
    pub packs: u64,
    /// Uploaded bytes, with headers and indexes.
    pub uploaded: u64,
}

/// Saves blobs into one repository. Shared by `Arc`.
#[derive(Debug)]
pub struct Saver {
    shared: Arc<Shared>,
    index: Arc<Index>,
    claims: Claims,
    packers: [Mutex<Packer>; 2],
    /// Do everything except storing.
    dry: bool,
    /// Uploads must stop after an error, because the lock may be lost.
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    repository: Repository,
    runtime: Handle,
    lock: Option<Arc<Lock>>,
    cancel: CancellationToken,
    /// One permit per pack in memory: those being uploaded or waiting for that, and one of each kind that is filled.
    room: Arc<Semaphore>,
    /// One permit per upload.
    uploads: Semaphore,
    /// Buffers of uploaded packs, for reuse.
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
    /// `cancel` belongs to this saver: it is cancelled when an upload fails, and when the saver has finished or is
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
            room: Arc::new(Semaphore::new(packs_in_memory(repository) as usize)),
            uploads: Semaphore::new(repository.uploads()),
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

    /// A saver that stores nothing: for a dry run.
    pub fn dry(repository: &Repository, index: Arc<Index>, cancel: CancellationToken) -> Self {
        Self { dry: true, ..Self::start(repository, index, None, cancel) }
    }

    /// The error that stopped it, if there is one.
    pub fn problem(&self) -> Option<Error> {
        self.shared.take_problem()
    }

    /// Saves a blob unless the repository has it. Blocks while uploads are behind: call it from a thread, not from a
    /// task.
    pub fn save(&self, kind: BlobKind, plain: &[u8]) -> Result<Saved> {
        self.save_known(kind, BlobId(Id::of(plain)), plain)
    }

    /// Like `save`, for a caller that already has the ID (and has checked it).
    pub fn save_known(&self, kind: BlobKind, id: BlobId, plain: &[u8]) -> Result<Saved> {
        self.shared.check_running()?;
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

    /// Adds a sealed blob from another pack of the same repository, even if the index has it: for repacking. The
    /// caller has decoded it successfully.
    pub fn save_sealed(
        &self,
        kind: BlobKind,
        id: BlobId,
        sealed: &[u8],
        uncompressed_length: u32,
    ) -> Result<bool> {
        self.shared.check_running()?;
        if !self.claims.claim(kind, id)? {
            return Ok(false);
        }
        self.pack(kind, id, sealed, uncompressed_length)?;
        Ok(true)
    }

    /// Adds a blob again even if the index has it: for repacking with compression.
    pub fn save_again(&self, kind: BlobKind, id: BlobId, plain: &[u8]) -> Result<bool> {
        self.shared.check_running()?;
        if !self.claims.claim(kind, id)? {
            return Ok(false);
        }
        self.seal_and_pack(kind, id, plain)?;
        Ok(true)
    }

    fn pack(&self, kind: BlobKind, id: BlobId, sealed: &[u8], uncompressed_length: u32) -> Result<()> {
        let blob = SealedBlob { kind, id, sealed, uncompressed_length };
        let full = if self.dry { None } else { self.add_to_pack(&blob)? };
        let counters = &self.shared.counters;
        let blobs = if kind == BlobKind::Tree { &counters.tree_blobs } else { &counters.data_blobs };
        blobs.fetch_add(1, Ordering::Relaxed);
        counters.stored.fetch_add(sealed.len() as u64, Ordering::Relaxed);
        full.map_or(Ok(()), |full| upload::start(&self.shared, full))
    }

    /// Adds a blob to the pack of its kind; returns the pack if it is full. Waits for an upload to finish before it
    /// starts another pack, but without the mutex: a thread that waits stops no other.
    fn add_to_pack(&self, blob: &SealedBlob<'_>) -> Result<Option<Filling>> {
        let slot = &self.packers[usize::from(blob.kind == BlobKind::Tree)];
        let mut room = None;
        loop {
            let mut packer = slot.lock().unwrap_or_else(PoisonError::into_inner);
            if packer.is_filling() {
                return packer.add(&self.shared, blob);
            }
            if let Some(room) = room.take() {
                packer.begin(self.shared.begin_pack(blob.kind, room));
                return packer.add(&self.shared, blob);
            }
            drop(packer);
            room = Some(self.shared.wait_for_room()?);
        }
    }

    /// The totals so far.
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

    /// Uploads the remaining packs and writes the index. Only after this may a snapshot name the blobs.
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

    /// Checks by count that all new blobs are in the index, because snapshots rely on it.
    fn is_all_indexed(&self) -> Result<()> {
        let totals = self.totals();
        let (packed, indexed) =
            (totals.data_blobs + totals.tree_blobs, self.shared.counters.indexed.load(Ordering::Relaxed));
        if self.dry || packed == indexed {
            return Ok(());
        }
        let detail = format!("it contains {indexed} of the {packed} new blobs");
        Err(Error::damaged("the new index", detail))
    }
}

/// The number of packs that may be in memory at the same time: two are being filled while others are uploaded.
fn packs_in_memory(repository: &Repository) -> u32 {
    u32::try_from(repository.uploads()).unwrap_or(u32::MAX).saturating_add(2)
}

impl Shared {
    /// Fails after any failure; `finish` returns the original error.
    fn check_running(&self) -> Result<()> {
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
