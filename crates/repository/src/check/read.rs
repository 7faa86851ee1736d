//! Reads whole packs, as streams and several concurrently: the hash of a pack must be its ID, its header must match
//! the index, and each blob must decrypt and decompress to the content of its ID. This first pass only separates good
//! packs from bad ones; `suspects` reads the bad ones again and reports what exactly is wrong.

mod suspects;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::packs::KnownPack;
use super::report::Report;
use crate::blobs::nodes::LARGE;
use crate::blobs::{self, BlobReader, MAX_BLOB, sealed};
use crate::config::Version;
use crate::crypto::OVERHEAD;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobKind, Hasher, PackId};
use crate::index::Location;
use crate::pack::PackedBlob;
use crate::progress::Progress;

/// Buffers that grew beyond this are freed: blobs of files have at most 8 MiB.
const KEPT_BUFFER: usize = 16 * 1024 * 1024;

/// Reads `packs` and reports what is wrong with them.
pub(super) async fn read_packs(
    reader: &BlobReader,
    packs: Vec<KnownPack>,
    report: &Report,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    progress.add_total(packs.len() as u64, packs.iter().map(|pack| pack.size).sum());
    progress.total_is_known();
    report.packs_read.fetch_add(packs.len() as u64, Ordering::Relaxed);
    report.bytes_read.fetch_add(packs.iter().map(|pack| pack.size).sum(), Ordering::Relaxed);
    let options = reader.repository().options();
    // Twice as many as threads, so that some read while others compute.
    let workers = (options.threads * 2).min(reader.repository().reads()).clamp(1, packs.len().max(1));
    let waiting = Arc::new(Mutex::new(packs));
    // If this future is dropped, the workers stop, too.
    let stop = cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let running: Vec<_> = (0..workers)
        .map(|_| {
            let (reader, waiting, progress, stop) =
                (reader.clone(), Arc::clone(&waiting), Arc::clone(progress), stop.clone());
            let runtime = Handle::current();
            tokio::task::spawn_blocking(move || work(&reader, &runtime, &waiting, &progress, &stop))
        })
        .collect();
    let mut suspects = Vec::new();
    for worker in running {
        suspects.extend(worker.await.unwrap_or(Err(Error::Cancelled))?);
    }
    suspects.sort_unstable_by_key(|pack: &KnownPack| pack.id);
    suspects::look_again(reader, &suspects, report, cancel).await
}

/// Runs on a thread: reads one pack after the other and returns those with a problem. Each thread keeps its buffers,
/// so that memory is bounded by the number of threads.
fn work(
    reader: &BlobReader,
    runtime: &Handle,
    waiting: &Mutex<Vec<KnownPack>>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Vec<KnownPack>> {
    let mut suspects = Vec::new();
    let mut buffers = (Vec::new(), Vec::new());
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(pack) = next else { return Ok(suspects) };
        match read_pack(reader, runtime, &pack, &mut buffers, progress, cancel) {
            Ok(()) => {}
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(_) => suspects.push(pack),
        }
        progress.add_done(1, 0);
    }
}

/// Runs on a thread: checks one pack completely. Ends at the first problem.
fn read_pack(
    reader: &BlobReader,
    runtime: &Handle,
    pack: &KnownPack,
    buffers: &mut (Vec<u8>, Vec<u8>),
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<()> {
    if cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let repository = reader.repository();
    let listed = runtime.block_on(repository.load_pack_header(pack.id, pack.size))?;
    compare_with_index(reader, pack, &listed)?;
    let action = Error::store(format!("read pack {}", pack.id.short()));
    let reading = runtime.block_on(repository.store().get_stream(&FileKind::Pack.key(pack.id.0)));
    let mut body = reading.map_err(action)?.body;
    let (sealed, plain) = buffers;
    sealed.clear();
    let mut checker =
        PackChecker { reader, pack: pack.id, blobs: &listed, hash: Hasher::new(), sealed, plain };
    while let Some(piece) = runtime.block_on(body.next()) {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let piece = piece.map_err(Error::store(format!("read pack {}", pack.id.short())))?;
        checker.feed(&piece)?;
        progress.add_done(0, piece.len() as u64);
    }
    checker.finish()
}

/// Consumes the chunks of a pack's stream.
struct PackChecker<'a> {
    reader: &'a BlobReader,
    pack: PackId,
    /// The blobs that are still to come.
    blobs: &'a [PackedBlob],
    hash: Hasher,
    /// The part of the next blob that was received so far.
    sealed: &'a mut Vec<u8>,
    plain: &'a mut Vec<u8>,
}

impl PackChecker<'_> {
    fn feed(&mut self, mut piece: &[u8]) -> Result<()> {
        self.hash.update(piece);
        while let Some((blob, rest)) = self.blobs.split_first() {
            let length = blob.length as usize;
            if length > MAX_BLOB as usize + OVERHEAD {
                return Err(Error::damaged(format!("blob {}", blob.id.short()), "it is larger than 1 GiB"));
            }
            let (here, further) = piece.split_at(piece.len().min(length - self.sealed.len()));
            // Never more than the store has: the blobs fill the pack exactly.
            self.sealed.reserve_exact(length - self.sealed.len());
            self.sealed.extend_from_slice(here);
            piece = further;
            if self.sealed.len() < length {
                return Ok(());
            }
            decode(self.reader, self.pack, blob, self.sealed, self.plain)?;
            self.sealed.clear();
            self.sealed.shrink_to(KEPT_BUFFER);
            self.blobs = rest;
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let whole = self.blobs.is_empty() && self.hash.finish() == self.pack.0;
        if whole { Ok(()) } else { Err(mismatch(self.pack)) }
    }
}

fn mismatch(pack: PackId) -> Error {
    Error::damaged(format!("pack {}", pack.short()), "its content does not match its ID")
}

/// Checks a sealed blob.
fn decode(
    reader: &BlobReader,
    pack: PackId,
    blob: &PackedBlob,
    message: &mut [u8],
    plain: &mut Vec<u8>,
) -> Result<()> {
    plain.clear();
    let repository = reader.repository();
    let PackedBlob { kind, id, offset, length, uncompressed_length } = *blob;
    let is_large_tree = kind == BlobKind::Tree && uncompressed_length >= LARGE;
    if is_large_tree
        && repository.config().version != Version::V1
        && sealed::contains(repository.key(), message, true, id, uncompressed_length.into())
    {
        return Ok(());
    }
    let location = Location { pack, offset, length, uncompressed_length };
    let outcome =
        blobs::decode(repository.key(), repository.config().version, kind, &id, &location, message, plain);
    plain.clear();
    plain.shrink_to(KEPT_BUFFER);
    outcome
}

/// The header and the index name the same blobs: each one of the header is in the index, and their numbers are equal.
fn compare_with_index(reader: &BlobReader, pack: &KnownPack, listed: &[PackedBlob]) -> Result<()> {
    let damaged = |detail: String| Error::damaged(format!("pack {}", pack.id.short()), detail);
    if listed.len() != pack.blobs as usize {
        let detail = format!("its header lists {} blobs, the index lists {}", listed.len(), pack.blobs);
        return Err(damaged(detail));
    }
    for blob in listed {
        let PackedBlob { kind, id, offset, length, uncompressed_length } = *blob;
        let location = Location { pack: pack.id, offset, length, uncompressed_length };
        let copies = reader.index().find_all(kind, &id)?;
        if !copies.iter().any(|copy| copy.location == location) {
            return Err(damaged(format!("its header and the index differ in blob {id}")));
        }
    }
    Ok(())
}
