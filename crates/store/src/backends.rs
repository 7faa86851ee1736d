//! The backends: `remote` (S3, Google, Azure through object_store), `rest` (restic's REST server), `local`
//! (a directory), `memory` (tests).

pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod paging;
pub(crate) mod remote;
pub(crate) mod rest;
pub(crate) mod uploads;

use std::ops::Range;

use crate::error::{Error, Result};
use crate::key::Key;

/// The range to read: the whole object, or a non-empty range within it.
pub(crate) fn within(key: &Key, size: u64, range: Option<Range<u64>>) -> Result<Range<u64>> {
    match range {
        None => Ok(0..size),
        Some(range) if range.start < range.end && range.end <= size => Ok(range),
        Some(Range { start, end }) => Err(Error::Range { key: key.to_string(), size, start, end }),
    }
}
