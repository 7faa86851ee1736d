//! Collected items that wait to be processed: in an unlinked file, so that memory holds only their offsets.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use lifeboat_control::locked;

/// Where an item is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpoolOffset {
    offset: u64,
    length: usize,
}

/// An item that cannot be read from the file.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the spool: {0}")]
pub(super) struct SpoolError(#[from] io::Error);

/// The file. Reads and writes are small and served by the page cache, so they are synchronous.
pub(super) struct ItemSpool {
    file: File,
    end: Mutex<u64>,
}

impl ItemSpool {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(directory)?, end: Mutex::new(0) })
    }

    pub(super) fn add(&self, json: &[u8]) -> io::Result<SpoolOffset> {
        let mut end = locked(&self.end);
        self.file.write_all_at(json, *end)?;
        let place = SpoolOffset { offset: *end, length: json.len() };
        *end += json.len() as u64;
        Ok(place)
    }

    pub(super) fn read(&self, place: SpoolOffset) -> Result<Bytes, SpoolError> {
        let mut json = vec![0; place.length];
        self.file.read_exact_at(&mut json, place.offset)?;
        Ok(json.into())
    }
}
