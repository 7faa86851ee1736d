//! Blobs that this run saves: whoever claims one first saves it. In shards, so that threads rarely meet and no
//! table is ever large enough for its growth to be felt.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::id::{BlobId, BlobKind};

const SHARDS: usize = 64;

#[derive(Debug)]
pub(super) struct Claims {
    shards: [Mutex<HashSet<(BlobKind, BlobId)>>; SHARDS],
}

impl Default for Claims {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Claims {
    /// Whether the caller is the first.
    pub(super) fn claim(&self, kind: BlobKind, id: BlobId) -> bool {
        self.shard(&id).lock().unwrap_or_else(PoisonError::into_inner).insert((kind, id))
    }

    pub(super) fn has(&self, kind: BlobKind, id: &BlobId) -> bool {
        self.shard(id).lock().unwrap_or_else(PoisonError::into_inner).contains(&(kind, *id))
    }

    fn shard(&self, id: &BlobId) -> &Mutex<HashSet<(BlobKind, BlobId)>> {
        &self.shards[usize::from(id.0.0[0]) % SHARDS]
    }
}
