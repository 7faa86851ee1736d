//! Writes used blobs again, from packs that are removed from the index. Several parts of packs are read concurrently;
//! each blob is decrypted and checked before its sealed bytes are copied into a new pack, or compressed if they were
//! not. Memory: the parts in flight, new packs being uploaded, and 48 bytes per blob of a batch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::plan::PrunePlan;
use crate::blobs::nodes::LARGE;
use crate::blobs::{BlobReader, sealed};
use crate::config::Version;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobKind, PackId};
use crate::index::{Entry, Index};
use crate::lock::Lock;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::saver::{Saver, SaverTotals};

/// How many blobs are looked up at a time; a larger prune reads the index several times.
const BATCH: usize = 500_000;
/// How much of a pack is read at a time, unless one blob is larger.
const PART: u64 = 2 << 20;
/// A gap of unused bytes between two blobs up to which both are read with one request.
const GAP: u64 = 256 << 10;

/// Blobs of one pack that are read with one request, sorted by offset.
struct Part {
    pack: PackId,
    start: u64,
    end: u64,
    entries: Vec<Entry>,
}

/// Writes all blobs of the plan again, and the index of the new packs.
pub(super) async fn repack(
    repository: &Repository,
    index: &Arc<Index>,
    plan: &PrunePlan,
    lock: &Arc<Lock>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<SaverTotals> {
    progress.begin("repacking");
    progress.add_total(plan.copies_to_repack.count(), 0);
    // A child token, because a failed upload cancels it. Threads that share the saver stop when this future is
    // dropped.
    let cancel = cancel.child_token();
    let _stop = cancel.clone().drop_guard();
    let saver = Saver::start(repository, Arc::clone(index), Some(Arc::clone(lock)), cancel);
    let worker = Arc::new(Worker {
        reader: BlobReader::new(repository, Arc::clone(index)),
        saver,
        runtime: Handle::current(),
        threads: Semaphore::new(repository.options().threads.max(1)),
        buffers: Mutex::default(),
        compresses: repository.config().version == Version::V2,
    });
    let mut after = None;
    while let Some(batch) = next_batch(index, plan, after).await? {
        after = Some(batch.last);
        let copying = stream::iter(parts(batch.entries)).map(|part| {
            let worker = Arc::clone(&worker);
            async move {
                let count = part.entries.len() as u64;
                let bytes = part.end - part.start;
                worker.copy(part).await?;
                progress.add_done(count, bytes);
                Ok(())
            }
        });
        copying.buffer_unordered(repository.reads()).try_collect::<()>().await?;
    }
    let worker = Arc::into_inner(worker).ok_or(Error::Cancelled)?;
    let totals = worker.saver.finish().await?;
    let blobs = totals.data_blobs + totals.tree_blobs;
    if blobs != plan.copies_to_repack.count() {
        let detail = format!("{blobs} blobs were written, expected {}", plan.copies_to_repack.count());
        return Err(Error::damaged("what was repacked", detail));
    }
    Ok(totals)
}

/// Entries to write again, of as many packs as fit into one batch.
struct Batch {
    entries: Vec<Entry>,
    /// The last pack of the batch, by its number in the index.
    last: u32,
}

/// The entries of the next packs after the pack number `after`. Packs are taken completely, in the order of their
/// numbers, until the batch is full.
async fn next_batch(index: &Arc<Index>, plan: &PrunePlan, after: Option<u32>) -> Result<Option<Batch>> {
    let index = Arc::clone(index);
    let chosen = Arc::clone(&plan.copies_to_repack);
    let gathering = tokio::task::spawn_blocking(move || {
        let is_next = |entry: &Entry| {
            chosen.contains(entry.number) && after.is_none_or(|after| entry.pack_number > after)
        };
        let mut counts = vec![0_u32; index.packs().len()];
        index.for_each(&mut |entry| {
            if is_next(&entry) {
                counts[entry.pack_number as usize] += 1;
            }
            Ok(())
        })?;
        let mut total = 0;
        let mut last = None;
        for (number, count) in (0..).zip(counts).filter(|(_, count)| *count > 0) {
            if total > 0 && total + count as usize > BATCH {
                break;
            }
            total += count as usize;
            last = Some(number);
        }
        let Some(last) = last else { return Ok(None) };
        let mut entries = Vec::with_capacity(total);
        index.for_each(&mut |entry| {
            if is_next(&entry) && entry.pack_number <= last {
                entries.push(entry);
            }
            Ok(())
        })?;
        Ok(Some(Batch { entries, last }))
    });
    gathering.await.unwrap_or(Err(Error::Cancelled))
}

/// Groups adjacent entries that are read together.
fn parts(mut entries: Vec<Entry>) -> Vec<Part> {
    entries.sort_unstable_by_key(|entry| (entry.pack_number, entry.location.offset));
    let mut parts: Vec<Part> = Vec::new();
    for entry in entries {
        let (start, end) = (u64::from(entry.location.offset), entry.location.end());
        match parts.last_mut() {
            Some(part)
                if part.pack == entry.location.pack
                    && start <= part.end.saturating_add(GAP)
                    && end.max(part.end) - part.start <= PART =>
            {
                part.end = part.end.max(end);
                part.entries.push(entry);
            }
            _ => parts.push(Part { pack: entry.location.pack, start, end, entries: vec![entry] }),
        }
    }
    parts
}

struct Worker {
    reader: BlobReader,
    saver: Saver,
    runtime: Handle,
    /// One permit per thread that may compute.
    threads: Semaphore,
    /// Buffers of threads that are idle.
    buffers: Mutex<Vec<Buffers>>,
    compresses: bool,
}

/// Reused from blob to blob.
#[derive(Default)]
struct Buffers {
    opened: Vec<u8>,
    plain: Vec<u8>,
}

impl Worker {
    async fn copy(self: Arc<Self>, part: Part) -> Result<()> {
        let key = FileKind::Pack.key(part.pack.0);
        let action = Error::store(format!("read pack {}", part.pack.short()));
        let store = self.reader.repository().store();
        let content = store.get_range(&key, part.start..part.end).await.map_err(action)?;
        let worker = Arc::clone(&self);
        let _thread = self.threads.acquire().await.map_err(|_| Error::Cancelled)?;
        let copying = tokio::task::spawn_blocking(move || {
            let mut buffers = worker.idle_buffers().pop().unwrap_or_default();
            let mut copy = |entry| worker.copy_blob(entry, part.start, &content, &mut buffers);
            part.entries.iter().try_for_each(&mut copy)?;
            worker.idle_buffers().push(buffers);
            Ok(())
        });
        copying.await.unwrap_or(Err(Error::Cancelled))
    }

    fn idle_buffers(&self) -> MutexGuard<'_, Vec<Buffers>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn copy_blob(&self, entry: &Entry, start: u64, content: &[u8], buffers: &mut Buffers) -> Result<()> {
        let place = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
        let range = place(entry.location.offset.into())..place(entry.location.end());
        let message = content.get(range).unwrap_or_default();
        if self.is_intact_large_tree(entry, message) {
            let length = entry.location.uncompressed_length;
            return self.saver.save_sealed(entry.kind, entry.id, message, length).map(drop);
        }
        let Buffers { opened, plain } = buffers;
        plain.clear();
        opened.clear();
        opened.extend_from_slice(message);
        let decoded = self.reader.decode(entry.kind, &entry.id, &entry.location, opened, plain);
        if let Err(error) = decoded {
            // This copy is damaged; another one may be intact. If there is none, the prune ends before anything is
            // removed.
            tracing::warn!(blob = %entry.id, pack = %entry.location.pack, %error, "a blob to repack is damaged");
            let other = self.runtime.block_on(self.reader.load(entry.kind, &entry.id))?;
            return self.saver.save_again(entry.kind, entry.id, &other).map(drop);
        }
        let compressed = entry.location.uncompressed_length != 0;
        if self.compresses && !compressed {
            return self.saver.save_again(entry.kind, entry.id, plain).map(drop);
        }
        self.saver.save_sealed(entry.kind, entry.id, message, entry.location.uncompressed_length).map(drop)
    }

    /// The compressed tree of a large directory is not decompressed in memory: it has some hundred MiB, or more than
    /// are accepted there.
    fn is_intact_large_tree(&self, entry: &Entry, message: &[u8]) -> bool {
        let length = entry.location.uncompressed_length;
        let key = self.reader.repository().key();
        let is_large = entry.kind == BlobKind::Tree && length >= LARGE && self.compresses;
        is_large && sealed::contains(key, message, true, entry.id, length.into())
    }
}
