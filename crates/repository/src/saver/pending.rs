//! Packs that are in the store but in no index file yet.

use jiff::{SignedDuration, Timestamp};

use crate::index::{IndexFile, IndexedPack};

/// An index file is written when it has this many blobs, as in restic,
const MAX_BLOBS: usize = 50_000;
/// or when its first pack has waited this long: indexed data is not stored again after a crash.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(10);

#[derive(Debug, Default)]
pub(super) struct PendingIndex {
    file: IndexFile,
    blobs: usize,
    since: Option<Timestamp>,
}

impl PendingIndex {
    pub(super) fn add(&mut self, pack: IndexedPack, now: Timestamp) {
        self.blobs += pack.blobs().len();
        self.since.get_or_insert(now);
        self.file.packs.push(pack);
    }

    /// The packs to write now: all of them if `all`, otherwise only if the file is full or old enough.
    pub(super) fn take(&mut self, all: bool, now: Timestamp) -> Option<IndexFile> {
        let old = self.since.is_some_and(|since| now.duration_since(since) > MAX_AGE);
        let due = all || old || self.blobs >= MAX_BLOBS;
        (due && self.blobs > 0).then(|| std::mem::take(self).file)
    }
}
