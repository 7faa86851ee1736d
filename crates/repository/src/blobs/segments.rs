//! Parts of packs with trees, as stored: read one megabyte at a time; the most recent ones are cached.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::PackId;
use crate::index::{Entry, Index};
use crate::repository::Repository;

const SEGMENT: u64 = 1024 * 1024;
/// The number of cached segments: 16 MiB.
const KEPT: usize = 16;

type SegmentKey = (PackId, u64);
type Slot = Arc<tokio::sync::OnceCell<Bytes>>;

/// The most recently read segments.
#[derive(Debug, Default)]
pub(super) struct Segments {
    kept: Mutex<VecDeque<(SegmentKey, Slot)>>,
}

impl Segments {
    /// The sealed bytes of an entry. Two concurrent readers of a segment share one request.
    pub(super) async fn read(&self, repository: &Repository, index: &Index, entry: &Entry) -> Result<Bytes> {
        let location = entry.location;
        let (offset, end) = (u64::from(location.offset), location.end());
        let start = start_of(entry);
        if end > start + SEGMENT {
            // It crosses a segment border, so it is read separately.
            return read_range(repository, location.pack, offset..end).await;
        }
        let slot = self.slot((location.pack, start));
        let until = (start + SEGMENT).min(index.pack_end(entry.pack_number)).max(end);
        let read = || {
            let reading = read_range(repository, location.pack, start..until);
            repository.cached(Cached::Segment(start), location.pack.0, reading)
        };
        let segment = slot.get_or_try_init(read).await?;
        let part = usize::try_from(offset - start).unwrap_or(0)..usize::try_from(end - start).unwrap_or(0);
        if part.end > segment.len() {
            // The segment was read when the index did not know all blobs of the pack.
            return read_range(repository, location.pack, offset..end).await;
        }
        Ok(segment.slice(part))
    }

    /// Removes the segment of an entry from memory and from the cache, because it differs from the store.
    pub(super) async fn forget(&self, repository: &Repository, entry: &Entry) {
        let (pack, start) = (entry.location.pack, start_of(entry));
        self.kept().retain(|(key, _)| *key != (pack, start));
        repository.forget_cached(Cached::Segment(start), pack.0).await;
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(SegmentKey, Slot)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, key: SegmentKey) -> Slot {
        let mut kept = self.kept();
        let found = kept.iter().position(|(other, _)| *other == key).and_then(|at| kept.remove(at));
        let entry = found.unwrap_or_else(|| (key, Slot::default()));
        let slot = Arc::clone(&entry.1);
        kept.push_back(entry);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        slot
    }
}

fn start_of(entry: &Entry) -> u64 {
    u64::from(entry.location.offset) / SEGMENT * SEGMENT
}

async fn read_range(repository: &Repository, pack: PackId, range: std::ops::Range<u64>) -> Result<Bytes> {
    let action = Error::store(format!("read pack {}", pack.short()));
    repository.store().get_range(&FileKind::Pack.key(pack.0), range).await.map_err(action)
}
