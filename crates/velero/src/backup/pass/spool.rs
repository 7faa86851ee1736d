//! Items that wait for their turn: in a file without a name, so that memory holds their places only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;

use super::locked;

/// Where an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    offset: u64,
    length: usize,
}

/// An item that cannot be read from the file.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the spool: {0}")]
pub(super) struct SpoolError(#[from] io::Error);

/// The file. Small reads and writes of a local file: they do not wait for a disk.
pub(super) struct ItemSpool {
    file: File,
    end: Mutex<u64>,
}

impl ItemSpool {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(directory)?, end: Mutex::new(0) })
    }

    pub(super) fn add(&self, json: &[u8]) -> io::Result<Place> {
        let mut end = locked(&self.end);
        self.file.write_all_at(json, *end)?;
        let place = Place { offset: *end, length: json.len() };
        *end += json.len() as u64;
        Ok(place)
    }

    pub(super) fn read(&self, place: Place) -> Result<Bytes, SpoolError> {
        let mut json = vec![0; place.length];
        self.file.read_exact_at(&mut json, place.offset)?;
        Ok(json.into())
    }
}
