//! Reads small contents (directories, manifests, lists, targets of links) in segments of their packs, the last few of which
//! are kept: those of a snapshot are neighbours, and a remote store costs a round trip for each request.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::blobs::Blobs;
use crate::error::Result;
use crate::index::{Location, Pack};

const KEPT: usize = 8;

#[derive(Debug)]
struct Segment {
    pack: String,
    start: u64,
    bytes: Bytes,
}

/// The segments that were read last.
#[derive(Debug)]
pub(super) struct Segments {
    length: u64,
    kept: Mutex<VecDeque<Segment>>,
}

impl Segments {
    pub(super) fn of(length: u64) -> Self {
        Self { length, kept: Mutex::default() }
    }

    /// The sealed bytes of a content.
    pub(super) async fn read(&self, blobs: &Blobs, pack: &Pack, location: &Location) -> Result<Bytes> {
        if let Some(found) = self.find(pack, location) {
            return Ok(found);
        }
        let start = u64::from(location.offset) / self.length * self.length;
        let end = (start + self.length).min(pack.end).max(location.end());
        // The index may say more about the pack than its real length.
        let Ok(bytes) = blobs.range(&pack.name, start..end).await else {
            return blobs.range(&pack.name, location.offset.into()..location.end()).await;
        };
        let part = part(&bytes, start, location).unwrap_or_default();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(Segment { pack: pack.name.clone(), start, bytes });
        Ok(part)
    }

    fn find(&self, pack: &Pack, location: &Location) -> Option<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |segment: &Segment| {
            segment.pack == pack.name && part(&segment.bytes, segment.start, location).is_some()
        };
        let at = kept.iter().position(holds)?;
        let segment = kept.remove(at)?;
        let found = part(&segment.bytes, segment.start, location);
        kept.push_back(segment);
        found
    }
}

fn part(bytes: &Bytes, start: u64, location: &Location) -> Option<Bytes> {
    let from = usize::try_from(u64::from(location.offset).checked_sub(start)?).ok()?;
    let end = from.checked_add(location.length as usize).filter(|end| *end <= bytes.len())?;
    Some(bytes.slice(from..end))
}
