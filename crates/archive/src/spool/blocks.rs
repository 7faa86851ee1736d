//! The spool file: items are grouped into blocks that are compressed separately, so that reading one item costs one
//! small read.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::{SpoolError, SpoolLimits};

/// The uncompressed size of a block. Items of one type are adjacent, so that most reads find their block in the
/// cache.
const BLOCK: usize = 128 * 1024;
/// The number of blocks that are cached.
const CACHED: usize = 16;
/// How many bytes are written between checks of the free space.
const LOOK_EVERY: u64 = 4 * 1024 * 1024;

/// The position of an item in the spool: its block, and the range within the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpoolOffset {
    pub(super) block: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
    /// The memory that the item needs once it is parsed, in KiB.
    pub(super) weight: u32,
}

/// Writes blocks. The free space is checked at the start and while writing.
pub(super) struct BlockWriter {
    file: File,
    directory: PathBuf,
    open: Vec<u8>,
    /// The end offset of each compressed block.
    ends: Vec<u64>,
    limit: u64,
    reserve: u64,
    looked_at: u64,
}

impl BlockWriter {
    /// `expected` is the size of the archive in storage, if it is known: the spool gets about as large.
    pub(super) fn create(
        directory: &Path,
        expected: Option<u64>,
        limits: &SpoolLimits,
    ) -> Result<Self, SpoolError> {
        let disk = |source| SpoolError::Disk { action: "create", directory: directory.to_owned(), source };
        let file = tempfile::tempfile_in(directory).map_err(disk)?;
        let writer = Self {
            file,
            directory: directory.to_owned(),
            open: Vec::with_capacity(2 * BLOCK),
            ends: Vec::new(),
            limit: limits.spool_bytes,
            reserve: limits.reserve,
            looked_at: 0,
        };
        writer.check_space(expected.unwrap_or(0))?;
        Ok(writer)
    }

    pub(super) fn append(&mut self, item: &[u8], weight: usize) -> Result<SpoolOffset, SpoolError> {
        if !self.open.is_empty() && self.open.len() + item.len() > BLOCK {
            self.flush()?;
        }
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let place = SpoolOffset {
            block: number(self.ends.len()),
            offset: number(self.open.len()),
            length: number(item.len()),
            weight: number(weight.div_ceil(1024)),
        };
        self.open.extend_from_slice(item);
        Ok(place)
    }

    pub(super) fn finish(mut self) -> Result<BlockFile, SpoolError> {
        self.flush()?;
        let Self { file, directory, ends, .. } = self;
        let inner = Arc::new(Inner { file, ends, cache: Mutex::default() });
        Ok(BlockFile { inner, directory, loading: tokio::sync::Mutex::default() })
    }

    fn flush(&mut self) -> Result<(), SpoolError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let begin = self.ends.last().copied().unwrap_or(0);
        let block = zstd::bulk::compress(&self.open, 1).map_err(|source| self.disk("write", source))?;
        let end = begin + block.len() as u64;
        if end > self.limit || end - self.looked_at > LOOK_EVERY {
            self.check_space(end)?;
            self.looked_at = end;
        }
        self.file.write_all_at(&block, begin).map_err(|source| self.disk("write", source))?;
        self.ends.push(end);
        self.open.clear();
        Ok(())
    }

    /// Checks that a file of `total` bytes fits.
    fn check_space(&self, total: u64) -> Result<(), SpoolError> {
        let written = self.ends.last().copied().unwrap_or(0);
        let stat = rustix::fs::fstatvfs(&self.file).map_err(|error| self.disk("measure", error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        // No more than the limit may be used, so the free space is at most what the limit leaves.
        let free = free.min(self.limit.saturating_sub(written));
        let needed = total.saturating_sub(written);
        let reserve = if self.limit == u64::MAX { self.reserve } else { 0 };
        if needed.saturating_add(reserve) > free {
            return Err(SpoolError::Space {
                directory: self.directory.clone(),
                needed: needed + reserve,
                free,
            });
        }
        Ok(())
    }

    fn disk(&self, action: &'static str, source: io::Error) -> SpoolError {
        SpoolError::Disk { action, directory: self.directory.clone(), source }
    }
}

/// Reads blocks.
#[derive(Debug)]
pub(super) struct BlockFile {
    inner: Arc<Inner>,
    directory: PathBuf,
    /// Held while a block is loaded, so that concurrent readers of one block load it once.
    loading: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    ends: Vec<u64>,
    cache: Mutex<VecDeque<(u32, Bytes)>>,
}

impl BlockFile {
    pub(super) fn size(&self) -> u64 {
        self.inner.ends.last().copied().unwrap_or(0)
    }

    pub(super) async fn get(&self, place: SpoolOffset) -> Result<Bytes, SpoolError> {
        let block = match self.inner.cached(place.block) {
            Some(block) => block,
            None => self.load(place.block).await?,
        };
        let range = place.offset as usize..place.offset as usize + place.length as usize;
        if range.end > block.len() {
            return Err(self.disk(io::ErrorKind::InvalidData.into()));
        }
        Ok(block.slice(range))
    }

    async fn load(&self, number: u32) -> Result<Bytes, SpoolError> {
        let _alone = self.loading.lock().await;
        if let Some(block) = self.inner.cached(number) {
            return Ok(block);
        }
        let inner = Arc::clone(&self.inner);
        let loaded = tokio::task::spawn_blocking(move || inner.load(number)).await;
        loaded.map_err(|_| SpoolError::Stopped)?.map_err(|source| self.disk(source))
    }

    fn disk(&self, source: io::Error) -> SpoolError {
        SpoolError::Disk { action: "read", directory: self.directory.clone(), source }
    }
}

impl Inner {
    fn cached(&self, number: u32) -> Option<Bytes> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.iter().find(|(cached, _)| *cached == number).map(|(_, block)| block.clone())
    }

    fn load(&self, number: u32) -> io::Result<Bytes> {
        let at = number as usize;
        let end = *self.ends.get(at).ok_or(io::ErrorKind::InvalidInput)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let mut stored = vec![0; usize::try_from(end - begin).unwrap_or(0)];
        self.file.read_exact_at(&mut stored, begin)?;
        let block = Bytes::from(zstd::stream::decode_all(&stored[..])?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHED {
            cache.pop_front();
        }
        // Caching a large block would keep a large item in memory for little benefit.
        if block.len() <= 2 * BLOCK {
            cache.push_back((number, block.clone()));
        }
        Ok(block)
    }
}
